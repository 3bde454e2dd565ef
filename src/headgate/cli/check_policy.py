"""`headgate check-policy`: every problem of a policy at once, or what it would drop."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from headgate.cli.numbers import number, percent
from headgate.cli.plan_tables import spaced
from headgate.cli.terminal import output, print_json
from headgate.errors import PolicyError, Problem, UsageError

if TYPE_CHECKING:
    from headgate.reduction import Policy
    from headgate.reduction.trial import Trial

__all__ = ["check_policy"]

MOST_GROUPS = 10


def check_policy(
    policy_file: Annotated[
        Path, typer.Argument(metavar="POLICY", help="The YAML or XML file with the policy.")
    ],
    sample_file: Annotated[
        Path | None,
        typer.Option("--sample", metavar="EVENTS", help="Events to try it on, one JSON a line."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check a reduction policy, and show what each level would drop of a sample."""
    for module in ("pyarrow", "datasketches"):
        if find_spec(module) is None:
            raise UsageError(f"policies need {module}: pip install 'headgate[reduction]'")
    from headgate.reduction import load_policy
    from headgate.reduction.trial import try_policy

    try:
        policy = load_policy(policy_file)
    except PolicyError as error:
        if not as_json:
            raise
        print_json({"valid": False, "problems": [_problem(p) for p in error.problems]})
        raise typer.Exit(2) from None
    trial = None
    if sample_file is not None:
        trial = try_policy(policy, _sample(sample_file), time.perf_counter)
    if as_json:
        print_json({"valid": True, "policy": _summary(policy), "sample": _trial(trial)})
    else:
        output().print(spaced(_view(policy, trial)))


def _sample(path: Path) -> list[Any]:
    from headgate.reduction.trial import read_sample

    try:
        with path.open(encoding="utf-8") as lines:
            return list(read_sample(lines, str(path)))
    except UnicodeDecodeError:
        raise UsageError(f"{path}: the sample is not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise UsageError(f"cannot read the sample {str(path)!r}: {error.strerror}") from None


def _summary(policy: Policy) -> dict[str, Any]:
    return {
        "name": policy.name,
        "levels": [[f"{f.sense.value} {f.name}" for f in chain] for chain in policy.levels],
        "digests": [kind.title for kind in policy.digests.kinds],
        "digest_group": policy.digests.group,
    }


def _trial(trial: Trial | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    return {
        "events": trial.events,
        "levels": [asdict(level) for level in trial.levels],
        "last_level_in_memory": trial.last_level,
        "digest_of_last_level": trial.digest,
        "mismatches": [_problem(p) for p in trial.mismatches],
    }


def _view(policy: Policy, trial: Trial | None) -> list[RenderableType]:
    valid = Text.assemble(
        (policy.name, "bold"), f" is valid: {_count(len(policy.levels), 'level')}."
    )
    if trial is None:
        return [valid, _levels(policy, None), Text("Give --sample to see what it would drop.")]
    parts: list[RenderableType] = [valid]
    if trial.mismatches:
        misfit = Text("The sample does not fit the policy:\n", style="yellow")
        parts.append(misfit.append("\n".join(f"  {problem}" for problem in trial.mismatches)))
    parts.append(_levels(policy, trial))
    if trial.last_level < len(policy.levels):
        text = f"Level {trial.last_level + 1} has a filter that runs on Spark only; not tried."
        parts.append(Text(text, style="yellow"))
    if trial.levels:
        parts.append(_digests(trial))
    return parts


def _levels(policy: Policy, trial: Trial | None) -> Table:
    table = Table(
        title="" if trial is None else f"On a queue of {trial.events:,} events",
        title_justify="left",
        title_style="",
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.add_column("level", justify="right")
    table.add_column("filters")
    if trial is not None:
        for column in ("dropped", "share", "odd", "us/event"):
            table.add_column(column, justify="right")
    for place, chain in enumerate(policy.levels):
        filters = ", ".join(f"{f.sense.value} {f.name}" for f in chain)
        cells: list[str] = []
        if trial is not None and place < len(trial.levels):
            found = trial.levels[place]
            odd = sum(count.odd for count in found.counts if count.level == found.level)
            share = percent(found.dropped / found.offered)
            cells = [f"{found.dropped:,}", share, f"{odd:,}", number(found.microseconds_per_event)]
        table.add_row(str(place + 1), filters, *cells)
    return table


def _digests(trial: Trial) -> Text:
    text = Text(f"The digest of what level {trial.last_level} drops:\n")
    for label, results in list(trial.digest.items())[:MOST_GROUPS]:
        indent = "  "
        if len(trial.digest) > 1 or label:
            text.append(f"  {label or 'no group'}\n")
            indent = "    "
        for name, value in results.items():
            text.append(f"{indent}{name}: {_shown(value)}\n")
    rest = len(trial.digest) - MOST_GROUPS
    if rest > 0:
        text.append(f"  and {_count(rest, 'more group')}; --json has all\n")
    text.rstrip()
    return text


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(f"{item['value']} ({item['estimate']:,})" for item in value)
    return "none" if value is None else json.dumps(value)


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "file": problem.file,
        "line": problem.line,
        "field": list(problem.field),
        "message": problem.message,
    }
