"""The `[[mcp]]` tables: upstream MCP servers, each of which is served at `/mcp/<name>`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec
from msgspec import Meta

from policy.model import Reads
from proxy.seams.access import NO_FLOOR
from proxy.settings.egress import Egress
from proxy.settings.servers import Name, Principals, Text, check_url, headers_from
from proxy.settings.values import BadValue

if TYPE_CHECKING:
    from proxy.dialects.mcp.maps import ToolMap

# A server that the sidecar starts inherits only these of the sidecar's environment variables, so
# that it gets none of the sidecar's keys and settings.
INHERITED: Final = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FROM_OURS: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class McpServer(Egress, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[mcp]]` table. Exactly one of `url` and `command` is set."""

    KIND: ClassVar = "mcp"

    name: Annotated[Name, Meta(description="The server is served at `/mcp/<name>`.")]
    url: Annotated[
        Text | None,
        Meta(
            description="Where it is reached over Streamable HTTP: this one place, whatever a "
            "client says."
        ),
    ] = None
    command: Annotated[
        Annotated[tuple[Text, ...], Meta(min_length=1, max_length=256)] | None,
        Meta(
            description="Instead of `url`: what the sidecar runs, as its own user, and serves over "
            "HTTP."
        ),
    ] = None
    env: Annotated[
        dict[str, str],
        Meta(
            max_length=256,
            description="Environment of the command; besides it has only "
            + ", ".join(f"`{name}`" for name in INHERITED)
            + " of the sidecar's. The value `${NAME}` is that of the sidecar's own variable: for "
            "secrets.",
        ),
    ] = msgspec.field(default_factory=dict[str, str])
    cwd: Annotated[Text, Meta(description="Working directory of the command, absolute.")] = "/"
    map: Annotated[
        Text | None,
        Meta(
            description="A shipped tool map by name, a file, or `context` for a server that keeps "
            "no memory; unset: by the name that the server gives itself."
        ),
    ] = None
    headers_file: Annotated[
        Text | None,
        Meta(
            description="File with `Name: value` lines, closed to others: headers that `url` gets "
            "with each request, such as the credential that only the sidecar has."
        ),
    ] = None
    principals: Annotated[
        Principals | None, Meta(description="Ids of the principals that may use it; unset: all.")
    ] = None
    reads: Annotated[
        Reads,
        Meta(
            description="`all`. A floor for reads is refused here: the server answers by itself. A "
            "key that has one may use servers with a map of posture `context` or `files` only; "
            "`mnemogate mcp --store` keeps the floor of its principal."
        ),
    ] = Reads.ALL
    sessions_max: Annotated[
        int,
        Meta(ge=1, le=4_096, description="Sessions open at once, and so processes of a command."),
    ] = 64
    answer_seconds: Annotated[
        float,
        Meta(ge=1, le=3_600, description="Seconds the server has for the beginning of an answer."),
    ] = 120.0

    def __post_init__(self) -> None:
        """Refuse keys that exclude each other, and files that cannot be used."""
        if self.reads is not Reads.ALL:
            raise BadValue(f"reads: {NO_FLOOR}; `mnemogate mcp --store` keeps its principal's")
        if (self.url is None) == (self.command is None):
            raise BadValue("set exactly one of url, command")
        if self.command is None and self.env:
            raise BadValue("env belongs to a command")
        for key in ("headers_file", "proxy", "ca_file"):
            if self.url is None and getattr(self, key) is not None:
                raise BadValue(f"{key} belongs to a url")
        super().__post_init__()
        if any(name.lower().startswith("mcp-") for name, _ in self.headers):
            raise BadValue("headers_file: a header that is made anew for each request")
        if self.url is not None:
            check_url(self.url, has_credential=bool(self.headers))
        if not Path(self.cwd).is_absolute():
            raise BadValue("cwd: must be an absolute path")
        _ = self.tool_map

    @cached_property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers in `headers_file`, which every forwarded request gets."""
        return headers_from(self.headers_file)

    @cached_property
    def tool_map(self) -> ToolMap | None:
        """The tool map that the table names; None where the server's own name selects one."""
        # The import is local, because it loads the dialects, which most commands do not need.
        from proxy.settings.tool_maps import load_map  # noqa: PLC0415

        return None if self.map is None else load_map(self.map)

    @property
    def keeps_memory(self) -> bool:
        """Whether the server may keep memories, except in files."""
        return self.tool_map is None or self.tool_map.keeps_memory

    @property
    def variables(self) -> frozenset[str]:
        """The names of the sidecar's own variables whose values `env` takes."""
        found = (_FROM_OURS.fullmatch(value) for value in self.env.values())
        return frozenset(one[1] for one in found if one is not None)

    def environment(self, ours: Mapping[str, str], secret: frozenset[str]) -> dict[str, str]:
        """The complete environment of the command, from `ours` (the sidecar's own) and `env`.

        Raises:
            BadValue: A value in `env` names a variable that is missing, or that is in `secret`.
        """
        found = {name: ours[name] for name in INHERITED if name in ours}
        for name, value in self.env.items():
            if not _VARIABLE.fullmatch(name) or "\0" in value:
                raise BadValue("env: a name or value that no environment can hold")
            from_ours = _FROM_OURS.fullmatch(value)
            if from_ours is not None and (from_ours[1] not in ours or from_ours[1] in secret):
                raise BadValue(
                    f"env: {name}: names no variable of the sidecar that a server may have"
                )
            found[name] = value if from_ours is None else ours[from_ours[1]]
        return found
