"""Load a policy from a file or a text, YAML or XML, with every error at once."""

from __future__ import annotations

import os

from headgate.errors import PolicyError, Problem
from headgate.network.text_file import TextFileError, TextFileKind, read_text_file
from headgate.network.yaml_fields import Document
from headgate.reduction.policy import Policy, check_draft
from headgate.reduction.policy_xml import read_xml
from headgate.reduction.policy_yaml import read_yaml

__all__ = ["MAX_POLICY_BYTES", "MAX_PROBLEMS", "load_policy", "parse_policy"]

MAX_POLICY_BYTES = 64_000
MAX_PROBLEMS = 100

_FILE = TextFileKind(
    "policy", (".yaml", ".yml", ".xml"), MAX_POLICY_BYTES, "a policy has a few lines"
)


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """The policy in the file. XML if its first character is '<', else YAML.

    Raises PolicyError with every problem, each with its line, and UsageError if there is
    no file that can be read. Files above 64 kB are refused unread.
    """
    try:
        text = read_text_file(path, _FILE)
    except TextFileError as error:
        raise PolicyError([Problem((), error.message, str(path), error.line)]) from None
    return parse_policy(text, file=str(path))


def parse_policy(text: str, file: str = "<text>") -> Policy:
    """The policy that `text` describes; `file` is what problems call it.

    Raises PolicyError with every problem, in the order of lines, and nothing else.
    """
    if len(text) > MAX_POLICY_BYTES:
        raise PolicyError([Problem((), _FILE.too_large(), file, 1)])
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


def _in_order(problems: list[Problem], file: str) -> list[Problem]:
    ordered = sorted(problems, key=lambda problem: problem.line or 0)
    cleaned = [Problem((), p.message, p.file, p.line) if p.field == ("?",) else p for p in ordered]
    more = len(cleaned) - MAX_PROBLEMS
    if more > 0:
        message = f"{more} more problems; correct those above first"
        cleaned[MAX_PROBLEMS:] = [Problem((), message, file, cleaned[MAX_PROBLEMS].line)]
    return cleaned or [Problem((), "the policy cannot be read", file, 1)]
