"""`mnemogate doctor`: run as the agent's user, tests that this user cannot bypass the gate."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import Meta

from proxy.cli.api_commands import show
from proxy.cli.command import Command, Context, option, read_file
from proxy.cli.connect import Where, admin_url, settings_of
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import Terminal, inert
from proxy.doctor.examine import Examination, examine
from proxy.doctor.finding import (
    BackendTarget,
    DoctorTarget,
    Finding,
    ProbeRequest,
    ProbeResult,
    ShardTarget,
)
from proxy.doctor.locate import gates_of, listening_uid, lock_holders, option_of
from proxy.seams.operation import HttpRequest
from proxy.settings.load import child_environment
from proxy.settings.table import Settings, SettingsError
from proxy.settings.values import Address, BadValue, address, unquoted, value_of

_KEY_LEN_MAX: Final = 1024
_CONFIG_LEN_MAX: Final = 1024 * 1024
_HOW_TO_NAME: Final = (
    "--config FILE, if this user may read it; or --backend ADAPTER=URL, like "
    "chroma=http://127.0.0.1:8000"
)
# A mapping of an option of `mnemogate run` that sets an address to the option of this command that
# names the same address.
_ASKED: Final = {"--listen": "--data", "--admin": "--admin"}
_TOLD_WHOLE: Final = frozenset({ProbeResult.FAIL, ProbeResult.WARNED})
_NOT_COVERED: Final = (
    "What FAIL means: this user can write, read or stop what only the sidecar may, or allow its "
    "own writes. Then no\nverdict of the gate binds it. Run the sidecar as a user of its own, with "
    "a state directory of mode 0700, and the\nagent as another user without root, sudo or a "
    "container engine's socket; keep the operator's key out of its\nenvironment."
)


class _Tables(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a settings file that names what is outside of the state directory."""

    backend: list[dict[str, object]] = []
    shard: ShardTarget | None = None


class _Doctor(msgspec.Struct, frozen=True, kw_only=True):
    data: str | None = None
    pid: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    agent_key_file: str | None = None
    backend: str | None = None


def _doctor(context: Context) -> Exit:
    aim = _aim(context)
    found = examine(aim)
    show(context, found, told)
    if not found.separated:
        return Exit.FAILED
    return Exit.OK if found.proven else Exit.UNREACHABLE


def _aim(context: Context) -> DoctorTarget:
    asked, where = context.arguments(_Doctor), context.arguments(Where)
    # `doctor` tests whether this user can write to the sidecar's configuration file, so it takes no
    # settings from this file.
    settings = settings_of(context, reads_config=False)
    found = lock_holders(settings.state)
    data_url = _address("--data", asked.data) or _told(found, "--listen", settings, settings.listen)
    return DoctorTarget(
        state=settings.state,
        checkpoint=settings.checkpoint,
        config=None if where.config is None else Path(where.config).absolute(),
        data_url=data_url,
        admin_url=_address("--admin", where.admin)
        or _told(found, "--admin", settings, settings.admin),
        agent_key=_agent_key(asked, settings),
        pids=_pids(asked, settings, data_url),
        backend=None if asked.backend is None else _backend(asked.backend, where.config),
        shard=None if where.config is None else shard_named(where.config),
        environment=child_environment(),
    )


def _backend(asked: str, config: str | None) -> BackendTarget:
    """The memory server that `--backend` names by a table of the settings, or as ADAPTER=URL.

    Raises:
        CommandFailed: The value names no configured server, or no known adapter and URL.
    """
    # These imports load the adapters of memory servers, which only this option needs.
    from proxy.compose.backends import adapters_by_name  # noqa: PLC0415
    from proxy.settings.backend import BackendServer  # noqa: PLC0415

    adapter, separator, url = asked.partition("=")
    found: dict[str, object] = {"name": adapter, "adapter": adapter, "url": url}
    if not separator:
        found = _table_of(asked, config)
    # The file contains the sidecar's credential. `doctor` runs as the agent's user, and only tests
    # whether this user can open the file.
    headers_file = found.pop("headers_file", None)
    try:
        server = value_of(found, BackendServer)
        attempts = adapters_by_name((server,))[server.name].attempts()
    except (BadValue, SettingsError) as error:
        raise CommandFailed(Exit.USAGE, f"--backend: {error}") from None
    return BackendTarget(
        name=server.name,
        url=server.url,
        headers_file=Path(headers_file) if isinstance(headers_file, str) else None,
        alive=_request(attempts.alive),
        read=_request(attempts.read),
        write=_request(attempts.write),
    )


def _table_of(name: str, config: str | None) -> dict[str, object]:
    if config is None:
        raise CommandFailed(Exit.USAGE, "--backend NAME: in which file?", then=_HOW_TO_NAME)
    data = read_file(Path(config), "the configuration", _CONFIG_LEN_MAX)
    try:
        tables = value_of(tomllib.loads(data.decode()), _Tables).backend
    except (ValueError, BadValue):
        raise CommandFailed(Exit.USAGE, "--config: no settings in TOML") from None
    found = next((one for one in tables if one.get("name") == name), None)
    if found is None:
        raise CommandFailed(
            Exit.NOT_FOUND, f"no [[backend]] table of that name: {inert(name)}", then=_HOW_TO_NAME
        )
    return found


def shard_named(config: str) -> ShardTarget | None:
    """The shard of a settings file; None if it has none, or if this user cannot read it."""
    with suppress(CommandFailed, ValueError, BadValue):
        data = read_file(Path(config), "the configuration", _CONFIG_LEN_MAX)
        return value_of(tomllib.loads(data.decode()), _Tables).shard
    return None


def _request(request: HttpRequest) -> ProbeRequest:
    query = f"?{urlencode(request.query)}" if request.query else ""
    return ProbeRequest(
        method=request.method, target=quote(request.path) + query, body=request.body
    )


def _pids(asked: _Doctor, settings: Settings, data_url: str) -> tuple[int, ...]:
    if asked.pid is not None:
        return (asked.pid,)
    return gates_of(settings.state, listening_uid(data_url))


def _address(option: str, given: str | None) -> str | None:
    if not given:
        return None
    url = admin_url(given)
    try:
        known = urlsplit(url).port is None or urlsplit(url).hostname is not None
    except ValueError:
        known = False
    if not known:
        raise CommandFailed(Exit.USAGE, f"{option}: no URL", then="like http://127.0.0.1:7077")
    return url


def _told(gates: tuple[int, ...], option: str, settings: Settings, default: Address) -> str:
    """The URL on which the gate of this state directory listens, from that gate's command line.

    Any user may read the command line of another user's process.

    Raises:
        CommandFailed: The gate listens on a port that the system chose and that no file contains;
            at the default port there may be no server, or another one.
    """
    for pid in gates:
        given = option_of(pid, option)
        if given is not None:
            with suppress(BadValue):
                known = address(given)
                if not known.port:
                    raise CommandFailed(
                        Exit.USAGE,
                        f"process {pid}, the gate of {settings.state}, runs with "
                        f"{option} {known.host}:0: only its own first lines say which port it got",
                        then=f"give that address: {_ASKED[option]} URL",
                    )
                return _url(settings, known)
    return _url(settings, default)


def _url(settings: Settings, address: Address) -> str:
    return address.url("http" if settings.tls_cert is None else "https")


def _agent_key(asked: _Doctor, settings: Settings) -> str | None:
    if asked.agent_key_file is not None:
        data = read_file(Path(asked.agent_key_file), "the agent's key", _KEY_LEN_MAX)
        return unquoted(data.decode("ascii", "replace").strip())
    return None if settings.agent_key is None else unquoted(settings.agent_key.reveal())


def told(context: Context, found: Examination) -> None:
    """Print the results of the probes, and a verdict on them."""
    terminal = context.terminal
    # A row of the table may be cut, but a person has to read failures and warnings to their end, so
    # they are printed below the table, each once.
    terminal.table(
        ("verdict", "probe", "tried", "got"),
        [
            (finding.verdict.value, finding.id, finding.tried, finding.got)
            for finding in found.findings
            if finding.verdict not in _TOLD_WHOLE
        ],
        nothing="every probe failed or warns",
    )
    terminal.say()
    failed = [finding for finding in found.findings if finding.verdict is ProbeResult.FAIL]
    skipped = sum(finding.verdict is ProbeResult.SKIPPED for finding in found.findings)
    if failed:
        terminal.say(f"NOT SEPARATED: {len(failed)} of {len(found.findings)} attempts worked")
        _tell_whole(terminal, failed)
        terminal.say(_NOT_COVERED)
    elif not found.proven:
        terminal.say(
            f"NOT PROVEN: nothing worked, but {skipped} probes had nothing to aim at. Run this on "
            "the\nsidecar's machine, with --state, --data and --admin as the sidecar has them."
        )
    elif found.isolated:
        terminal.say(
            "separated by isolation: nothing worked; the gate answers, and neither its process nor "
            "its files\ncan be seen from here. That its uid alone would hold as well is not shown."
        )
    else:
        terminal.say(f"separated: nothing worked ({skipped} of {len(found.findings)} skipped)")
    warned = [one for one in found.findings if one.verdict is ProbeResult.WARNED]
    if warned:
        terminal.say("no hole, but look at these:")
        _tell_whole(terminal, warned)


def _tell_whole(terminal: Terminal, findings: Sequence[Finding]) -> None:
    """Print what each probe tried and what it got, without cutting any text."""
    for finding in findings:
        terminal.say(f"{finding.verdict.value} {finding.id}")
        terminal.pairs([("  tried", finding.tried), ("  got", finding.got)])


COMMANDS = (
    Command(
        words=("doctor",),
        summary="run as the agent's user: try every way around the gate, which must all fail",
        act=_doctor,
        options=(
            option(
                "--backend",
                "try to go past the gate to this memory server too: its [[backend]] table in the "
                "file of --config, or what it is and where",
                metavar="NAME|ADAPTER=URL",
            ),
            option("--data", "the sidecar's data listener", metavar="URL"),
            option("--pid", "the sidecar's process (default: the gate of --state)"),
            option(
                "--agent-key-file",
                "the agent's key, for the probes that use it (default: MNEMOGATE_AGENT_KEY). One "
                "of them writes to L1 and is refused. Where the operator vouches for that key's "
                "labels, this counts once as a violation: give doctor a key of its own there",
                metavar="FILE",
            ),
        ),
        form=_Doctor,
    ),
)
