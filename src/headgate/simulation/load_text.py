"""Loads as a person types them: ``orders=flash:base=1000,peak=3000,at=20,for=10``.

    constant:100                                     the same rate for ever; just 100 will do
    steps:50,100,150@10                              each for 10 s, then from the beginning
    flash:base=1000,peak=3000,at=20,for=10           a crowd
    onoff:on=500,off=50,for=5,pause=20,seed=1        random bursts
    poisson:steps:50,100@10                          random arrivals at the rate of another load
    trace:FILE,scale=60,factor=0.1,column=requests   a recorded load, an hour in a minute

Parsing is pure: who knows how to read a file passes the function in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from headgate.errors import UsageError
from headgate.names import nearest
from headgate.quantities import DURATION, RATE
from headgate.simulation.arrivals import Arrivals, Constant, FlashCrowd, OnOff, Poisson, Steps
from headgate.simulation.trace_file import RecordedLoad

__all__ = ["ReadTrace", "parse_load", "parse_loads"]

ReadTrace = Callable[[str], RecordedLoad]


def parse_loads(
    texts: Sequence[str], streams: Mapping[str, float | None], read_trace: ReadTrace
) -> dict[str, Arrivals]:
    """Arrivals by stream. A stream without a load has its usual rate, evenly spaced.

    Every wrong entry is reported at once.
    """
    loads: dict[str, Arrivals] = {}
    wrong: list[str] = []
    for text in texts:
        name, equals, load = text.partition("=")
        name = name.strip()
        try:
            if not equals or ":" in name:
                raise UsageError("expected stream=load, for example orders=constant:100")
            if name not in streams:
                raise UsageError(f"unknown stream {name!r}{nearest(name, streams)}")
            if name in loads:
                raise UsageError(f"the stream {name!r} is given twice; keep one")
            loads[name] = parse_load(load.strip(), read_trace)
        except UsageError as error:
            wrong.append(f"--load {text}: {error}")
    for name, rate in streams.items():
        if name not in loads and not wrong:
            if rate is None:
                wrong.append(f"no load for stream {name!r}; give one: --load {name}=constant:100")
            else:
                loads[name] = Constant(rate)
    if wrong:
        raise UsageError("\n".join(wrong))
    return loads


def parse_load(text: str, read_trace: ReadTrace) -> Arrivals:
    """One load, without the name of a stream."""
    kind, colon, rest = text.partition(":")
    if not colon:
        return _checked(Constant(_rate(text)))
    kinds: dict[str, Callable[[str], Arrivals]] = {
        "constant": lambda body: Constant(_rate(body)),
        "steps": _steps,
        "flash": _flash,
        "onoff": _on_off,
        "poisson": lambda body: Poisson(parse_load(body, read_trace)),
        "trace": lambda body: _trace(body, read_trace),
    }
    if kind not in kinds:
        raise UsageError(f"unknown kind of load {kind!r}{nearest(kind, kinds)}")
    return _checked(kinds[kind](rest.strip()))


def _checked(load: Arrivals) -> Arrivals:
    load.profile_until(0.0)  # raises on impossible numbers
    return load


def _steps(body: str) -> Arrivals:
    rates, at, length = body.partition("@")
    if not at:
        raise UsageError("expected rates and the length of a step: steps:50,100,150@10")
    return Steps(tuple(_rate(part) for part in rates.split(",")), _seconds(length))


def _flash(body: str) -> Arrivals:
    given = _fields(body, ("base", "peak", "at", "for"))
    return FlashCrowd(
        _rate(given["base"]), _rate(given["peak"]), _seconds(given["at"]), _seconds(given["for"])
    )


def _on_off(body: str) -> Arrivals:
    given = _fields(body, ("on", "for", "pause"), {"off": "0", "seed": "1"})
    seed = _number(given["seed"], "seed")
    return OnOff(
        _rate(given["on"]),
        _rate(given["off"]),
        _seconds(given["for"]),
        _seconds(given["pause"]),
        int(seed),
    )


def _trace(body: str, read_trace: ReadTrace) -> Arrivals:
    file, _, rest = body.partition(",")
    given = _fields(rest, (), {"scale": "1", "factor": "1", "step": "", "column": ""})
    return read_trace(file.strip()).trace(
        _number(given["scale"], "scale"),
        _number(given["factor"], "factor"),
        _seconds(given["step"]) if given["step"] else None,
        given["column"] or None,
    )


def _fields(
    body: str, needed: Sequence[str], defaults: Mapping[str, str] | None = None
) -> dict[str, str]:
    """name=value pairs; says which are unknown or missing."""
    given = dict(defaults or {})
    known = (*needed, *given)
    for part in (piece.strip() for piece in body.split(",")):
        if not part:
            continue
        name, equals, value = part.partition("=")
        if not equals or name.strip() not in known:
            raise UsageError(f"unexpected {part!r}; known are {', '.join(known)}")
        given[name.strip()] = value.strip()
    missing = [name for name in needed if name not in given]
    if missing:
        raise UsageError(f"missing {', '.join(missing)}")
    return given


def _rate(text: str) -> float:
    try:
        return RATE.parse(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _seconds(text: str) -> float:
    try:
        return DURATION.parse(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _number(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0.0):
        raise UsageError(f"{name} must be a number of at least 0, got {text!r}")
    return value
