"""A pair of axes in SVG: values in, shapes out. Pure; knows nothing of the demo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

__all__ = ["Plot", "nice_ticks"]

_LEFT, _RIGHT, _TOP, _BOTTOM = 74.0, 92.0, 42.0, 50.0


def nice_ticks(top: float, about: int) -> list[float]:
    """Round numbers from 0 to at most `top`, about so many.

    >>> nice_ticks(25.2, 5)
    [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]
    """
    rough = top / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * f for f in (1.0, 2.0, 2.5, 5.0, 10.0) if size * f >= 0.75 * rough)
    return [i * step for i in range(int(top / step * (1.0 + 1e-9)) + 1)]


class Plot:
    """x from 0 to `right_value`, y from 0 to `top_value`; `svg` gives what was drawn."""

    def __init__(self, width: float, height: float, right_value: float, top_value: float) -> None:
        self.width, self.height = width, height
        self.right_value, self.top_value = right_value, top_value
        self._shapes: list[str] = [
            f'<rect class="paper" width="{_n(width)}" height="{_n(height)}" rx="8"/>'
        ]

    def band(self, low: float, high: float, style: str) -> None:
        self.bar(low, high, 0.0, self.top_value, style, gap=0.0)

    def bar(
        self, left: float, right: float, low: float, high: float, style: str, gap: float = 1.5
    ) -> None:
        if high <= low:
            return
        x, y = self._x(left) + gap, self._y(high)
        width, height = self._x(right) - self._x(left) - 2 * gap, self._y(low) - y
        box = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
        self._shapes.append(f'<rect class="{style}" {box}/>')

    def path(self, points: Sequence[tuple[float, float]], style: str) -> None:
        if len(points) > 1:
            corners = " L".join(f"{_n(self._x(x))} {_n(self._y(y))}" for x, y in points)
            self._shapes.append(f'<path class="{style}" d="M{corners}"/>')

    def dots(self, points: Sequence[tuple[float, float]], style: str) -> None:
        self._shapes += [
            f'<circle class="{style}" cx="{_n(self._x(x))}" cy="{_n(self._y(y))}" r="3.5"/>'
            for x, y in points
        ]

    def text(
        self, x: float, y: float, text: str, style: str, anchor: str, right: float, down: float
    ) -> None:
        """`right` and `down` move it by pixels."""
        self._label(self._x(x) + right, self._y(y) + down, text, style, anchor)

    def title(self, text: str) -> None:
        self._label(16.0, 26.0, text, "title", "start")

    def grid(self, ticks: Sequence[float], unit: str) -> None:
        for tick in ticks:
            y = self._y(tick)
            ends = f'x1="{_n(_LEFT)}" x2="{_n(self.width - _RIGHT)}" y1="{_n(y)}" y2="{_n(y)}"'
            self._shapes.append(f'<line class="grid" {ends}/>')
            self._label(_LEFT - 8.0, y + 4.0, f"{tick:,g}" if tick < 1e5 else f"{tick:,.0f}",
                        "dim", "end")  # fmt: skip
        middle = (_TOP + self.height - _BOTTOM) / 2.0
        self._shapes.append(
            f'<text class="dim" text-anchor="middle" transform="translate(15 {_n(middle)}) '
            f'rotate(-90)">{escape(unit)}</text>'
        )

    def times(self, ticks: Sequence[float], unit: str) -> None:
        for tick in ticks:
            self._label(self._x(tick), self.height - _BOTTOM + 18.0, f"{tick:g}", "dim", "middle")
        middle = (_LEFT + self.width - _RIGHT) / 2.0
        self._label(middle, self.height - 11.0, unit, "dim", "middle")

    def legend(self, entries: Sequence[tuple[str, str]]) -> None:
        """Small boxes with words, at the right of the axes: (word, style)."""
        for index, (word, style) in enumerate(entries):
            y, x = _TOP + 14.0 + 22.0 * index, self.width - _RIGHT + 10.0
            box = f'x="{_n(x)}" y="{_n(y - 10.0)}" width="12" height="12"'
            self._shapes.append(f'<rect class="{style}" {box}/>')
            self._label(x + 17.0, y, word, "", "start")

    def svg(self, description: str) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="headgate-chart" role="img" '
            f'viewBox="0 0 {_n(self.width)} {_n(self.height)}" '
            f'width="{_n(self.width)}" height="{_n(self.height)}" '
            f'aria-label="{escape(description)}">'
        )
        return head + "\n".join(self._shapes) + "</svg>"

    def _label(self, x: float, y: float, text: str, style: str, anchor: str) -> None:
        place = f'x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"'
        self._shapes.append(f'<text class="{style}" {place}>{escape(text)}</text>')

    def _x(self, value: float) -> float:
        return _LEFT + value / self.right_value * (self.width - _LEFT - _RIGHT)

    def _y(self, value: float) -> float:
        bottom = self.height - _BOTTOM
        return bottom - value / self.top_value * (bottom - _TOP)


def _n(value: float) -> str:
    """A tenth of a pixel is enough."""
    return f"{value:.1f}".removesuffix(".0")
