"""Parses calls of an agent's own file tools: which ones change places, and which lines they add.

The text of a file before a change is known where a hook reports the call, which runs on this
machine. What a conversation shows of a file proves nothing: a shell may have written its lines, and
a front may be on another machine than the agent. If the file is on this machine, a link to the file
is noticed.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final, NamedTuple

import msgspec

from policy.places import Places
from proxy.dialects.files.edits import FileCall, item_of, read_file_calls
from proxy.dialects.files.patch import FOLDERS_MAX
from proxy.dialects.mcp.calls import ToolCall
from proxy.dialects.mcp.maps import ToolKind
from proxy.dialects.model.memory_tools import file_tool
from proxy.dialects.model.transcript import ModelCall
from proxy.files.here import placed_calls, text_here
from proxy.model.memory_seam import PreparedRequest
from proxy.places.marked import folder_in
from proxy.seams.guard import Item

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class NamedCall(NamedTuple):
    """A tool call parsed by its tool map, and the name that the host gives the tool's server.

    `does`: what the call does, the same for a front and a hook that get the call.
    """

    call: ToolCall
    map_name: str
    server: str
    does: tuple[FileCall, ...] | tuple[Item, ...]

    @property
    def digest(self) -> str:
        """The digest by which the call is found again (`CallIdentity`)."""
        return hashlib.sha256(_ENCODER.encode((self.call.tool, self.does))).hexdigest()


async def file_write(prepared: PreparedRequest, call: ModelCall) -> NamedCall | None:
    """What a call of a reply to a request changes in places; None if it changes no line of any.

    Raises:
        MalformedRequest: The call does not have the form that its tool map describes, or the path
            is a link.
    """
    tool = file_tool(prepared.asked.maps, call)
    if tool is None:
        return None
    places, stated = tool.tool_map.all_places, _stated(prepared, tool.tool_map.all_places)
    found = await placed_calls(tool.rule, tool.arguments, places, stated, alone=bool(tool.server))
    before = None
    # One part of a call may change the file of another, and a server has files of its own.
    if prepared.hooked is not None and len(found) == 1 and not tool.server:
        before = await asyncio.to_thread(text_here, found[0][0].path)
    items = [item_of(read, tool.arguments, before, place) for read, place in found]
    made = tuple(one for one in items if one is not None)
    if not made:
        return None
    read = ToolCall(
        tool=tool.tool, kind=ToolKind.WRITE, rule=None, arguments=tool.arguments, items=made
    )
    # Its paths are those of the call, because a front may not know the folder that a hook knows.
    does = read_file_calls(tool.rule, tool.arguments)
    return NamedCall(read, tool.tool_map.name, tool.server, does)


def _stated(prepared: PreparedRequest, places: Places) -> tuple[str, ...]:
    """The folders that the host stated as its own: to its hook, or the latest first."""
    if prepared.hooked is not None:
        return (prepared.hooked.folder,)
    turns = reversed(prepared.request.turns)
    told = (*(said for turn in turns for said in turn.said), *prepared.request.system)
    found = [folder for said in told if (folder := folder_in(said, places))]
    return tuple(dict.fromkeys(found[:FOLDERS_MAX]))
