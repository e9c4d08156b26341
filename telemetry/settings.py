"""The settings of telemetry, built by `proxy.settings.load`, which alone reads the environment."""

from __future__ import annotations

import msgspec

TRACES_PATH = "/v1/traces"


class TelemetrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where traces are sent and what is logged. No `OTEL_*` variable is read here.

    `endpoint` is the base URL of an OTLP/HTTP collector (`http://127.0.0.1:4318`), or the full URL
    of its traces signal. If None, no span is built and no thread started.
    """

    endpoint: str | None = None
    # Whether `endpoint` is the full URL for spans, whatever its path.
    exact: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    # The URL of an HTTP proxy, through which the endpoint is reached by CONNECT.
    proxy: str | None = None
    proxy_headers: tuple[tuple[str, str], ...] = ()
    # The file of CA certificates for an https endpoint; None: the system's.
    certificate_file: str | None = None
    service_name: str = "mnemogate"
    service_version: str = ""
    # Further resource attributes, for example openinference.project.name.
    resource: tuple[tuple[str, str], ...] = ()
    # The share of admits, in [0, 1], that also get a child span per step; the trace id decides
    # which ones.
    admit_detail_share: float = 0.01
    # Seconds that one export may take, retries included.
    export_timeout_s: float = 5.0
    log_level: str = "info"  # the lowest level that is written: debug, info, warning or error
    access_log: bool = True

    @property
    def traces_url(self) -> str | None:
        """The URL that spans are posted to."""
        if self.endpoint is None:
            return None
        base = self.endpoint.rstrip("/")
        whole = self.exact or base.endswith(TRACES_PATH)
        return self.endpoint if whole else base + TRACES_PATH
