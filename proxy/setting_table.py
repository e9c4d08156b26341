"""Every setting: its name, default, meaning, and how its text becomes a value.

One name per setting: `body_bytes_max` in the TOML file, `MNEMOGATE_BODY_BYTES_MAX` in the
environment, `--body-bytes-max` where a flag exists.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

ENVIRONMENT_PREFIX: Final = "MNEMOGATE_"
SECRET_LEN_MIN: Final = 20
_SECRET_LEN_MAX: Final = 256
_PORT_MAX: Final = 65_535
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
EMBEDDERS: Final = ("static", "minilm")
CLIENT_EMBEDDER: Final = "client"

Raw = str | int | float | bool | list[str]
"""What a flag, an environment variable or the TOML file can hold."""


class BadValue(Exception):  # noqa: N818 - always turned into a SettingsError that names the setting
    """What is allowed; never quotes what was given, it may be a secret."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a listener binds; port 0 lets the kernel choose."""

    host: str
    port: int


class Secret:
    """A text that no log, repr or error message shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(...)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table that README and docs are tested against."""

    name: str
    default: Raw | None
    meaning: str
    parse: Callable[[Raw], object]
    # Secrets come from the environment alone: a flag shows in `ps`, a file gets committed.
    secret: bool = False

    @property
    def env(self) -> str:
        """The environment variable of this setting."""
        return ENVIRONMENT_PREFIX + self.name.upper()


def text(raw: Raw) -> str:
    """Any text that is not empty."""
    if not isinstance(raw, str) or not raw.strip():
        raise BadValue("a text that is not empty")
    return raw.strip()


def path(raw: Raw) -> Path:
    """A file or directory; `~` is the home directory."""
    return Path(text(raw)).expanduser()


def address(raw: Raw) -> Address:
    """`HOST:PORT`, with an IPv6 host in brackets."""
    allowed = "HOST:PORT with a port from 0 to 65535, like 127.0.0.1:7077 or [::1]:7077"
    found = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", text(raw))
    if found is None or int(found[2]) > _PORT_MAX:
        raise BadValue(allowed)
    return Address(host=found[1].strip("[]"), port=int(found[2]))


def boolean(raw: Raw) -> bool:
    """`true` or `false`."""
    if isinstance(raw, bool):
        return raw
    spelled = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if isinstance(raw, str) and raw.strip().lower() in spelled:
        return spelled[raw.strip().lower()]
    raise BadValue("true or false")


def names(raw: Raw) -> tuple[str, ...]:
    """A list; in the environment separated by commas."""
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, list) or not all(type(part) is str for part in parts):
        raise BadValue("a list of texts (in the environment: separated by commas)")
    return tuple(part.strip() for part in parts if part.strip())


def whole(low: int, high: int) -> Callable[[Raw], int]:
    """A whole number within bounds."""

    def parse(raw: Raw) -> int:
        allowed = f"a whole number from {low} to {high}"
        if isinstance(raw, str) and re.fullmatch(r"[0-9]{1,18}", raw.strip()):
            number = int(raw)
        elif isinstance(raw, int) and not isinstance(raw, bool):
            number = raw
        else:
            raise BadValue(allowed)
        if not low <= number <= high:
            raise BadValue(allowed)
        return number

    return parse


def number(low: float, high: float) -> Callable[[Raw], float]:
    """A number within bounds."""

    def parse(raw: Raw) -> float:
        allowed = f"a number from {low:g} to {high:g}"
        try:
            value = math.nan if isinstance(raw, bool | list) else float(raw)
        except ValueError:
            raise BadValue(allowed) from None
        if not low <= value <= high:  # NaN is refused here, too
            raise BadValue(allowed)
        return value

    return parse


def embedder(raw: Raw) -> str:
    """The name of an embedding model, or `client:` and a number of dimensions."""
    if isinstance(raw, str):
        if raw in EMBEDDERS:
            return raw
        kind, _, dimension = raw.partition(":")
        if kind == CLIENT_EMBEDDER and re.fullmatch(r"[1-9][0-9]{0,3}", dimension):
            return raw
    names = ", ".join(EMBEDDERS)
    raise BadValue(f"{names}, or {CLIENT_EMBEDDER}:DIMENSION (1 to 9999)")


def one_of(*allowed: str) -> Callable[[Raw], str]:
    """One word of a closed list."""

    def parse(raw: Raw) -> str:
        if not isinstance(raw, str) or raw not in allowed:
            raise BadValue("one of " + ", ".join(allowed))
        return raw

    return parse


def secret(raw: Raw) -> Secret:
    """A secret of at least 20 printable ASCII characters without spaces."""
    if (
        not isinstance(raw, str)
        or not SECRET_LEN_MIN <= len(raw) <= _SECRET_LEN_MAX
        or re.fullmatch(r"[\x21-\x7e]+", raw) is None
    ):
        raise BadValue(
            f"{SECRET_LEN_MIN} to {_SECRET_LEN_MAX} printable ASCII characters without spaces"
        )
    return Secret(raw)


def uids(raw: Raw) -> tuple[int, ...]:
    """A list of numeric user ids."""
    parse = whole(0, 2**32 - 2)
    if isinstance(raw, int):
        return (parse(raw),)
    if not isinstance(raw, str | list):
        raise BadValue("a list of numeric user ids")
    parts = raw.split(",") if isinstance(raw, str) else raw
    return tuple(parse(part) for part in parts if part != "")


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
        name="checkpoint",
        default=None,
        meaning="File that gets a copy of the last signed checkpoint, outside the state "
        "directory; unset: mnemogate-checkpoint/mnemogate.txt beside the state directory.",
        parse=path,
    ),
    Setting(
        name="ruleset",
        default=None,
        meaning="TOML file with the source and class matrix; unset: the packaged default.",
        parse=path,
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
        name="otel_headers",
        default="",
        meaning="Headers for the collector, as name=value, separated by commas.",
        parse=names,
        secret=True,
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
        meaning="Least severe log lines written: " + ", ".join(LOG_LEVELS) + ".",
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
        meaning="Seconds an idle connection is kept.",
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
        meaning="Connections per listener; more are closed with 503.",
        parse=whole(1, 65_536),
    ),
    Setting(
        name="requests_max",
        default=256,
        meaning="Requests in flight per listener; more are answered 503.",
        parse=whole(1, 65_536),
    ),
)
