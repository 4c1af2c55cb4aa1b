"""Client of the Longshore service: create runs of container images, wait for them, read their logs and feeds.

    from longshore import Longshore

    api = Longshore()
    run = api.wait(api.run_image("longshore/word-count", {"text": "to be or not to be"}))
    print(run.outputs)
"""

from .client import Longshore
from .connection import __version__ as __version__
from .errors import ConfigurationError, GroupFailed, LongshoreError, Refused, RunCancelled, RunFailed, Unreachable
from .files import TransferFailed
from .lines import LogLine
from .futures import RunFuture
from .run import Group, Run
from .sweep import Sweep

__all__ = [
    "ConfigurationError",
    "Group",
    "GroupFailed",
    "LogLine",
    "Longshore",
    "LongshoreError",
    "Refused",
    "Run",
    "RunCancelled",
    "RunFailed",
    "RunFuture",
    "Sweep",
    "TransferFailed",
    "Unreachable",
]
