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

DEFAULT_URL = "http://127.0.0.1:5555"


def find_access(url: Optional[str], key: Optional[str]) -> Tuple[str, str]:
    """URL and key of the service: the given ones, those of the environment, then the saved ones. Raises ConfigurationError."""
    said_url = url or os.environ.get("SERVICE_URL") or None
    said_key = key or os.environ.get("SERVICE_API_KEY") or None
    saved = None if said_url and said_key else saved_login()
    found = normal_url(said_url or (saved[0] if saved else DEFAULT_URL))
    if said_key is None and saved and normal_url(saved[0]) == found:
        said_key = saved[1]
    if said_key is None:
        raise ConfigurationError(f'no API key for {found}: run "longshore login", set SERVICE_API_KEY or give key=')
    if not re.fullmatch(r"[\x21-\x7e]+", said_key):
        raise ConfigurationError("an API key has visible ASCII characters only")
    return found, said_key


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
