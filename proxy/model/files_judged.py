"""Parses calls of an agent's own file tools: which ones change places, and which lines they add.

The text of a file before a change is known where a hook reports the call, which runs on this
machine. What a conversation shows of a file proves nothing: a shell may have written its lines, and
a front may be on another machine than the agent. If the file is on this machine, a link to the file
is noticed.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final, NamedTuple

from policy.places import Place, is_instructions
from proxy.dialects.files.edits import FileCall, check_alone, item_of, read_file_calls
from proxy.dialects.files.patch import FOLDERS_MAX
from proxy.dialects.mcp.file_rules import FileRule
from proxy.dialects.model.memory_tools import FileTool, file_tool
from proxy.dialects.model.transcript import ModelCall, Voice
from proxy.files.here import place_of, text_here
from proxy.model.memory_seam import PreparedRequest
from proxy.seams.guard import Item

# The voices in which a host states where it runs calls; models and tools repeat others' words.
_OF_THE_HOST: Final = frozenset({Voice.SYSTEM, Voice.USER, Voice.UNPLACED})


class FileWrite(NamedTuple):
    """A call that changes places; `items` are the changes, none if no line changes."""

    tool: FileTool
    items: tuple[Item, ...]

    @property
    def calls(self) -> tuple[FileCall, ...]:
        """The changes of the call's files, with the paths that the call has."""
        return read_file_calls(self.tool.rule, self.tool.arguments)


async def file_write(prepared: PreparedRequest, call: ModelCall) -> FileWrite | None:
    """What a call of a reply to a request changes in a place; None if it changes none.

    Raises:
        MalformedRequest: The call does not have the form that its tool map describes, or the path
            is a link.
    """
    tool = file_tool(prepared.asked.maps, call)
    if tool is None:
        return None
    places = tool.tool_map.all_places
    stated = _stated(prepared, tool.rule)
    found: list[tuple[FileCall, Place]] = []
    for call_of_file in read_file_calls(tool.rule, tool.arguments):
        readings = [
            (one, place)
            for one in call_of_file.located(stated)
            if not one.idle and (place := await place_of(one, places)) is not None
        ]
        # Of several readings the one in a place of instructions counts, else the first.
        found += sorted(readings, key=lambda one: not is_instructions(one[1]))[:1]
    if not found:
        return None
    if tool.server:
        check_alone(found)
    before = None
    # One part of a call may change the file of another, and a server has files of its own.
    if prepared.hooked is not None and len(found) == 1 and not tool.server:
        before = await asyncio.to_thread(text_here, found[0][0].path)
    items = [item_of(read, tool.arguments, before, place) for read, place in found]
    return FileWrite(tool, tuple(one for one in items if one is not None))


def _stated(prepared: PreparedRequest, rule: FileRule) -> tuple[str, ...]:
    """The folders that the host stated as its own: to its hook, or the latest first."""
    if prepared.hooked is not None:
        return (prepared.hooked.folder,)
    if rule.stated is None:
        return ()
    begin, end = map(re.escape, rule.stated)
    turns = reversed(prepared.request.turns)
    told = [said.text for turn in turns for said in turn.said if said.voice in _OF_THE_HOST]
    found = [one for text in told for one in re.findall(f"{begin}(.{{1,512}}?){end}", text)]
    return tuple(dict.fromkeys(found[:FOLDERS_MAX]))
