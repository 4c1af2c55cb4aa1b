"""The request that makes a run like another."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from .json_text import to_json
from .run import JsonObject

COPIED = (
    *("env", "command", "args", "secrets", "secrets_from", "files", "mounts", "image_pull_secret", "workdir", "user"),
    *("network", "stop_grace_s", "ulimits", "selector", "concurrency", "labels", "priority", "inputs", "retry_policy", "timeouts"),
)
"""Fields of a run that its request may have had in the same form."""


def request_like(run: JsonObject, definition: Optional[JsonObject], changes: Mapping[str, Any]) -> JsonObject:
    """The fields of a create but for the image. definition: that of the run, which fills in its templates anew."""
    body = {name: run[name] for name in COPIED if run.get(name) is not None and not _is_template(definition, name)}
    body["constraints"] = _asked_constraints(run)
    if run["state"] != "COMPLETED":
        body["outputs"] = run["outputs"]  # The template; a completed run has its results in their place.
    delivery = run.get("event_delivery")
    if delivery is not None:
        kept = ("attributes",) if definition is not None else ("topic", "attributes")
        body["event_delivery"] = {name: delivery[name] for name in kept if delivery.get(name) is not None}
    labels = {**run.get("labels", {}), **(changes.get("labels") or {})}
    return {**body, **changes, "labels": {name: text for name, text in labels.items() if text is not None}}


def _is_template(definition: Optional[JsonObject], name: str) -> bool:
    return definition is not None and "${" in to_json(definition.get(name))


def _asked_constraints(run: JsonObject) -> JsonObject:
    """Those of the request: without the GPUs that the scheduler chose, CPU once, and RAM before it grew."""
    found = {name: value for name, value in run["constraints"].items() if name not in ("gpu_id", "gpu_ids")}
    if found.get("cpu_millis") is not None:
        found.pop("cpu", None)
    asked = run["execution_summary"].get("asked_ram_mb")
    return found if asked is None else {**found, "ram_mb": asked}
