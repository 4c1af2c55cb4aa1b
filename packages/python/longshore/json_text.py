"""JSON as the client sends it."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any, Mapping


def to_json(value: Any) -> str:
    """JSON with all digits of integers and Decimals. Raises TypeError or ValueError for what JSON cannot say."""
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value)
    if isinstance(value, int):
        return int.__repr__(value)
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
