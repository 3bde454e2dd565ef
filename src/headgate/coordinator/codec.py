"""Frozen data as JSON and back, by the types that dataclasses and named tuples declare.

`encode` writes a value, `decode` reads one of a declared type and refuses anything
else with the path of the field. A value of a union is written with its type's name.
Nothing is imported, called or evaluated because a text says so.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from headgate.errors import UsageError

__all__ = ["decode", "encode", "to_line"]

_PRIMITIVES = (str, bool, int, float)


def to_line(value: Any) -> str:
    """One line of JSON, always the same for equal values."""
    return json.dumps(encode(value), separators=(",", ":"), sort_keys=True)


def encode(value: Any) -> Any:
    """Plain JSON data; records become objects that carry their type's name."""
    kind: type = type(value)
    if _is_record(kind):
        return {"type": kind.__name__, **{n: encode(getattr(value, n)) for n in _names(kind)}}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: encode(item) for key, item in value.items()}
        return [[encode(key), encode(item)] for key, item in value.items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [encode(item) for item in value]
    return value


def decode(data: Any, wanted: Any, where: str = "value") -> Any:
    """A value of the declared type `wanted`, or UsageError with the field that is wrong."""
    if wanted is Any:
        return data
    origin = get_origin(wanted)
    if origin in (Union, types.UnionType):
        return _decode_union(data, get_args(wanted), where)
    if origin is tuple:
        return _decode_tuple(data, get_args(wanted), where)
    if origin is not None and issubclass(origin, Mapping):
        return _decode_mapping(data, get_args(wanted), where)
    if _is_record(wanted):
        return _decode_record(data, wanted, where)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        try:
            return wanted(data)
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from None
    return _decode_primitive(data, wanted, where)


def _decode_primitive(data: Any, wanted: Any, where: str) -> Any:
    if wanted is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if wanted in _PRIMITIVES and type(data) is wanted:
        return data
    raise UsageError(f"{where}: expected {getattr(wanted, '__name__', wanted)}, got {data!r}")


def _decode_union(data: Any, options: tuple[Any, ...], where: str) -> Any:
    if data is None and type(None) in options:
        return None
    options = tuple(option for option in options if option is not type(None))
    if len(options) == 1:
        return decode(data, options[0], where)
    name = data.get("type") if isinstance(data, dict) else None
    for option in options:
        if _is_record(option) and option.__name__ == name:
            return decode(data, option, where)
    plain = [option for option in options if option in _PRIMITIVES]
    for option in plain:
        if type(data) is option:
            return data
    raise UsageError(f"{where}: {name or data!r} is none of {', '.join(map(str, options))}")


def _decode_tuple(data: Any, arguments: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise UsageError(f"{where}: expected a list, got {data!r}")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(decode(x, arguments[0], f"{where}[{i}]") for i, x in enumerate(data))
    if len(arguments) != len(data):
        raise UsageError(f"{where}: expected {len(arguments)} values, got {len(data)}")
    return tuple(
        decode(x, a, f"{where}[{i}]") for i, (x, a) in enumerate(zip(data, arguments, strict=True))
    )


def _decode_mapping(data: Any, arguments: tuple[Any, Any], where: str) -> dict[Any, Any]:
    key_type, value_type = arguments
    if isinstance(data, dict):
        pairs = list(data.items())
    elif isinstance(data, list) and all(isinstance(x, list) and len(x) == 2 for x in data):
        pairs = [(x[0], x[1]) for x in data]
    else:
        raise UsageError(f"{where}: expected a mapping, got {data!r}")
    return {
        decode(k, key_type, f"{where} key"): decode(v, value_type, f"{where}.{k}") for k, v in pairs
    }


def _decode_record(data: Any, wanted: type, where: str) -> Any:
    if not isinstance(data, dict):
        raise UsageError(f"{where}: expected {wanted.__name__}, got {data!r}")
    hints = _hints(wanted)
    unknown = sorted(set(data) - set(hints) - {"type"})
    if unknown:
        raise UsageError(f"{where}: {wanted.__name__} has no field {', '.join(unknown)}")
    values = {
        name: decode(data[name], hint, f"{where}.{name}")
        for name, hint in hints.items()
        if name in data
    }
    try:
        return wanted(**values)
    except TypeError as error:
        raise UsageError(f"{where}: {error}") from None


@cache
def _hints(wanted: type) -> dict[str, Any]:
    hints = get_type_hints(wanted)
    return {name: hints[name] for name in _names(wanted)}


@cache
def _names(record: type) -> tuple[str, ...]:
    if is_dataclass(record):
        return tuple(field.name for field in fields(record))
    named: tuple[str, ...] = record._fields  # type: ignore[attr-defined]
    return named


def _is_record(kind: object) -> bool:
    """True for the type of a dataclass or of a named tuple."""
    if not isinstance(kind, type):
        return False
    return is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
