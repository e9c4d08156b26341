"""The settings of telemetry; built by `proxy.settings.load`, the one reader of the environment."""

from __future__ import annotations

import msgspec

TRACES_PATH = "/v1/traces"


class TelemetrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where traces go and what is logged. Every field is explicit: no `OTEL_*` variable is read.

    `endpoint` is the base URL of an OTLP/HTTP collector (`http://127.0.0.1:4318`), or the full URL
    of its traces signal; None builds no spans and starts no thread.
    """

    endpoint: str | None = None
    # Spans are posted to `endpoint` as it is, whatever its path.
    exact: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    # CA bundle for an https endpoint; None uses the system's.
    certificate_file: str | None = None
    service_name: str = "mnemogate"
    service_version: str = ""
    # Further resource attributes, for example openinference.project.name.
    resource: tuple[tuple[str, str], ...] = ()
    # Share of admits that also get a child span per step, in [0, 1]; decided by the trace id.
    admit_detail_share: float = 0.01
    # Seconds that one export may take, retries included.
    export_timeout_s: float = 5.0
    log_level: str = "info"  # the least level written: "debug", "info", "warning" or "error"
    access_log: bool = True

    @property
    def traces_url(self) -> str | None:
        """The URL that spans are posted to."""
        if self.endpoint is None:
            return None
        base = self.endpoint.rstrip("/")
        whole = self.exact or base.endswith(TRACES_PATH)
        return self.endpoint if whole else base + TRACES_PATH
