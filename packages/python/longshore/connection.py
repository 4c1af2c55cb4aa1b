"""Requests to one service, sent until it has answered them."""

from __future__ import annotations

import http.client
import math
import random
import re
import ssl
import time
import urllib.parse
from dataclasses import dataclass
from typing import Any, Mapping, Optional

from .errors import ConfigurationError, Refused, Unreachable
from .json_text import from_json, to_json
from .login import find_access
from .run import JsonObject, Run

__version__ = "0.1.0"
WAIT_S = 25
"""How long the service holds a request: less than the timeouts of usual proxies."""
ANSWER_S = 30
"""Silence after which a request counts as lost, beyond the time that the service holds it."""
LATE_S = 2
"""How long after its deadline an answer may come: the service holds for whole seconds, and the way takes time."""
FIRST_PATIENCE_S = 10
"""Patience with a service that this client has never reached."""
LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """Requests to one service."""

    def __init__(
        self,
        url: Optional[str] = None,
        key: Optional[str] = None,
        *,
        decimals: bool = False,
        patience: float = 300.0,
        context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._key: Optional[str]
        self.url, self._key = find_access(url, key)
        self._set_up(decimals, patience, context)

    def _set_up(self, decimals: bool, patience: float, context: Optional[ssl.SSLContext] = None) -> None:
        self._decimals = decimals
        self._patience = patience
        self._place = urllib.parse.urlsplit(self.url)
        self._has_context = context is not None
        self._tls = (context or ssl.create_default_context()) if self._place.scheme == "https" else None
        self._was_reached = False

    def __getstate__(self) -> JsonObject:
        """What a pickle holds: not the key, which the other process finds as this one did."""
        try:
            found: Optional[str] = find_access(self.url, None)[1]
        except ConfigurationError:
            found = None
        if self._key not in (None, found):
            raise ConfigurationError(
                "a client with key= does not travel to another process, because its key would: "
                'set SERVICE_API_KEY or run "longshore login", and leave key= out'
            )
        if self._has_context:
            raise ConfigurationError(
                "a client with context= does not travel to another process: name the CA by SSL_CERT_FILE, and leave context= out"
            )
        return {"url": self.url, "decimals": self._decimals, "patience": self._patience}

    def __setstate__(self, state: JsonObject) -> None:
        # Its key is found by the first request: an error here would end a process of a pool, and its task would never end.
        self.url, self._key = state["url"], None
        self._set_up(state["decimals"], state["patience"])

    def __repr__(self) -> str:
        return f"Longshore({self.url!r})"

    def _run(self, data: JsonObject) -> Run:
        run = Run(data)
        object.__setattr__(run, "_client", self)
        return run

    def _read_json(self, answer: Answer) -> Any:
        try:
            return from_json(answer.body, decimals=self._decimals)
        except (ValueError, RecursionError):
            raise Refused(answer.status, "not an answer of a Longshore service") from None

    def _object(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        body: Optional[Mapping[str, Any]] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> JsonObject:
        """Sends a request whose answer is a JSON object."""
        return dict(self._read_json(self._ask(method, path, query=query, body=body, headers=headers)))

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        body: Optional[Mapping[str, Any]] = None,
        headers: Optional[Mapping[str, str]] = None,
        deadline: Optional[float] = None,
    ) -> Answer:
        """Sends a request until the service has answered it. It must be one that may be sent again.

        deadline: time of the monotonic clock at which to raise TimeoutError, unless the patience ends before. It is sent
            once in any case, and an answer may come a moment later.
        """
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = self._place.path.rstrip("/") + path + (f"?{urllib.parse.urlencode(given, doseq=True)}" if given else "")
        data = None if body is None else to_json(body).encode()
        if self._key is None:
            self._key = find_access(self.url, None)[1]
        sent = {"X-API-Key": self._key, "User-Agent": f"longshore-python/{__version__}", **(headers or {})}
        if data is not None:
            sent["Content-Type"] = "application/json"
        limit = ANSWER_S + int(given.get("wait", 0)) + len(data or b"") / 65536
        began = time.monotonic()
        pause = 0.1
        may_be_done = False
        while True:
            asked, reason = 0.0, ""
            left = math.inf if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                answer = self._send(method, target, data, sent, min(limit, left + LATE_S))
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, ssl.SSLCertVerificationError):
                    raise Unreachable(
                        f"cannot trust the service at {self.url}: {error}; "
                        "for an own CA, set SSL_CERT_FILE to its certificate, or give context="
                    ) from error
                reason, may_be_done = str(error) or type(error).__name__, True
            else:
                self._was_reached = self._was_reached or _is_ours(answer)
                if answer.status in (204, 304) or (answer.status in (200, 201, 202) and _is_ours(answer)):
                    return answer
                if method == "DELETE" and may_be_done and answer.status == 404 and _is_ours(answer):
                    return answer
                may_be_done = may_be_done or answer.status >= 500
                refusal = _refusal_of(answer)
                if not _may_succeed_later(answer):
                    raise refusal
                reason, asked = str(refusal), _seconds(answer.headers.get("retry-after"))
            patience = self._patience if self._was_reached else min(self._patience, FIRST_PATIENCE_S)
            wait = max(asked, pause * random.uniform(0.5, 1.0))
            now = time.monotonic()
            if deadline is not None and deadline <= min(now + wait, began + patience):
                time.sleep(max(0.0, deadline - now))
                raise TimeoutError(f"no answer in time of the service at {self.url}: {reason}")
            if now + wait - began > patience:
                raise Unreachable(f"cannot reach the service at {self.url}: {reason}")
            time.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _send(
        self, method: str, target: str, data: Optional[bytes], headers: Mapping[str, str], limit: float
    ) -> Answer:
        host, port = self._place.hostname or "", self._place.port
        connection = (
            http.client.HTTPConnection(host, port, timeout=limit)
            if self._tls is None
            else http.client.HTTPSConnection(host, port, timeout=limit, context=self._tls)
        )
        try:
            connection.request(method, target, data, dict(headers))
            response = connection.getresponse()
            fields = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, fields, response.read())
        finally:
            connection.close()


def _is_ours(answer: Answer) -> bool:
    """Whether an answer has a form of the service: a proxy may answer 200 with a page of its own."""
    media_type = answer.headers.get("content-type", "").split(";")[0].strip().lower()
    return media_type in ("application/json", "application/x-ndjson")


def _may_succeed_later(answer: Answer) -> bool:
    if answer.status in (200, 201, 202, 408, 425, 429):
        return True
    if answer.status == 503 and "retry-after" not in answer.headers:
        # The service's own 503 without it is about a feature that is not configured.
        return not _is_ours(answer)
    return answer.status >= 500


def _refusal_of(answer: Answer) -> Refused:
    if 300 <= answer.status < 400:
        return Refused(answer.status, "the answer is a redirect, which is not followed: correct the URL of the service")
    try:
        body = from_json(answer.body)
        return Refused(answer.status, str(body["detail"]), [str(error) for error in body.get("errors", [])])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Refused(answer.status, "not an answer of a Longshore service")


def _seconds(text: Optional[str]) -> float:
    seconds = int(text) if text is not None and re.fullmatch("[0-9]{1,4}", text) else 0
    return float(seconds) if seconds < 3600 else 0.0


def hold_s(deadline: Optional[float]) -> int:
    """For how many seconds the service is to hold a request."""
    return WAIT_S if deadline is None else max(0, math.ceil(min(WAIT_S, deadline - time.monotonic())))
