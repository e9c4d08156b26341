"""Parses calls of an agent's own file tools: which ones change places, and which lines they add.

A request repeats its whole conversation, so a file's text before a change is taken from what the
conversation has shown. If the file is on this machine, a link to the file is noticed.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final, NamedTuple

from policy.places import Place, is_instructions
from proxy.dialects.files.edits import FileCall, check_alone, item_of, read_file_calls
from proxy.dialects.files.known import KnownFiles
from proxy.dialects.files.patch import FOLDERS_MAX
from proxy.dialects.mcp.calls import read_call
from proxy.dialects.mcp.file_rules import FileRule
from proxy.dialects.mcp.maps import ToolKind
from proxy.dialects.model.memory_tools import FileTool, OfferedTools, file_tool
from proxy.dialects.model.tools import outcomes_of
from proxy.dialects.model.transcript import ModelCall, Voice, Where
from proxy.dialects.strict_json.tolerant import Json
from proxy.files.here import place_of, text_here
from proxy.model.memory_seam import PreparedRequest
from proxy.seams.faults import MalformedRequest
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
        rule = self.tool.rule.file
        return () if rule is None else read_file_calls(rule, self.tool.arguments)


class ConversationFiles:
    """The files that one conversation has shown, for judging the calls of one reply.

    Event loop only.
    """

    def __init__(self, prepared: PreparedRequest, catalogue: OfferedTools) -> None:
        self._prepared = prepared
        self._maps = prepared.asked.maps
        self._catalogue = catalogue
        self._known: KnownFiles | None = None
        self._earlier: list[ModelCall] = []

    async def read(self, call: ModelCall) -> FileWrite | None:
        """What a call changes in a place; None if it changes none.

        Raises:
            MalformedRequest: The call does not have the form that its tool map describes, or the
                path is a link.
        """
        tool = file_tool(self._maps, call)
        if tool is None or tool.rule.file is None or tool.rule.kind is not ToolKind.WRITE:
            return None
        places = tool.tool_map.all_places
        stated = self._stated(tool.rule.file)
        found: list[tuple[FileCall, Place]] = []
        for call_of_file in read_file_calls(tool.rule.file, tool.arguments):
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
        known = self._known = self._known or self._read_conversation()
        for earlier in self._earlier:
            # The result of an earlier call of the same reply is not known yet, so the files that
            # the earlier call may change count as unknown.
            self._ran(known, earlier)
        self._earlier.clear()
        items: list[Item | None] = []
        for at, (read, place) in enumerate(found):
            if at:
                known.forget(found[at - 1][0])
            before = known.text(tool.server, read.path)
            if self._prepared.hooked is not None and len(found) == 1 and not tool.server:
                before = await asyncio.to_thread(text_here, read.path)
            items.append(item_of(read, tool.arguments, before, place))
        return FileWrite(tool, tuple(one for one in items if one is not None))

    def goes_on(self, call: ModelCall) -> None:
        """Note an admitted call of this reply, which may change files before the later calls."""
        self._earlier.append(call)

    def _stated(self, rule: FileRule) -> tuple[str, ...]:
        """The folders that the host stated as its own: to its hook, or the latest first."""
        if self._prepared.hooked is not None:
            return (self._prepared.hooked.folder,)
        if rule.stated is None:
            return ()
        begin, end = map(re.escape, rule.stated)
        turns = reversed(self._prepared.request.turns)
        told = [said.text for turn in turns for said in turn.said if said.voice in _OF_THE_HOST]
        found = [one for text in told for one in re.findall(f"{begin}(.{{1,512}}?){end}", text)]
        return tuple(dict.fromkeys(found[:FOLDERS_MAX]))

    def _read_conversation(self) -> KnownFiles:
        known, request = KnownFiles(), self._prepared.request
        open_calls: dict[str, ModelCall] = {}
        ids = {call.call_id for turn in request.turns for call in turn.calls}
        failed = outcomes_of(self._prepared.asked.body, ids)
        for at, turn in enumerate(request.turns):
            answers: dict[str, str | None] = {}
            for said in turn.said:
                if said.voice is not Voice.TOOL or said.call_id not in open_calls:
                    continue
                place = (*request.prefix, at, *said.where) if request.prefix else said.where
                went = _at(self._prepared.body, place)
                before = answers.get(said.call_id, "")
                whole = None if before is None or went != said.text else before + said.text
                answers[said.call_id] = whole
            answered = [open_calls.pop(one) for one in answers]
            for call in answered:
                done = failed.get(call.call_id) is False
                self._answered(known, call, answers[call.call_id], done=done)
            # Calls without an answer may have run at the same time: if one of them may write any
            # file, the known text of every file is uncertain.
            for call in (*answered, *open_calls.values(), *turn.calls):
                if not self._is_harmless(call):
                    known.forget_all()
            open_calls |= {call.call_id: call for call in turn.calls}
        for call in open_calls.values():
            self._ran(known, call)
        return known

    def _answered(
        self, known: KnownFiles, call: ModelCall, answer: str | None, *, done: bool
    ) -> None:
        found = self._file_calls(call)
        if found is None:
            return
        tool = found[0]
        for read in found[1]:
            rule = read.rule
            missing = rule.missing is not None and answer is not None and rule.missing in answer
            if tool.rule.kind is ToolKind.WRITE:
                if done:
                    known.was_written(tool.server, read)
            elif not done and missing:
                known.is_missing(tool.server, read)
            elif done and all(tool.arguments.get(one) is None for one in rule.cut):
                known.was_read(tool.server, read, answer)

    def _ran(self, known: KnownFiles, call: ModelCall) -> None:
        """Forget the known texts of files that a call with an unknown result may have changed."""
        found = self._file_calls(call)
        if found is not None and found[0].rule.kind is ToolKind.WRITE:
            for read in found[1]:
                known.forget(read)
        elif not self._is_harmless(call):
            known.forget_all()

    def _is_harmless(self, call: ModelCall) -> bool:
        """Whether a call can write no file but the ones that its tool map names."""
        tool = file_tool(self._maps, call)
        if tool is not None:
            return tool.rule.file is None or self._file_calls(call) is not None
        found = self._catalogue.find(call)
        if found is None or found.tool_map is None or found.tool is None:
            return False
        try:
            read = read_call(found.tool_map, {"name": found.tool, "arguments": call.arguments})
        except MalformedRequest:
            return False
        return read.kind is ToolKind.READ

    def _file_calls(self, call: ModelCall) -> tuple[FileTool, tuple[FileCall, ...]] | None:
        tool = file_tool(self._maps, call)
        if tool is None or tool.rule.file is None or tool.rule.file.command:
            # A shell may write any file, beside those that it names.
            return None
        stated = self._stated(tool.rule.file)
        try:
            calls = read_file_calls(tool.rule.file, tool.arguments)
            return tool, tuple(one.located(stated)[0] for one in calls)
        except MalformedRequest:
            return None


def _at(body: Json, place: Where) -> Json:
    found: Json = body
    for step in place:
        if isinstance(found, dict) and isinstance(step, str):
            found = found.get(step)
        elif isinstance(found, list) and isinstance(step, int) and step < len(found):
            found = found[step]
        else:
            return None
    return found
