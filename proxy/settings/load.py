"""The only reader of the environment: flags over `MNEMOGATE_*` over the TOML file over defaults.

A bad value stops the start before any port opens, with what was wrong and what is allowed. What was
given is never quoted: it may be a secret that landed in the wrong variable.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import cast
from urllib.parse import unquote

import msgspec

from proxy.seams.cases import OnConviction
from proxy.settings.after import (
    Heal,
    ReplaySettings,
    SentryReceiver,
    after_table,
    incident_sentry,
    incident_webhook,
    on_conviction,
    recall_options,
    replay,
)
from proxy.settings.backend import BackendServer, backend_servers
from proxy.settings.judge_tables import JudgeTable, judge_tables
from proxy.settings.mcp import McpServer, mcp_servers
from proxy.settings.model import ModelUpstream, model_upstreams
from proxy.settings.principals import Binding, bindings_of
from proxy.settings.review_webhook import ReviewWebhook, review_webhook
from proxy.settings.secret_files import secret_from
from proxy.settings.table import (
    ENVIRONMENT_PREFIX,
    OTEL_HEADERS,
    SETTINGS,
    STANDARD_SECRETS,
    Setting,
)
from proxy.settings.values import Address, BadValue, Raw, Secret, no_such
from proxy.settings.values import path as path_of
from storage.features.recalls import RecallOptions
from storage.ground.trusted_files import UnfitFile, read_file, reason, refuse_replaceable
from telemetry.collector import collector_url
from telemetry.settings import TelemetrySettings

CONFIG_ENV = "MNEMOGATE_CONFIG"
OTEL_ENV = "OTEL_EXPORTER_OTLP_ENDPOINT"
_CONFIG_BYTES_MAX = 1024 * 1024
RULESET_BYTES_MAX = 1024 * 1024
_TLS_BYTES_MAX = 16 * 1024 * 1024
# A file that a store creates in its state directory with its first commit.
MARKER = "marker"
_LISTED = ("principals", "mcp", "model", "backend", "judge")
# Tables that may occur only once, and that are parsed like those that may occur more often.
_SINGLE = ("after", "review")

__all__ = ["SETTINGS", "Address", "Binding", "Secret", "Settings", "SettingsError", "load_settings"]


class SettingsError(Exception):
    """The error for settings that cannot be used; it names the setting and what is allowed."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on what a peer may take of one listener."""

    body_bytes_max: int
    header_seconds: float
    body_seconds: float
    idle_seconds: float
    drain_seconds: float
    connections_max: int
    requests_max: int
    unread_bytes_max: int = 256 * 1024**2


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Files of the server's certificate, its key, and the CA of client certificates."""

    cert: Path
    key: Path
    client_ca: Path | None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration, checked."""

    listen: Address
    admin: Address
    health: Address | None
    unix_socket: Path | None
    unix_uids: tuple[int, ...]
    tls: Tls | None
    state: Path
    expect_state: bool
    checkpoint: Path
    ruleset: Path | None
    observe: bool
    retention_seconds: float
    embedder: str
    quota_bytes: int
    tenant_share: float
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    agent_key: Secret | None
    operator_key: Secret | None
    telemetry: TelemetrySettings
    limits: Limits
    bindings: tuple[Binding, ...]
    mcp: tuple[McpServer, ...] = ()
    models: tuple[ModelUpstream, ...] = ()
    backends: tuple[BackendServer, ...] = ()
    review_webhook: ReviewWebhook | None = None
    judges: tuple[JudgeTable, ...] = ()
    recalls: RecallOptions = RecallOptions()
    on_conviction: OnConviction = OnConviction()
    # Where events of incidents go besides the webhook.
    incident_sentry: SentryReceiver | None = None
    replay: ReplaySettings = ReplaySettings()
    incident_webhook: ReviewWebhook | None = None
    canary_seconds: float = 3_600.0
    heal: Heal = Heal.RECALL

    def ruleset_text(self) -> str:
        """The TOML text of the ruleset; read again at each call, for a reload.

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


def load_settings(
    flags: Mapping[str, Raw] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: Path | None = None,
    check_places: bool = True,
) -> Settings:
    """The configuration of this process.

    `flags` maps setting names to what the command line gave. The file is `config`, else
    `MNEMOGATE_CONFIG`, else `mnemogate/mnemogate.toml` in the user's configuration directory. It
    is never looked for in the working directory: the agent may be able to write there.

    `check_places` is off for commands that only ask about a state directory (`doctor`, and those
    that talk to a running sidecar): that directory may be another user's, and stand anywhere.

    Raises:
        SettingsError: Anything is unknown, missing or out of range.
    """
    env = dict(os.environ if environment is None else environment)
    known = {setting.env for setting in SETTINGS} | {CONFIG_ENV}
    for name in sorted(env):
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known:
            said = no_such(name.removeprefix(ENVIRONMENT_PREFIX).lower())
            raise SettingsError(f"{name}: {said}; see `mnemogate run --help`")
    table, listed = _read_file(_config_file(env, config))
    values: dict[str, object] = {}
    for setting in SETTINGS:
        values[setting.name] = _value(setting, dict(flags or {}), env, table)
    unknown = sorted(set(flags or {}) - {setting.name for setting in SETTINGS})
    if unknown:
        raise SettingsError(f"{unknown[0]}: no such setting")
    settings = msgspec.structs.replace(
        _assemble(values, env, _bindings(listed["principals"])), **_behind(listed, env)
    )
    if settings.agent_key is not None and settings.agent_key == settings.operator_key:
        # If both roles had one key, a reader of the agent's environment would be an operator.
        raise SettingsError("agent_key and operator_key: must be two different keys")
    if check_places:
        _check_places(settings, env)
    return settings


def child_environment() -> dict[str, str]:
    """The environment for a program that is started for a user.

    It is the user's own, without the sidecar's secrets.
    """
    secret = {setting.env for setting in SETTINGS if setting.secret} | STANDARD_SECRETS
    return {name: value for name, value in os.environ.items() if name not in secret}


def setting_table() -> tuple[tuple[str, str, str, str], ...]:
    """Name, environment variable, default and meaning of every setting, for the documentation."""
    return tuple(
        (
            setting.name,
            setting.env,
            ""
            if setting.default in (None, "")
            else str(setting.default).lower()
            if isinstance(setting.default, bool)
            else str(setting.default),
            setting.meaning,
        )
        for setting in SETTINGS
    )


def _config_file(env: Mapping[str, str], config: Path | None) -> Path | None:
    """The path of the settings file. A file that the user named must exist."""
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
        # The uid has no entry in the user database, as in many containers. So the path is one that
        # does not exist.
        return Path("/nonexistent")


def _table_in(file: Path) -> dict[str, object]:
    """The settings file as a TOML table."""
    try:
        data = read_file(file, _CONFIG_BYTES_MAX)
        return cast("dict[str, object]", tomllib.loads(data.decode("utf-8")))
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read ({error.strerror})") from None
    except UnfitFile as error:
        raise SettingsError(f"the file of settings must be {error}") from None
    except tomllib.TOMLDecodeError as error:
        # The error names line and column and quotes no value, which may be a secret that stands
        # there by mistake.
        raise SettingsError(f"{file}: not TOML: {error}") from None
    except (ValueError, RecursionError):
        # Not UTF-8, or beyond a limit of the TOML reader: numbers with thousands of digits, deep
        # brackets.
        raise SettingsError(f"{file}: not a TOML file in UTF-8") from None


def _read_file(file: Path | None) -> tuple[dict[str, Raw], dict[str, list[object]]]:
    """The settings of the file, and its tables that may occur more than once."""
    listed: dict[str, list[object]] = {name: [] for name in (*_LISTED, *_SINGLE)}
    if file is None:
        return {}, listed
    table = _table_in(file)
    for name in _SINGLE:
        listed[name] = [table.pop(name)] if name in table else []
    for name in _LISTED:
        tables = table.pop(name, [])
        if not isinstance(tables, list):
            raise SettingsError(f"{file}: {name}: write them as [[{name}]] tables")
        listed[name] = cast("list[object]", tables)
    by_name = {setting.name: setting for setting in SETTINGS}
    for name in table:
        if name not in by_name:
            raise SettingsError(f"{file}: {no_such(name)}")
        if by_name[name].secret:
            raise SettingsError(
                f"{file}: {name}: a secret does not belong in a file; set {by_name[name].env}"
            )
    return cast("dict[str, Raw]", table), listed


def _value(
    setting: Setting, flags: dict[str, Raw], env: dict[str, str], table: dict[str, Raw]
) -> object:
    if setting.name in flags:
        where, raw = f"--{setting.name.replace('_', '-')}", flags[setting.name]
    elif setting.env in env:
        where, raw = setting.env, env[setting.env]
    elif setting.name in table:
        where, raw = setting.name, table[setting.name]
    elif setting.default is None:
        return None
    else:
        where, raw = setting.name, setting.default
    try:
        return setting.parse(raw)
    except BadValue as error:
        raise SettingsError(f"{where}: must be {error}") from None


def _behind(listed: dict[str, list[object]], env: Mapping[str, str]) -> dict[str, object]:
    """The checked tables of servers, model APIs and the webhook, by the name of their setting."""
    try:
        models, after = model_upstreams(listed["model"]), after_table(listed["after"])
        return {
            "mcp": mcp_servers(listed["mcp"], env),
            "models": models,
            "backends": backend_servers(listed["backend"]),
            "review_webhook": review_webhook(listed["review"]),
            "recalls": recall_options(after),
            "on_conviction": on_conviction(after),
            "incident_webhook": incident_webhook(after),
            "incident_sentry": incident_sentry(after, env),
            "replay": replay(after, models),
            "canary_seconds": after.canary_seconds,
            "heal": after.heal,
            "judges": judge_tables(listed["judge"]),
        }
    except BadValue as error:
        raise SettingsError(str(error)) from None


def _bindings(tables: list[object]) -> tuple[Binding, ...]:
    try:
        return bindings_of(tables)
    except BadValue as error:
        raise SettingsError(str(error)) from None


def _assemble(
    values: dict[str, object], env: Mapping[str, str], bindings: tuple[Binding, ...]
) -> Settings:
    values = dict(values)
    limits = msgspec.convert({name: values.pop(name) for name in Limits.__struct_fields__}, Limits)
    cert, key = values.pop("tls_cert"), values.pop("tls_key")
    client_ca = values.pop("tls_client_ca")
    if (cert is None) != (key is None) or (client_ca is not None and cert is None):
        raise SettingsError("tls_cert: set tls_cert and tls_key together; tls_client_ca needs both")
    tls = None
    if isinstance(cert, Path) and isinstance(key, Path):
        tls = Tls(cert=cert, key=key, client_ca=client_ca if isinstance(client_ca, Path) else None)
    verifies_clients = tls is not None and tls.client_ca is not None
    if not verifies_clients and any(bound.mtls is not None for bound in bindings):
        raise SettingsError("principals: mtls needs tls_cert, tls_key and tls_client_ca")
    endpoint = cast("str | None", values.pop("otel_endpoint")) or env.get(OTEL_ENV) or None
    headers = _headers(env.get(OTEL_HEADERS, "")) if endpoint else ()
    try:
        collector_url(endpoint or "http://localhost", headers)
    except ValueError as error:
        where = f"otel_endpoint, {OTEL_ENV} or {OTEL_HEADERS}"
        raise SettingsError(f"{where}: {error}") from error
    telemetry = TelemetrySettings(
        endpoint=endpoint,
        headers=headers,
        admit_detail_share=cast("float", values.pop("admit_detail_share")),
        log_level=cast("str", values.pop("log_level")),
        access_log=cast("bool", values.pop("access_log")),
    )
    state = cast("Path", values.pop("state") or _usual_state(env)).absolute()
    checkpoint = values.pop("checkpoint") or _usual_checkpoint(state)
    for role in ("agent", "operator"):
        values[f"{role}_key"] = _key(role, values[f"{role}_key"], values.pop(f"{role}_key_file"))
    uids = values.pop("unix_uids")
    if uids is None:
        uids = tuple(bound.uid for bound in bindings if bound.uid is not None)
    return Settings(
        state=state,
        checkpoint=cast("Path", checkpoint).absolute(),
        unix_uids=cast("tuple[int, ...]", uids),
        tls=tls,
        telemetry=telemetry,
        limits=limits,
        bindings=bindings,
        **values,  # type: ignore[arg-type]
    )


def elsewhere(settings: Settings) -> dict[str, Path]:
    """The places of these settings where a command without options would not look, by setting.

    The `MNEMOGATE_*` variables of this process do not count: another shell may not have them.
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
    # Named after its state directory: two states in one parent have two copies.
    return state.parent / "mnemogate-checkpoint" / f"{state.name}.txt"


def _key(role: str, given: object, file: object) -> object:
    """The key for a role, from its environment variable or its file."""
    if not isinstance(file, Path):
        return given
    if given is not None:
        raise SettingsError(f"{role}_key_file: set it or {role}_key, not both")
    try:
        return secret_from(file)
    except BadValue as error:
        raise SettingsError(f"{role}_key_file: must be {error}") from None


def _headers(given: str) -> tuple[tuple[str, str], ...]:
    """The headers of `OTEL_EXPORTER_OTLP_HEADERS`, whose values are percent-encoded."""
    headers: list[tuple[str, str]] = []
    for pair in filter(str.strip, given.split(",")):
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise SettingsError(f"{OTEL_HEADERS}: must be name=value, separated by commas")
        headers.append((name.strip(), unquote(value.strip())))
    return tuple(headers)


def _check_places(settings: Settings, env: Mapping[str, str]) -> None:
    """Refuse a state directory inside the working directory, where an agent may be working."""
    state = settings.state.resolve()
    here = Path.cwd().resolve()
    home = _home(env).resolve()
    # Only project directories count: every state directory lies below the root, and most below the
    # home directory.
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
    if settings.tls is not None:
        _check_certificates(settings.tls)


def _check_reach(name: str, place: Path) -> None:
    """Refuse a place (state directory, copy of the checkpoint) that another user could replace."""
    try:
        refuse_replaceable(place)
    except UnfitFile as error:
        raise SettingsError(f"{name}: must be {error}") from None
    except OSError as error:
        raise SettingsError(f"{name}: cannot be reached ({reason(error)})") from None


def _check_certificates(tls: Tls) -> None:
    """Check the files that the TLS library opens by name."""
    for name, file in (
        ("tls_cert", tls.cert),
        ("tls_key", tls.key),
        ("tls_client_ca", tls.client_ca),
    ):
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
