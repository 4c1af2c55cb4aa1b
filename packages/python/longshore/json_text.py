"""JSON as the client sends and reads it: integers with all their digits, which Python limits to 4,300 by default."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any, Mapping, Union

PIECE_DIGITS = 600
"""Python reads and prints so many in any process: the lowest limit that can be set is 640."""


def to_json(value: Any) -> str:
    """JSON with all digits of integers and Decimals. Raises TypeError or ValueError for what JSON cannot say."""
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value)
    if isinstance(value, int):
        return _digits(int(value))
    if isinstance(value, (float, Decimal)):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number of JSON")
        return float.__repr__(value) if isinstance(value, float) else str(value)
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"the name of a field must be a str, not {name!r}")
        return "{" + ",".join(f"{json.dumps(name)}:{to_json(each)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(to_json, value)) + "]"
    raise TypeError(f"{type(value).__name__} is no type of JSON")


def from_json(text: Union[str, bytes], *, decimals: bool = False) -> Any:
    """Reads JSON, integers of any length. decimals: fractions as Decimal, else as float. Raises ValueError."""
    return json.loads(text, parse_int=_integer, parse_float=Decimal if decimals else float)


def _integer(digits: str) -> int:
    if len(digits) <= PIECE_DIGITS:
        return int(digits)
    if digits.startswith("-"):
        return -_integer(digits[1:])
    low = len(digits) // 2
    shift: int = 10**low
    return _integer(digits[:-low]) * shift + _integer(digits[-low:])


def _digits(value: int) -> str:
    if value < 0:
        return "-" + _digits(-value)
    most = value.bit_length() * 3 // 10 + 1
    if most <= PIECE_DIGITS:
        return str(value)
    low = most // 2
    above, below = divmod(value, 10**low)
    return _digits(above) + _digits(below).zfill(low)
