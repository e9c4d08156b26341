"""The settings of a sidecar: one struct for the settings file, with the allowed values of each key.

A setting has one name: `body_bytes_max` in the TOML file, `MNEMOGATE_BODY_BYTES_MAX` in the
environment, `--body-bytes-max` where a flag exists. A field without a description is not a setting,
and cannot be given in this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import FieldInfo, force_setattr

from proxy.settings.after import AfterTable
from proxy.settings.backend import BackendServer
from proxy.settings.binding import Binding, Uid
from proxy.settings.egress import Authorities, Egress, Proxy, ProxyHeaders
from proxy.settings.judge_tables import JudgeTable
from proxy.settings.mcp import McpServer
from proxy.settings.model import ModelUpstream
from proxy.settings.review_webhook import Receiver, ReviewTable
from proxy.settings.servers import Text, check_url
from proxy.settings.shard import ShardTable
from proxy.settings.values import Address, BadValue, Secret
from proxy.settings.witness import WitnessTable
from storage.ground.trusted_files import UnfitFile, read_file, reason
from telemetry.settings import TelemetrySettings

RULESET_BYTES_MAX: Final = 1024 * 1024
Host = Annotated[
    str,
    Meta(
        pattern=r"^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)$",
        title="the name of a host, without scheme and port",
    ),
]
Origin = Annotated[
    str,
    Meta(
        pattern=r"^(?i:null|[a-z][a-z0-9+.-]*://[^\s/?#@]+/?)$",
        title="an origin, like https://host",
    ),
]


class SettingsError(Exception):
    """The error for settings that cannot be used; it names the setting and what is allowed."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on the time, memory and connections that peers may use of one listener."""

    body_bytes_max: Annotated[
        int,
        Meta(
            ge=1024, le=4 * 1024**2, description="Largest request body in bytes, once decompressed."
        ),
    ] = 1024 * 1024
    header_seconds: Annotated[
        float,
        Meta(
            ge=0.1,
            le=60,
            description="Seconds a peer has to send a request's line and headers.",
        ),
    ] = 5.0
    body_seconds: Annotated[
        float,
        Meta(
            ge=0.1,
            le=600,
            description="Seconds a peer has to send a request's body, and to take the answer.",
        ),
    ] = 30.0
    idle_seconds: Annotated[
        float,
        Meta(
            ge=0.1,
            le=3600,
            description="Seconds an idle connection is kept; one without a credential is not.",
        ),
    ] = 60.0
    drain_seconds: Annotated[
        float,
        Meta(ge=0, le=300, description="Seconds that running requests get to finish at shutdown."),
    ] = 10.0
    connections_max: Annotated[
        int,
        Meta(
            ge=1,
            le=65_536,
            description="Connections with a credential per listener, and an eighth more for who "
            "has shown none yet; those make room first.",
        ),
    ] = 512
    unread_bytes_max: Annotated[
        int,
        Meta(
            ge=16 * 1024**2,
            le=1024**4,
            description="Bytes of answers per listener that peers have not read yet; further large "
            "answers of reads are 503 until they do.",
        ),
    ] = 256 * 1024**2
    requests_max: Annotated[
        int,
        Meta(
            ge=1,
            le=65_536,
            description="Requests in flight per listener, from when their body is there; one "
            "principal leaves a fifth free. More are answered 503.",
        ),
    ] = 256


class Settings(Limits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration, checked. `load_settings` gives defaults to its required fields."""

    listen: Annotated[
        Address,
        Meta(description="Data listener: every memory front, by path. Port 0 picks a free one."),
    ] = Address(host="127.0.0.1", port=7077)
    admin: Annotated[
        Address, Meta(description="Admin listener: health, metrics, operator API.")
    ] = Address(host="127.0.0.1", port=7078)
    page_url: Annotated[
        Text | None,
        Meta(
            description="What the address of the review page begins with, where people do not come "
            "by the `admin` address (`https://gate.example`): every link for a person begins so. "
            "Its host belongs in `allowed_hosts`; unset: the `admin` address."
        ),
    ] = None
    health: Annotated[
        Address | None,
        Meta(
            description="Health listener for an orchestrator: /healthz, /readyz, /metrics and "
            "nothing else, without a key; unset: none."
        ),
    ] = None
    unix_socket: Annotated[
        Path | None,
        Meta(description="Path of a Unix socket that serves the data fronts as well."),
    ] = None
    unix_uids: Annotated[
        tuple[Uid, ...] | None,
        Meta(
            description="User ids that may connect to the Unix socket; unset: those bound to a "
            "principal."
        ),
    ] = None
    tls_cert: Annotated[
        Path | None,
        Meta(
            description="PEM file with the server's certificate chain: TLS on data and admin "
            "listener."
        ),
    ] = None
    tls_key: Annotated[Path | None, Meta(description="PEM file with the certificate's key.")] = None
    tls_client_ca: Annotated[
        Path | None,
        Meta(
            description="PEM file with the CA of client certificates; clients without one are "
            "refused."
        ),
    ] = None
    state: Annotated[
        Path,
        Meta(
            description="State directory, mode 0700, outside the agent's working directory; "
            "unset: $XDG_STATE_HOME/mnemogate or ~/.local/state/mnemogate."
        ),
    ]
    expect_state: Annotated[
        bool,
        Meta(
            description="Refuse to start where the state directory holds no store, instead of "
            "beginning an empty one: a volume that is not mounted, a directory that somebody moved."
        ),
    ] = False
    checkpoint: Annotated[
        Path,
        Meta(
            description="File that gets a copy of the last signed checkpoint, outside the state "
            "directory; unset: mnemogate-checkpoint/NAME.txt beside the state directory NAME."
        ),
    ]
    log_origin: Annotated[
        str,
        Meta(
            pattern="^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$",
            title="letters, digits, `.`, `_`, `-`, `:` and `/`",
            description="Name of the audit log in its checkpoints, by which a witness tells logs "
            "apart, like `gate.example/prod`. Choose it before the first start: a store with "
            "another name is refused.",
        ),
    ] = "mnemogate"
    ruleset: Annotated[
        Path | None,
        Meta(
            description="TOML file with the source and class matrix; unset: the packaged default."
        ),
    ] = None
    observe: Annotated[
        bool,
        Meta(description="Observe mode, for a trial: decides and records, but refuses nothing."),
    ] = False
    places: Annotated[
        Literal["hold", "tell", "off"],
        Meta(
            description="New lines of files that a host puts into model requests: `hold` takes out "
            "those that wait for a person, `tell` marks them, `off` reads no file."
        ),
    ] = "hold"
    retention_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="Seconds between sweeps of what the ruleset keeps no longer; 0: only by "
            "hand.",
        ),
    ] = 600.0
    embedder: Annotated[
        str,
        Meta(
            pattern=r"^(static|minilm|client:[1-9][0-9]{0,3})$",
            title="static, minilm, or client:DIMENSION (1 to 9999)",
            description="Embedding model: static, minilm, or client:DIMENSION where each write and "
            "search brings a vector of its own.",
        ),
    ] = "static"
    quota_bytes: Annotated[
        int,
        Meta(
            ge=16 * 1024**2,
            le=1024**5,
            description="Bytes the store may take on disk; writes above it are refused, reads go "
            "on.",
        ),
    ] = 8 * 1024**3
    tenant_share: Annotated[
        float,
        Meta(
            ge=0.001,
            le=1,
            description="Share of that which one tenant may take before its writes are refused; 1: "
            "all.",
        ),
    ] = 0.5
    allowed_hosts: Annotated[
        tuple[Host, ...],
        Meta(
            description="Host names besides the loopback ones that a request may be addressed to."
        ),
    ] = ()
    allowed_origins: Annotated[
        tuple[Origin, ...],
        Meta(description="Origins (https://host) whose pages may send requests; none by default."),
    ] = ()
    agent_key: Annotated[
        Secret | None,
        Meta(
            description="API key of the first agent, instead of a random one; at least 20 "
            "characters."
        ),
    ] = None
    agent_key_file: Annotated[
        Path | None,
        Meta(
            description="File with that key instead, closed to strangers: mode 0400, 0440 or 0600."
        ),
    ] = None
    operator_key: Annotated[
        Secret | None,
        Meta(
            description="API key of the first operator, instead of a random one; at least 20 "
            "characters."
        ),
    ] = None
    operator_key_file: Annotated[
        Path | None,
        Meta(
            description="File with that key instead, closed to strangers: mode 0400, 0440 or 0600."
        ),
    ] = None
    otel_endpoint: Annotated[
        Text | None,
        Meta(
            description="OTLP/HTTP collector, like http://127.0.0.1:4318; unset: "
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT, else no traces; "
            "OTEL_SDK_DISABLED=true: none."
        ),
    ] = None
    otel_proxy: Proxy = None
    otel_proxy_headers_file: ProxyHeaders = None
    otel_ca_file: Authorities = None
    admit_detail_share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Share of admitted writes whose trace gets a span per check; refusals "
            "always do.",
        ),
    ] = 0.01
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(
            description="Least severe log lines written: debug, info, warning, error. An MCP "
            "wrapper, whose stderr is its host's, writes lines per call at debug alone."
        ),
    ] = "info"
    log: Annotated[
        Literal["auto", "text", "json"],
        Meta(
            description="Form of log lines: text for a person, or json; auto: text where stderr "
            "is a terminal."
        ),
    ] = "auto"
    access_log: Annotated[
        bool,
        Meta(description="Whether each request is a log line (route and status, never content)."),
    ] = True
    witness_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=1_800,
            description="Seconds between two heads of the log that each `[[witness]]` is asked to "
            "cosign; no verdict waits for one.",
        ),
    ] = 60.0
    witness_required: Annotated[
        int,
        Meta(
            ge=1,
            le=16,
            description="How many of the `[[witness]]` tables must cosign a head. /readyz is "
            "degraded while no such head is younger than an hour; no write is refused for that.",
        ),
    ] = 1
    principals: tuple[Binding, ...] = ()
    mcp: tuple[McpServer, ...] = ()
    model: tuple[ModelUpstream, ...] = ()
    backend: tuple[BackendServer, ...] = ()
    judge: tuple[JudgeTable, ...] = ()
    witness: Annotated[tuple[WitnessTable, ...], Meta(max_length=16)] = ()
    review: ReviewTable | None = None
    after: AfterTable = AfterTable()
    shard: ShardTable | None = None
    telemetry: TelemetrySettings = TelemetrySettings()
    sentry_dsn: Secret | None = None
    # The environment variables whose values an [[mcp]] table takes.
    variables: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other, or a bad `page_url`; set `unix_uids`.

        Raises:
            BadValue: Two settings contradict each other; the message names them.
        """
        if (self.tls_cert is None) != (self.tls_key is None) or (
            self.tls_client_ca is not None and self.tls_cert is None
        ):
            raise BadValue("tls_cert: set tls_cert and tls_key together; tls_client_ca needs both")
        if self.tls_client_ca is None and any(one.mtls is not None for one in self.principals):
            raise BadValue("principals: mtls needs tls_cert, tls_key and tls_client_ca")
        if self.agent_key is not None and self.agent_key == self.operator_key:
            # If both roles had one key, a reader of the agent's environment would be an operator.
            raise BadValue("agent_key and operator_key: must be two different keys")
        bound = [one.mtls if one.uid is None else one.uid for one in self.principals]
        _check_once("principals", "mtls or uid", bound)
        for name in ("mcp", "model", "backend", "judge", "witness"):
            _check_once(name, "name", [one.name for one in getattr(self, name)])
        _check_once("backend", "adapter", [one.adapter for one in self.backend])
        # One key would count as two witnesses.
        _check_once("witness", "key", [one.verifier.public_key for one in self.witness])
        if self.witness and self.witness_required > len(self.witness):
            raise BadValue("witness_required: more than there are [[witness]] tables")
        with_credential = {one.name for one in self.model if one.headers}
        for name in sorted(self.after.replay.models - with_credential):
            raise BadValue(
                f"after.replay: models: {name}: name [[model]] tables with a headers_file: a "
                "replay has no credential of an agent"
            )
        if self.page_url is not None:
            try:
                check_url(self.page_url, has_credential=False)
            except BadValue as error:
                raise BadValue(f"page_{error}") from None
            force_setattr(self, "page_url", self.page_url.rstrip("/"))
        if self.unix_uids is None:
            uids = tuple(one.uid for one in self.principals if one.uid is not None)
            force_setattr(self, "unix_uids", uids)

    @property
    def review_webhook(self) -> Receiver | None:
        """The receiver of notices about held candidates; None if none is configured."""
        return None if self.review is None else self.review.webhook

    def ruleset_text(self) -> str:
        """Read the TOML text of the ruleset, which may have changed since the last call; return it.

        Raises:
            SettingsError: The file cannot be read.
        """
        if self.ruleset is None:
            return resources.files("policy").joinpath("default.toml").read_text("utf-8")
        try:
            return read_file(self.ruleset, RULESET_BYTES_MAX).decode("utf-8")
        except OSError as error:
            raise SettingsError(f"ruleset: cannot be read ({reason(error)})") from None
        except UnicodeDecodeError:
            raise SettingsError(f"ruleset: {self.ruleset} is not UTF-8") from None
        except UnfitFile as error:
            raise SettingsError(f"ruleset: must be {error}") from None


def _check_once(table: str, key: str, given: Sequence[object]) -> None:
    if len(set(given)) != len(given):
        raise BadValue(f"{table}: two tables have the same {key}")


def meaning_of(field: FieldInfo) -> str:
    """The description of a key of a table; "" for a field that is not a key."""
    known = getattr(field.type, "__metadata__", ())
    return next((one.description for one in known if one.description), "")


def keys_of(table: type[msgspec.Struct]) -> tuple[FieldInfo, ...]:
    """The keys of a table, in the order in which they are printed."""
    keys = [field for field in msgspec.structs.fields(table) if meaning_of(field)]
    return tuple(sorted(keys, key=lambda field: field.name in _LAST))


# The keys that several tables have, after those of a table alone.
_LAST: Final = frozenset(Egress.__struct_fields__) - {"name"}
ENVIRONMENT_PREFIX: Final = "MNEMOGATE_"


def variable_of(name: str) -> str:
    """The name of a setting's environment variable."""
    return ENVIRONMENT_PREFIX + name.upper()


SECRETS: Final = frozenset({"agent_key", "operator_key"})
"""Settings that only the environment, or a file of their own, may give: a flag is visible in `ps`,
and the settings file may be committed to a repository."""
SETTINGS: Final = tuple(
    sorted(keys_of(Settings), key=lambda field: field.name in Limits.__struct_fields__)
)
TABLES: Final = (
    *("principals", "mcp", "model", "backend", "judge", "witness", "review", "after", "shard"),
)
