"""Shared by the filters on attributes that are sets: which rows have which elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.columns import Sets
from headgate.reduction.values import Scalar, key_of

__all__ = ["member_keys", "rows_with", "strangers"]

Counts: TypeAlias = NDArray[np.int64]


def member_keys(values: Sequence[Scalar]) -> frozenset[str]:
    return frozenset(key for value in values if (key := key_of(value)) is not None)


def rows_with(sets: Sets, values: Sequence[Scalar]) -> Counts:
    """How many of the different `values` each row has. Cost: linear, plus the unique elements."""
    place = _places(sets, values)
    member = place[sets.elements.codes]
    here = member >= 0
    pairs = np.unique(sets.rows[here] * len(values) + member[here])
    return np.bincount(pairs // len(values), minlength=len(sets.known))


def strangers(sets: Sets, values: Sequence[Scalar]) -> Counts:
    """How many elements of each row are none of `values`; unknown elements are none."""
    outside = _places(sets, values)[sets.elements.codes] < 0
    return np.bincount(sets.rows[outside], minlength=len(sets.known))


def _places(sets: Sets, values: Sequence[Scalar]) -> Counts:
    """For each code of an element its place in `values`, else -1; the last is code -1's."""
    place = {key_of(value): number for number, value in enumerate(values)}
    labels = sets.elements.labels(np.arange(sets.elements.size))
    return np.array([*(place.get(label, -1) for label in labels), -1], np.int64)
