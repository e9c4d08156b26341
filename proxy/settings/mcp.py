"""The `[[mcp]]` tables: servers that are served at `/mcp/<name>`, and what each is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from policy.model import Reads
from proxy.dialects.mcp.maps import MapError, Posture, ToolMap
from proxy.seams.access import NO_FLOOR
from proxy.settings.servers import NAME_PATTERN, Text, check_url, headers_from
from proxy.settings.table import ENVIRONMENT_PREFIX, STANDARD_SECRETS
from proxy.settings.tool_maps import load_map
from proxy.settings.values import BadValue, table_of

# A server that the sidecar starts gets only these environment variables of the sidecar's, and so
# none of its keys and settings.
INHERITED: Final = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FROM_OURS: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class McpTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[mcp]]` table, as it stands in the file."""

    name: Annotated[str, Meta(pattern=NAME_PATTERN)]
    url: Text | None = None
    command: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=256)] | None = None
    env: Annotated[dict[str, str], Meta(max_length=256)] = {}
    cwd: Text = "/"
    map: Text | None = None
    headers_file: Text | None = None
    principals: Annotated[frozenset[Text], Meta(min_length=1, max_length=256)] | None = None
    reads: Reads = Reads.ALL
    sessions_max: Annotated[int, Meta(ge=1, le=4_096)] = 64
    answer_seconds: Annotated[float, Meta(ge=1, le=3_600)] = 120.0


MEANINGS: Final[dict[str, str]] = {
    "name": "The server is served at `/mcp/<name>`.",
    "url": "Where it is reached over Streamable HTTP: this one place, whatever a client says.",
    "command": "Instead of `url`: what the sidecar runs, as its own user, and serves over HTTP.",
    "env": "Environment of the command; besides it has only "
    + ", ".join(f"`{name}`" for name in INHERITED)
    + " of the sidecar's. The value `${NAME}` is that of the sidecar's own variable: for secrets.",
    "cwd": "Working directory of the command, absolute.",
    "map": "A shipped tool map by name, a file, or `context` for a server that keeps no memory; "
    "unset: by the name that the server gives itself.",
    "headers_file": "File with `Name: value` lines, closed to others: headers that `url` gets "
    "with each request, such as the credential that only the sidecar has.",
    "principals": "Ids of the principals that may use it; unset: all.",
    "reads": "`all`. A floor for reads is refused here: the server answers by itself. A key that "
    "has one may use servers with a map of posture `context` or `files` only; `mnemogate mcp "
    "--store` keeps the floor of its principal.",
    "sessions_max": "Sessions open at once, and so processes of a command.",
    "answer_seconds": "Seconds the server has for the beginning of an answer.",
}


class McpServer(McpTable, frozen=True, kw_only=True):
    """One server, checked. Exactly one of `url` and `command` is set."""

    environment: dict[str, str]
    headers: tuple[tuple[str, str], ...]
    tool_map: ToolMap | None

    @property
    def keeps_memory(self) -> bool:
        """Whether the server may keep memories, except in files."""
        return self.tool_map is None or self.tool_map.posture is Posture.MEMORY


def mcp_servers(tables: list[object], environment: Mapping[str, str]) -> tuple[McpServer, ...]:
    """The servers of these tables. `environment` is the sidecar's own.

    Raises:
        BadValue: The message names the table and the error, and no secret.
    """
    servers: list[McpServer] = []
    for position, table in enumerate(tables, 1):
        try:
            servers.append(_server(table_of(table, McpTable), environment))
        except (BadValue, MapError) as error:
            raise BadValue(f"mcp, table {position}: {error}") from None
    names = [server.name for server in servers]
    if len(set(names)) != len(names):
        raise BadValue("mcp: two tables have the same name")
    return tuple(servers)


def _server(given: McpTable, environment: Mapping[str, str]) -> McpServer:
    if given.reads is not Reads.ALL:
        raise BadValue(f"reads: {NO_FLOOR}; `mnemogate mcp --store` keeps its principal's")
    if (given.url is None) == (given.command is None):
        raise BadValue("set exactly one of url, command")
    if given.command is None and given.env:
        raise BadValue("env belongs to a command")
    if given.url is None and given.headers_file is not None:
        raise BadValue("headers_file belongs to a url")
    headers = headers_from(given.headers_file)
    if any(name.lower().startswith("mcp-") for name, _ in headers):
        raise BadValue("headers_file: a header that is made anew for each request")
    if given.url is not None:
        check_url(given.url, has_credential=bool(headers))
    if not Path(given.cwd).is_absolute():
        raise BadValue("cwd: must be an absolute path")
    return McpServer(
        **asdict(given),
        environment=_environment(given, environment),
        headers=headers,
        tool_map=None if given.map is None else load_map(given.map),
    )


def _environment(given: McpTable, environment: Mapping[str, str]) -> dict[str, str]:
    found = {name: environment[name] for name in INHERITED if name in environment}
    for name, value in given.env.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            raise BadValue("env: a name or value that no environment can hold")
        from_ours = _FROM_OURS.fullmatch(value)
        if from_ours is not None and (from_ours[1] not in environment or _is_ours(from_ours[1])):
            raise BadValue(f"env: {name}: names no variable of the sidecar that a server may have")
        found[name] = value if from_ours is None else environment[from_ours[1]]
    return found


def _is_ours(name: str) -> bool:
    return name.startswith(ENVIRONMENT_PREFIX) or name in STANDARD_SECRETS
