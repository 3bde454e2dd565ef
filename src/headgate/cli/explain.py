"""`headgate explain`: why tuples of a query were dropped at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.terminal import output
from headgate.coordinator import explain as explain_journal
from headgate.coordinator import read_journal
from headgate.errors import UsageError
from headgate.names import nearest
from headgate.quantities import DURATION

__all__ = ["explain"]


def explain(
    journal_file: Annotated[
        Path, typer.Argument(metavar="JOURNAL", help="The journal of a coordinator.")
    ],
    query: Annotated[str, typer.Option(help="The query (or job) that lost tuples.")],
    at: Annotated[str, typer.Option(metavar="TIME", help="When, for example 12.5s.")],
) -> None:
    """Say in one sentence why tuples of a query were dropped, or kept, at a time."""
    try:
        seconds = DURATION.parse(at)
    except ValueError as error:
        raise UsageError(f"--at {at}: {error}") from None
    try:
        with journal_file.open(encoding="utf-8") as lines:
            settings, entries = read_journal(lines)
            if query not in settings.queries:
                hint = nearest(query, settings.queries)
                raise UsageError(
                    f"--query {query}: no such query in the journal{hint}. A simulated network "
                    "decides for jobs, the parts of it that run together (the table Jobs)"
                )
            text = explain_journal(entries, query, seconds)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the journal {str(journal_file)!r}: {error}") from None
    output().print(text, soft_wrap=True)
