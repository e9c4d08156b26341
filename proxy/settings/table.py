"""Every setting: its name, default, meaning, and the function that reads its text.

One name per setting: `body_bytes_max` in the TOML file, `MNEMOGATE_BODY_BYTES_MAX` in the
environment, `--body-bytes-max` where a flag exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from proxy.settings.values import (
    Address,
    BadValue,
    Raw,
    Secret,
    address,
    boolean,
    embedder,
    names,
    number,
    one_of,
    path,
    secret,
    text,
    uids,
    whole,
)

__all__ = ["ENVIRONMENT_PREFIX", "SETTINGS", "Address", "BadValue", "Raw", "Secret", "Setting"]

ENVIRONMENT_PREFIX: Final = "MNEMOGATE_"
SENTRY_DSN: Final = "SENTRY_DSN"
OTEL_HEADERS: Final = "OTEL_EXPORTER_OTLP_HEADERS"
STANDARD_SECRETS: Final = frozenset({SENTRY_DSN, OTEL_HEADERS})
"""Variables with secrets of the sidecar whose names are not ours."""
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table that README and docs are tested against."""

    name: str
    default: Raw | None
    meaning: str
    parse: Callable[[Raw], object]
    # Secrets come from the environment alone: a flag is visible in `ps`, and a file may be
    # committed to a repository.
    secret: bool = False

    @property
    def env(self) -> str:
        """The environment variable of this setting."""
        return ENVIRONMENT_PREFIX + self.name.upper()


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        name="listen",
        default="127.0.0.1:7077",
        meaning="Data listener: every memory front, by path. Port 0 picks a free one.",
        parse=address,
    ),
    Setting(
        name="admin",
        default="127.0.0.1:7078",
        meaning="Admin listener: health, metrics, operator API.",
        parse=address,
    ),
    Setting(
        name="health",
        default=None,
        meaning="Health listener for an orchestrator: /healthz, /readyz, /metrics and nothing "
        "else, without a key; unset: none.",
        parse=address,
    ),
    Setting(
        name="unix_socket",
        default=None,
        meaning="Path of a Unix socket that serves the data fronts as well.",
        parse=path,
    ),
    Setting(
        name="unix_uids",
        default=None,
        meaning="User ids that may connect to the Unix socket; unset: those bound to a principal.",
        parse=uids,
    ),
    Setting(
        name="tls_cert",
        default=None,
        meaning="PEM file with the server's certificate chain: TLS on data and admin listener.",
        parse=path,
    ),
    Setting(
        name="tls_key", default=None, meaning="PEM file with the certificate's key.", parse=path
    ),
    Setting(
        name="tls_client_ca",
        default=None,
        meaning="PEM file with the CA of client certificates; clients without one are refused.",
        parse=path,
    ),
    Setting(
        name="state",
        default=None,
        meaning="State directory, mode 0700, outside the agent's working directory; "
        "unset: $XDG_STATE_HOME/mnemogate or ~/.local/state/mnemogate.",
        parse=path,
    ),
    Setting(
        name="expect_state",
        default=False,
        meaning="Refuse to start where the state directory holds no store, instead of beginning an "
        "empty one: a volume that is not mounted, a directory that somebody moved.",
        parse=boolean,
    ),
    Setting(
        name="checkpoint",
        default=None,
        meaning="File that gets a copy of the last signed checkpoint, outside the state "
        "directory; unset: mnemogate-checkpoint/NAME.txt beside the state directory NAME.",
        parse=path,
    ),
    Setting(
        name="ruleset",
        default=None,
        meaning="TOML file with the source and class matrix; unset: the packaged default.",
        parse=path,
    ),
    Setting(
        name="observe",
        default=False,
        meaning="Observe mode, for a trial: decides and records, but refuses nothing.",
        parse=boolean,
    ),
    Setting(
        name="retention_seconds",
        default=600.0,
        meaning="Seconds between sweeps of what the ruleset keeps no longer; 0: only by hand.",
        parse=number(0, 86_400),
    ),
    Setting(
        name="embedder",
        default="static",
        meaning="Embedding model: static, minilm, or client:DIMENSION where each write and search "
        "brings a vector of its own.",
        parse=embedder,
    ),
    Setting(
        name="quota_bytes",
        default=8 * 1024**3,
        meaning="Bytes the store may take on disk; writes above it are refused, reads go on.",
        parse=whole(16 * 1024**2, 1024**5),
    ),
    Setting(
        name="tenant_share",
        default=0.5,
        meaning="Share of that which one tenant may take before its writes are refused; 1: all.",
        parse=number(0.001, 1),
    ),
    Setting(
        name="allowed_hosts",
        default="",
        meaning="Host names besides the loopback ones that a request may be addressed to.",
        parse=names,
    ),
    Setting(
        name="allowed_origins",
        default="",
        meaning="Origins (https://host) whose pages may send requests; none by default.",
        parse=names,
    ),
    Setting(
        name="agent_key",
        default=None,
        meaning="API key of the first agent, instead of a random one; at least 20 characters.",
        parse=secret,
        secret=True,
    ),
    Setting(
        name="agent_key_file",
        default=None,
        meaning="File with that key instead, closed to strangers: mode 0400, 0440 or 0600.",
        parse=path,
    ),
    Setting(
        name="operator_key",
        default=None,
        meaning="API key of the first operator, instead of a random one; at least 20 characters.",
        parse=secret,
        secret=True,
    ),
    Setting(
        name="operator_key_file",
        default=None,
        meaning="File with that key instead, closed to strangers: mode 0400, 0440 or 0600.",
        parse=path,
    ),
    Setting(
        name="otel_endpoint",
        default=None,
        meaning="OTLP/HTTP collector, like http://127.0.0.1:4318; "
        "unset: OTEL_EXPORTER_OTLP_ENDPOINT, else no traces.",
        parse=text,
    ),
    Setting(
        name="admit_detail_share",
        default=0.01,
        meaning="Share of admitted writes whose trace gets a span per check; refusals always do.",
        parse=number(0, 1),
    ),
    Setting(
        name="log_level",
        default="info",
        meaning="Least severe log lines written: "
        + ", ".join(LOG_LEVELS)
        + ". An MCP wrapper, whose stderr is its host's, writes lines per call at debug alone.",
        parse=one_of(*LOG_LEVELS),
    ),
    Setting(
        name="access_log",
        default=True,
        meaning="Whether each request is a log line (route and status, never content).",
        parse=boolean,
    ),
    Setting(
        name="body_bytes_max",
        default=1024 * 1024,
        meaning="Largest request body in bytes.",
        parse=whole(1024, 4 * 1024**2),
    ),
    Setting(
        name="header_seconds",
        default=5.0,
        meaning="Seconds a peer has to send a request's line and headers.",
        parse=number(0.1, 60),
    ),
    Setting(
        name="body_seconds",
        default=30.0,
        meaning="Seconds a peer has to send a request's body, and to take the answer.",
        parse=number(0.1, 600),
    ),
    Setting(
        name="idle_seconds",
        default=60.0,
        meaning="Seconds an idle connection is kept; one without a credential is not.",
        parse=number(0.1, 3600),
    ),
    Setting(
        name="drain_seconds",
        default=10.0,
        meaning="Seconds that running requests get to finish at shutdown.",
        parse=number(0, 300),
    ),
    Setting(
        name="connections_max",
        default=512,
        meaning="Connections with a credential per listener, and an eighth more for who has shown "
        "none yet; those make room first.",
        parse=whole(1, 65_536),
    ),
    Setting(
        name="unread_bytes_max",
        default=256 * 1024**2,
        meaning="Bytes of answers per listener that peers have not read yet; further large "
        "answers of reads are 503 until they do.",
        parse=whole(16 * 1024**2, 1024**4),
    ),
    Setting(
        name="requests_max",
        default=256,
        meaning="Requests in flight per listener, from when their body is there; one principal "
        "leaves a fifth free. More are answered 503.",
        parse=whole(1, 65_536),
    ),
)
