"""The client."""

from __future__ import annotations

from .groups import Groups
from .many import Many


class Longshore(Many, Groups):
    """A client of one service.

    url, key: where the service is and who calls it. Without them: SERVICE_URL and SERVICE_API_KEY, then what `longshore login`
        has saved. A saved key is used for its own service alone.
    decimals: read fractions as Decimal, with all their digits; else as float. Integers are always exact, and a Decimal is
        always sent with all its digits.
    patience: seconds without an answer of the service before a call raises Unreachable; ten for a service never reached.
    context: how TLS checks the service, such as `ssl.create_default_context(cafile="ca.pem")`; without it, the CAs of the system
        and of SSL_CERT_FILE. A client with it cannot be pickled.

    No redirect is followed and no proxy is used, so the key is sent to the host of the URL alone. It may be used by several
    threads, and pickled for other processes, which find the key as this one did.
    """
