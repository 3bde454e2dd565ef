"""Load a policy from a file or a text, YAML or XML, with every error at once."""

from __future__ import annotations

import os
from pathlib import Path as FilePath

from headgate.errors import PolicyError, Problem, UsageError
from headgate.network.validation import nearest
from headgate.network.yaml_fields import Document
from headgate.reduction.policy import Policy, check_draft
from headgate.reduction.policy_xml import read_xml
from headgate.reduction.policy_yaml import read_yaml

__all__ = ["MAX_POLICY_BYTES", "MAX_PROBLEMS", "load_policy", "parse_policy"]

MAX_POLICY_BYTES = 64_000
MAX_PROBLEMS = 100


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """The policy in the file. XML if its first character is '<', else YAML.

    Raises PolicyError with every problem, each with its line, and UsageError if there is
    no file that can be read. Files above 64 kB are refused unread.
    """
    file = FilePath(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_POLICY_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no file {str(file)!r}{_nearest_file(file)}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot read the policy {str(file)!r}: {reason}; give the path of a YAML or XML file"
        ) from None
    if len(data) > MAX_POLICY_BYTES:
        raise PolicyError([_too_large(str(file))])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = "the file is not UTF-8 text; save it as UTF-8"
        raise PolicyError([Problem((), message, str(file), line)]) from None
    return parse_policy(text, file=str(file))


def parse_policy(text: str, file: str = "<text>") -> Policy:
    """The policy that `text` describes; `file` is what problems call it.

    Raises PolicyError with every problem, in the order of lines, and nothing else.
    """
    if len(text) > MAX_POLICY_BYTES:
        raise PolicyError([_too_large(file)])
    document = Document(file)
    read = read_xml if text.lstrip().startswith("<") else read_yaml
    draft = read(document, text)
    policy = None
    if draft is not None:
        policy, problems = check_draft(draft)
        document.add_semantic(problems)
    if document.problems or policy is None:
        raise PolicyError(_in_order(document.problems, file))
    return policy


def _too_large(file: str) -> Problem:
    message = f"the file is larger than {MAX_POLICY_BYTES:,} bytes; a policy has a few lines"
    return Problem((), message, file, 1)


def _in_order(problems: list[Problem], file: str) -> list[Problem]:
    ordered = sorted(problems, key=lambda problem: problem.line or 0)
    cleaned = [Problem((), p.message, p.file, p.line) if p.field == ("?",) else p for p in ordered]
    more = len(cleaned) - MAX_PROBLEMS
    if more > 0:
        message = f"{more} more problems; correct those above first"
        cleaned[MAX_PROBLEMS:] = [Problem((), message, file, cleaned[MAX_PROBLEMS].line)]
    return cleaned or [Problem((), "the policy cannot be read", file, 1)]


def _nearest_file(file: FilePath) -> str:
    try:
        near = [p.name for p in file.parent.iterdir() if p.suffix in (".yaml", ".yml", ".xml")]
    except OSError:
        return f"; there is no directory {str(file.parent)!r} either: check the path"
    return nearest(file.name, near) if near else "; check the path"
