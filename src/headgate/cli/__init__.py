"""The command `headgate`: what a person types, and what they see.

One module a command (`plan`, `check`, `reproduce`, `demo`), each a thin shell around
the layers below. Anything wrong with the input ends in one red paragraph on stderr
and exit code 2; a traceback is always a bug.
"""

from headgate.cli.app import app, main

__all__ = ["app", "main"]
