"""Loads the settings: flags override `MNEMOGATE_*`, which override the TOML file, then defaults.

No other module reads the environment. A bad value ends the start before any port is opened, with an
error that names what is wrong and what is allowed. The error never quotes the value, which may be a
secret in the wrong variable.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast
from urllib.parse import unquote

import msgspec
from msgspec.structs import FieldInfo

from proxy.settings.egress import Egress
from proxy.settings.mcp import INHERITED, McpServer
from proxy.settings.secret_files import secret_from
from proxy.settings.table import (
    ENVIRONMENT_PREFIX,
    SECRETS,
    SETTINGS,
    TABLES,
    Settings,
    SettingsError,
    variable_of,
)
from proxy.settings.values import BadValue, Raw, Secret, address, no_such, value_of
from proxy.settings.values import path as path_of
from storage.ground.trusted_files import UnfitFile, read_file, reason, refuse_replaceable
from telemetry.collector import collector_url
from telemetry.settings import TelemetrySettings

CONFIG_ENV: Final = "MNEMOGATE_CONFIG"
OTEL_ENV: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
OTEL_TRACES_ENV: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
OTEL_DISABLED: Final = "OTEL_SDK_DISABLED"
OTEL_HEADERS: Final = "OTEL_EXPORTER_OTLP_HEADERS"
_OTEL_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_OTEL_PROTOCOL: Final = "http/protobuf"
_PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
SENTRY_DSN: Final = "SENTRY_DSN"
_OURS: Final = frozenset({SENTRY_DSN, OTEL_HEADERS, *map(variable_of, SECRETS)})
"""The environment variables that contain secrets of the sidecar."""
_LISTS: Final = frozenset({"unix_uids", "allowed_hosts", "allowed_origins"})
_ADDRESSES: Final = frozenset({"listen", "admin", "health"})
_CONFIG_BYTES_MAX: Final = 1024 * 1024
_TLS_BYTES_MAX: Final = 16 * 1024 * 1024
# The name of a file that a store creates in its state directory with its first commit.
MARKER: Final = "marker"


def load_settings(
    flags: Mapping[str, Raw] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: Path | None = None,
    check_places: bool = True,
    untraced: Callable[[str], None] | None = None,
) -> Settings:
    """Load and check the configuration of this process; return it.

    `flags` maps setting names to values of the command line. The file is `config`, else
    `MNEMOGATE_CONFIG`, else `mnemogate/mnemogate.toml` in the user's configuration directory. It is
    never searched in the working directory, where the agent may be able to write.

    `check_places` is off for commands that only ask about a state directory (`doctor`, and those
    that connect to a running sidecar): that directory may be another user's, and be anywhere.

    `untraced` gets the reason why the `OTEL_*` variables cannot be used, and there are no traces;
    without it, that is an error.

    Raises:
        SettingsError: A setting is unknown, missing or out of range.
    """
    env = dict(os.environ if environment is None else environment)
    names = {field.name for field in SETTINGS}
    known = {CONFIG_ENV, *map(variable_of, names)}
    for name in sorted(env):
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known:
            told = no_such(name.removeprefix(ENVIRONMENT_PREFIX).lower())
            raise SettingsError(f"{name}: {told}; see `mnemogate run --help`")
    for name in sorted({*(flags or {})} - names):
        raise SettingsError(no_such(name))
    document = _document(_config_file(env, config), dict(flags or {}), env)
    state = cast("Path", document.setdefault("state", _usual_state(env))).absolute()
    checkpoint = cast("Path", document.setdefault("checkpoint", _usual_checkpoint(state)))
    document |= {"state": state, "checkpoint": checkpoint.absolute()}
    for role in ("agent", "operator"):
        _take_key(document, role)
    try:
        settings = value_of(document, Settings)
        settings = msgspec.structs.replace(
            settings,
            telemetry=_telemetry_or_none(settings, env, untraced),
            sentry_dsn=_sentry_dsn(settings, env),
            variables=frozenset().union(*(server.variables for server in settings.mcp)),
            mcp=tuple(_started_in(env, *one) for one in enumerate(settings.mcp, 1)),
        )
    except BadValue as error:
        raise SettingsError(str(error)) from None
    if check_places:
        _check_places(settings, env)
    return settings


def child_environment() -> dict[str, str]:
    """The user's own environment without the sidecar's secrets, for a program that is started."""
    return {name: value for name, value in os.environ.items() if name not in _OURS}


def unused_proxy(url: str) -> str:
    """A hint at a variable that would choose a proxy in other programs; "" if none is set."""
    for name in ("HTTPS_PROXY" if url.startswith("https:") else "HTTP_PROXY", "ALL_PROXY"):
        if os.environ.get(name) or os.environ.get(name.lower()):
            return f"; {name} is set, and not used: set `proxy` in the table"
    return ""


def gate_environment(settings: Settings, config: Path | None) -> dict[str, str]:
    """The environment of a gate that an MCP wrapper starts: of the host's, what the gate reads.

    A host's environment has keys of model APIs, and the gate outlives the host. `config` is the
    file of settings, if the command line names one.
    """
    prefixes = [ENVIRONMENT_PREFIX, "LC_", "PYTHON", "SSL_CERT_", "XDG_"]
    if settings.telemetry.endpoint is not None:
        prefixes.append("OTEL_")
    names = {*INHERITED, *settings.variables, *_PROXIES, *map(str.lower, _PROXIES)}
    if settings.sentry_dsn is not None:
        names.add(SENTRY_DSN)
    read = {
        name: value
        for name, value in os.environ.items()
        if name in names or name.startswith(tuple(prefixes))
    }
    file = config or (Path(read[CONFIG_ENV]) if read.get(CONFIG_ENV) else None)
    # The gate has another working directory.
    return read if file is None else read | {CONFIG_ENV: str(file.expanduser().absolute())}


def _config_file(env: Mapping[str, str], config: Path | None) -> Path | None:
    """The path of the settings file; None if no file is named and the usual one is missing."""
    given = env.get(CONFIG_ENV)
    try:
        if config or given:
            return config or path_of(given or "")
    except BadValue as error:
        raise SettingsError(f"{CONFIG_ENV}: must be {error}") from None
    usual = _base(env, "XDG_CONFIG_HOME", ".config") / "mnemogate" / "mnemogate.toml"
    try:
        return usual if usual.is_file() else None
    except OSError as error:
        raise SettingsError(
            f"{usual}: cannot be reached ({error.strerror}); set HOME to this user's own"
        ) from None


def _base(env: Mapping[str, str], variable: str, below_home: str) -> Path:
    given = env.get(variable, "")
    # XDG specification: a relative path in these variables is ignored.
    return Path(given) if given.startswith("/") else _home(env) / below_home


def _home(env: Mapping[str, str]) -> Path:
    try:
        return Path(env.get("HOME") or str(Path.home()))
    except RuntimeError:
        # The uid has no entry in the user database, as in many containers.
        return Path("/nonexistent")


def _table_in(file: Path) -> dict[str, object]:
    """Read the settings file; return its TOML table."""
    try:
        data = read_file(file, _CONFIG_BYTES_MAX)
        return cast("dict[str, object]", tomllib.loads(data.decode("utf-8")))
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read ({error.strerror})") from None
    except UnfitFile as error:
        raise SettingsError(f"the file of settings must be {error}") from None
    except tomllib.TOMLDecodeError as error:
        # The error names line and column, and quotes no value, which may be a misplaced secret.
        raise SettingsError(f"{file}: not TOML: {error}") from None
    except (ValueError, RecursionError):
        # The file is not UTF-8, or exceeds a limit of the TOML parser: numbers with thousands of
        # digits, deeply nested brackets.
        raise SettingsError(f"{file}: not a TOML file in UTF-8") from None


def _document(
    file: Path | None, flags: dict[str, Raw], env: Mapping[str, str]
) -> dict[str, object]:
    """The settings that are given, without defaults: flags over the environment over the file."""
    document = {} if file is None else _table_in(file)
    names = {field.name for field in SETTINGS}
    for name in document:
        if name not in names and name not in TABLES:
            raise SettingsError(f"{file}: {no_such(name)}")
        if name in SECRETS:
            raise SettingsError(
                f"{file}: {name}: a secret does not belong in a file; set {variable_of(name)}"
            )
    for field in SETTINGS:
        name = field.name
        where, raw = name, document.get(name)
        if name in flags:
            where, raw = f"--{name.replace('_', '-')}", flags[name]
        elif variable_of(name) in env:
            where, raw = variable_of(name), env[variable_of(name)]
        if raw is None:
            continue
        try:
            document[name] = _value(field, raw, of_file=where == name)
        except BadValue as error:
            raise SettingsError(f"{where}: {error}") from None
    return document


def _value(field: FieldInfo, raw: object, *, of_file: bool) -> object:
    """The value of one setting; in a flag or variable, a list is a text separated by commas."""
    if field.name in _ADDRESSES:
        try:
            return address(raw)
        except BadValue as error:
            raise BadValue(f"must be {error}") from None
    if isinstance(raw, str) and not of_file:
        parts = [part.strip() for part in raw.split(",")]
        raw = [*filter(None, parts)] if field.name in _LISTS else raw.strip()
    return value_of(raw, field.type, strict=of_file)


def _take_key(document: dict[str, object], role: str) -> None:
    """Replace the path of a role's key file in the document by the key in that file."""
    file = document.get(f"{role}_key_file")
    if not isinstance(file, Path):
        return
    if f"{role}_key" in document:
        raise SettingsError(f"{role}_key_file: set it or {role}_key, not both")
    try:
        document[f"{role}_key"] = secret_from(file)
    except BadValue as error:
        raise SettingsError(f"{role}_key_file: must be {error}") from None


def _telemetry_or_none(
    settings: Settings, env: Mapping[str, str], untraced: Callable[[str], None] | None
) -> TelemetrySettings:
    try:
        return _telemetry(settings, env)
    except BadValue as error:
        if untraced is None:
            raise
        untraced(str(error))
        return _telemetry(settings, {**env, OTEL_DISABLED: "true"})


def _telemetry(settings: Settings, env: Mapping[str, str]) -> TelemetrySettings:
    whole, base = env.get(OTEL_TRACES_ENV), env.get(OTEL_ENV)
    disabled = env.get(OTEL_DISABLED, "").lower() == "true"
    endpoint = None if disabled else settings.otel_endpoint or whole or base or None
    headers = _headers(env.get(OTEL_HEADERS, "")) if endpoint else ()
    for name in _OTEL_PROTOCOLS if endpoint else ():
        if env.get(name, _OTEL_PROTOCOL) != _OTEL_PROTOCOL:
            raise BadValue(f"{name}: {env[name]} is not supported; set it to {_OTEL_PROTOCOL}")
    try:
        collector_url(endpoint or "http://localhost", headers)
    except ValueError as error:
        named = f"otel_endpoint, {OTEL_TRACES_ENV}, {OTEL_ENV} or {OTEL_HEADERS}"
        raise BadValue(f"{named}: {error}") from None
    try:
        way = Egress(
            name="otel_endpoint",
            proxy=settings.otel_proxy,
            proxy_headers_file=settings.otel_proxy_headers_file,
            ca_file=settings.otel_ca_file,
        )
    except BadValue as error:
        raise BadValue(f"otel_{error}") from None
    return TelemetrySettings(
        endpoint=endpoint,
        proxy=way.proxy,
        proxy_headers=way.proxy_headers,
        certificate_file=settings.otel_ca_file,
        exact=endpoint is not None and endpoint == whole,
        headers=headers,
        admit_detail_share=settings.admit_detail_share,
        log_level=settings.log_level,
        access_log=settings.access_log,
    )


def _headers(given: str) -> tuple[tuple[str, str], ...]:
    """The headers of `OTEL_EXPORTER_OTLP_HEADERS`, whose values are percent-encoded."""
    headers: list[tuple[str, str]] = []
    for pair in filter(str.strip, given.split(",")):
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise BadValue(f"{OTEL_HEADERS}: must be name=value, separated by commas")
        headers.append((name.strip(), unquote(value.strip())))
    return tuple(headers)


def _sentry_dsn(settings: Settings, env: Mapping[str, str]) -> Secret | None:
    if settings.after.sentry is None:
        return None
    if not env.get(SENTRY_DSN):
        raise BadValue(f"after.sentry: {SENTRY_DSN} is not set in the environment")
    return Secret(env[SENTRY_DSN])


def _started_in(env: Mapping[str, str], position: int, server: McpServer) -> McpServer:
    """The server with the complete environment that its command gets."""
    if server.command is None:
        return server
    secret = frozenset(name for name in env if name.startswith(ENVIRONMENT_PREFIX)) | _OURS
    try:
        return msgspec.structs.replace(server, env=server.environment(env, secret))
    except BadValue as error:
        raise BadValue(f"mcp, table {position}: {error}") from None


def elsewhere(settings: Settings) -> dict[str, Path]:
    """A mapping of `state` and `checkpoint` to their paths, for those that are not the default.

    A command without options would not find them. `MNEMOGATE_*` variables are disregarded, because
    another shell may lack them.
    """
    found: dict[str, Path] = {}
    if settings.state != _usual_state(os.environ).absolute():
        found["state"] = settings.state
    if settings.checkpoint != _usual_checkpoint(settings.state):
        found["checkpoint"] = settings.checkpoint
    return found


def _usual_state(env: Mapping[str, str]) -> Path:
    return _base(env, "XDG_STATE_HOME", ".local/state") / "mnemogate"


def _usual_checkpoint(state: Path) -> Path:
    # The copy has the name of its state directory, so that two of these in one parent do not share
    # a copy.
    return state.parent / "mnemogate-checkpoint" / f"{state.name}.txt"


def _check_places(settings: Settings, env: Mapping[str, str]) -> None:
    """Refuse places that an agent or another user may write, or a checkpoint inside the state.

    An agent may write in the working directory.
    """
    state = settings.state.resolve()
    here = Path.cwd().resolve()
    home = _home(env).resolve()
    # The root and the home directory are allowed as working directories, because nearly every state
    # directory is below one of them.
    if here in (state, *state.parents) and here not in (Path(here.anchor), home):
        raise SettingsError(
            "state: lies inside the working directory, where an agent may write; "
            "choose a directory elsewhere"
        )
    if settings.checkpoint.resolve().is_relative_to(state):
        raise SettingsError(
            "checkpoint: lies inside the state directory; a copy there is rolled back with it"
        )
    _check_state(settings.state, expected=settings.expect_state)
    _check_reach("checkpoint", settings.checkpoint)
    for name in ("tls_cert", "tls_key", "tls_client_ca"):
        _check_certificate(name, getattr(settings, name))


def _check_reach(name: str, place: Path) -> None:
    """Refuse a place (state directory, copy of the checkpoint) that another user could replace."""
    try:
        refuse_replaceable(place)
    except UnfitFile as error:
        raise SettingsError(f"{name}: must be {error}") from None
    except OSError as error:
        raise SettingsError(f"{name}: cannot be reached ({reason(error)})") from None


def _check_certificate(name: str, file: Path | None) -> None:
    """Check that a file, which the TLS library opens by name later, can be read and trusted."""
    try:
        if file is not None:
            read_file(file, _TLS_BYTES_MAX)
    except UnfitFile as error:
        raise SettingsError(f"{name}: must be {error}") from None
    except OSError as error:
        raise SettingsError(f"{name}: cannot be read ({reason(error)})") from None


def _check_state(state: Path, *, expected: bool) -> None:
    try:
        if expected and not (state / MARKER).is_file():
            raise SettingsError(
                f"state: there is no store in {state}, and expect_state says that there is one; "
                "mount or name the right directory, or unset expect_state to begin a new store"
            )
        found = state.stat()
    except FileNotFoundError:
        _check_reach("state", state)
        above = next(one for one in state.parents if one.exists())
        if not os.access(above, os.W_OK | os.X_OK, effective_ids=True):
            raise SettingsError(
                f"state: cannot be made, {above} is not this user's to write: as its owner, "
                f"`install -d -m 700 -o {os.geteuid()} {state}`"
            ) from None
        return
    except OSError as error:
        raise SettingsError(f"state: cannot be reached ({reason(error)})") from None
    if not stat.S_ISDIR(found.st_mode):
        raise SettingsError(f"state: must be a directory, and {state} is none")
    if found.st_mode & 0o077:
        raise SettingsError(f"state: others can enter the directory: `chmod 700 {state}`")
    _check_reach("state", state)
    if found.st_uid != os.geteuid():
        raise SettingsError(
            f"state: must belong to the user of the gate: `chown -R {os.geteuid()} {state}`"
        )
