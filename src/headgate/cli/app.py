"""The application: its commands, `--version`, and how an error is shown."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from headgate import __version__
from headgate.cli import check, check_policy, demo, explain, plan, reproduce, run, simulate
from headgate.cli.terminal import errors, output
from headgate.errors import HeadgateError

__all__ = ["app", "main"]

BAD_INPUT = 2


class _HeadgateGroup(TyperGroup):
    """Shows what Headgate raises on purpose as a message instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except HeadgateError as error:
            message = Text.assemble(("Error: ", "bold red"), (str(error), "red"))
            errors().print(message, soft_wrap=True)  # paths and names stay whole
            raise typer.Exit(BAD_INPUT) from None


app = typer.Typer(
    name="headgate",
    cls=_HeadgateGroup,
    help="Overload management for stream processing: what to drop, where, how much and for whom.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(plan.plan)
app.command()(check.check)
app.command()(check_policy.check_policy)
app.command()(simulate.simulate)
app.command()(run.run)
app.command()(explain.explain)
app.command()(reproduce.reproduce)
app.command()(demo.demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        output().print(f"headgate {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _settings(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    del version  # its callback has done the work


def main() -> None:
    """The entry point of the installed command."""
    app()
