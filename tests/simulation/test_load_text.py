from __future__ import annotations

import pytest

from headgate.errors import UsageError
from headgate.simulation.arrivals import Constant, FlashCrowd, OnOff, Poisson, Steps, Trace
from headgate.simulation.load_text import parse_load, parse_loads
from headgate.simulation.trace_file import RecordedLoad, parse_recorded_load

CSV = "minute,requests,errors\n1998-06-24 21:40:00,120,1\n1998-06-24 21:41:00,60,2\n"


def no_file(name: str) -> RecordedLoad:
    raise UsageError(f"no file {name}")


def recorded(name: str) -> RecordedLoad:
    return parse_recorded_load(CSV, name)


@pytest.mark.parametrize(
    ("text", "load"),
    [
        ("100", Constant(100.0)),
        ("constant:100/s", Constant(100.0)),
        ("steps:50,100,150@10", Steps((50.0, 100.0, 150.0), 10.0)),
        ("flash:base=1000,peak=3000,at=20,for=10", FlashCrowd(1000.0, 3000.0, 20.0, 10.0)),
        ("flash:base=60/min,peak=3,at=500ms,for=1min", FlashCrowd(1.0, 3.0, 0.5, 60.0)),
        ("poisson:7", Poisson(Constant(7.0))),
        ("poisson:steps:1,2@3", Poisson(Steps((1.0, 2.0), 3.0))),
        ("onoff:on=5,for=1,pause=2,seed=3", OnOff(5.0, 0.0, 1.0, 2.0, 3)),
        ("trace:x.csv,scale=60", Trace((2.0, 1.0), 60.0, 60.0)),
        ("trace:x.csv,column=errors,factor=60,step=60s", Trace((1.0, 2.0), 60.0, 1.0)),
    ],
)
def test_what_a_person_types(text: str, load: object) -> None:
    assert parse_load(text, recorded) == load


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wave:3", "unknown kind of load"),
        ("steps:1,2", "length of a step"),
        ("flash:base=1", "missing peak, at, for"),
        ("flash:base=1,high=2", "unexpected 'high=2'"),
        ("constant:many", "expected a number"),
        ("constant:-5", "at least 0"),
        ("trace:x.csv,scale=no", "scale must be a number"),
        ("trace:x.csv,column=none", "no column 'none'"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_load(text, recorded)


def test_streams_without_a_load_have_their_usual_rate() -> None:
    loads = parse_loads(["b=5"], {"a": 3.0, "b": None}, no_file)
    assert loads == {"b": Constant(5.0), "a": Constant(3.0)}


def test_all_wrong_entries_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        parse_loads(
            ["a=wave:1", "c=1", "constant:100", "b=1", "b=2"], {"a": 1.0, "b": 1.0}, no_file
        )
    text = str(caught.value)
    assert text.count("--load") == 4
    assert "given twice" in text


def test_a_stream_without_any_rate() -> None:
    with pytest.raises(UsageError, match="no load for stream 'a'"):
        parse_loads([], {"a": None}, no_file)


def test_recorded_load() -> None:
    load = parse_recorded_load(CSV)
    assert load.step_seconds == 60.0
    assert load.values() == (120.0, 60.0)
    assert parse_recorded_load("n,v\n0,5\n1,6\n").step_seconds is None
    for wrong in ("", "a,b\n", "a,b\n1,x\n", "a,b\n1\n", "a,b\n1,-2\n"):
        with pytest.raises(UsageError):
            parse_recorded_load(wrong)
