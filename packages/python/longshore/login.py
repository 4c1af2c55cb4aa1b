"""Where the service is, and who calls it."""

from __future__ import annotations

import json
import os
import re
import stat
import urllib.parse
from pathlib import Path
from typing import Optional, Tuple

from .errors import ConfigurationError


def normal_url(text: str) -> str:
    try:
        parts = urllib.parse.urlsplit(text.strip())
        port = parts.port
    except ValueError:
        parts, port = urllib.parse.urlsplit(""), None
    is_plain = "@" not in parts.netloc and re.search(r"[\x00-\x20?#\x7f]", text.strip()) is None
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
        raise ConfigurationError(
            "the URL of the service must be http:// or https:// without user name, query and fragment"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    is_default = port is None or port == (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{host}{'' if is_default else f':{port}'}{parts.path}".rstrip("/")


def saved_login() -> Optional[Tuple[str, str]]:
    """URL and key that `longshore login` has saved; None: there are none. Raises ConfigurationError."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification of the variable has relative paths ignored.
    folder = Path(base) if os.path.isabs(base) else Path(os.environ.get("HOME") or Path.home()) / ".config"
    path = folder / "longshore" / "config.json"
    try:
        text = path.read_text(encoding="utf-8")
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if os.name != "nt" and stat.S_IMODE(mode) & 0o077:
        raise ConfigurationError(f"{path} holds a key and others can read it: chmod 600 it, or log in again")
    try:
        saved = json.loads(text)
        url, key = saved["url"], saved["api_key"]
    except (ValueError, TypeError, KeyError):
        url, key = None, None
    if not isinstance(url, str) or not isinstance(key, str):
        raise ConfigurationError(f"{path} cannot be read: log in again")
    return url, key
