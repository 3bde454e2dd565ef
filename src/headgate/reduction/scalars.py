"""What an unquoted word in a policy file means: a number, true, false or text."""

from __future__ import annotations

import re

from headgate.reduction.values import Scalar

__all__ = ["plain_scalar"]

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_LONGEST = 64


def plain_scalar(text: str) -> Scalar:
    """Only `true` and `false` are truth values; `no`, `on` and `1:30` are texts.

    >>> plain_scalar("5"), plain_scalar("0.5"), plain_scalar("true"), plain_scalar("no")
    (5, 0.5, True, 'no')
    """
    if text in ("true", "false"):
        return text == "true"
    if len(text) <= _LONGEST and _NUMBER.fullmatch(text):
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    return text
