"""Definitions, schedules and secrets."""

from __future__ import annotations

import base64
import re
import warnings
from datetime import datetime, timezone
from typing import Any, Callable, Iterator, Mapping, Optional, Union

from .files import Files
from .run import JsonObject, quoted

PAGE = 200
# The most that the service gives of schedules.
SCHEDULES = 100


class Catalog(Files):
    """Calls about definitions, schedules and secrets."""

    def apply(self, definition: Mapping[str, Any]) -> JsonObject:
        """Stores a version of a definition, in place of the one with its id and version. What the service doubts is warned of.

        It may have `in_files` and `out_files`, as a run.
        """
        answer = self._ask("POST", "/definitions", body=self._body(definition))
        for text in re.findall(r'299 - "((?:[^"\\]|\\.)*)"', answer.headers.get("warning", "")):
            warnings.warn(re.sub(r"\\(.)", r"\1", text), stacklevel=2)
        return dict(self._read_json(answer))

    def definitions(self) -> Iterator[JsonObject]:
        """Yields all versions of all definitions, by id, the oldest version first."""
        return self._pages("/definitions", lambda each: f"{each['id']}/{each['version']}")

    def definition(self, name: str, version: Optional[str] = None) -> JsonObject:
        """A version of a definition, the newest unless one is given."""
        return self._object("GET", f"/definitions/{quoted(name)}", query={"version": version})

    def delete_definition(self, name: str, version: Optional[str] = None, *, all: bool = False) -> None:
        """Deletes a version of a definition, or all of them; its runs stay."""
        if (version is None) != all:
            raise ValueError("name the version, or give all=True")
        self._ask("DELETE", f"/definitions/{quoted(name)}", query={"version": version, "all": "true" if all else None})

    def schedules(self) -> Iterator[JsonObject]:
        """Yields all schedules, by id, each with its next times and what became of the last ones."""
        return self._pages("/schedules", lambda each: str(each["id"]), most=SCHEDULES)

    def schedule(self, name: str) -> JsonObject:
        """A schedule, with its next times and what became of the last ones."""
        return self._object("GET", f"/schedules/{quoted(name)}")

    def set_schedule(self, name: str, schedule: Mapping[str, Any]) -> JsonObject:
        """Creates a schedule, or replaces it as a whole; a pause stays unless `paused` is given.

        Its runs may have `in_files` and `out_files`.
        """
        return self._object("PUT", f"/schedules/{quoted(name)}", body=self._body(schedule))

    def delete_schedule(self, name: str) -> None:
        """Deletes a schedule, with what became of its times; its runs stay."""
        self._ask("DELETE", f"/schedules/{quoted(name)}")

    def pause_schedule(self, name: str, note: Optional[str] = None) -> JsonObject:
        """Makes no runs until it is resumed."""
        return self._object("POST", f"/schedules/{quoted(name)}/pause", body={"note": note})

    def resume_schedule(self, name: str) -> JsonObject:
        """Goes on with the next time; those of the pause are not made up for."""
        return self._object("POST", f"/schedules/{quoted(name)}/resume")

    def backfill_schedule(self, name: str, start: datetime, until: datetime) -> JsonObject:
        """Makes a run for each time of the past, from the first to the last, that has none; at most for 1,000."""
        body = {"from": start.astimezone(timezone.utc).isoformat(), "until": until.astimezone(timezone.utc).isoformat()}
        return self._object("POST", f"/schedules/{quoted(name)}/backfill", body=body)

    def fires(self, name: str) -> Iterator[JsonObject]:
        """Yields what became of the times of a schedule, the newest first."""
        return self._pages(f"/schedules/{quoted(name)}/fires", lambda each: str(each["id"]))

    def secrets(self) -> Iterator[JsonObject]:
        """Yields names, kinds and times of secrets, by name; never values. Needs a key with the scope admin."""
        return self._pages("/secrets", lambda each: str(each["name"]))

    def set_secret(
        self,
        name: str,
        value: Union[str, bytes, Mapping[str, str]],
        *,
        server: Optional[str] = None,
        username: Optional[str] = None,
    ) -> JsonObject:
        """Creates or replaces a secret. Needs a key with the scope admin.

        value: a text; or bytes, for a file of runs, or for a variable if they are UTF-8 without NUL; or variables and their
            values, for `secrets_from`.
        server, username: then it is a login of this registry, for `image_pull_secret`, and the value its password.
        """
        if (server is None) != (username is None) or (server is not None and not isinstance(value, str)):
            raise ValueError("a login of a registry has a server, a username, and a password as the value")
        path = f"/secrets/{quoted(name)}"
        if isinstance(value, bytes):
            encoded = base64.b64encode(value).decode("ascii")
            return self._object("PUT", path, body={"kind": "opaque", "value_base64": encoded})
        kind = "registry" if server is not None else "opaque" if isinstance(value, str) else "map"
        login: JsonObject = {"server": server, "username": username, "password": value}
        body = {"kind": kind, "value": value if server is None else login}
        return self._object("PUT", path, body=body)

    def delete_secret(self, name: str) -> None:
        """Deletes a secret; runs that need it fail. Needs a key with the scope admin."""
        self._ask("DELETE", f"/secrets/{quoted(name)}")

    def _pages(
        self, path: str, cursor_of: Callable[[JsonObject], str], *, most: Optional[int] = None, **filters: Any
    ) -> Iterator[JsonObject]:
        after: Optional[str] = None
        while True:
            answer = self._ask("GET", path, query={**filters, "limit": min(PAGE, most or PAGE), "after": after})
            for each in self._read_json(answer):
                yield each
                after = cursor_of(each)
            if "link" not in answer.headers:
                return
