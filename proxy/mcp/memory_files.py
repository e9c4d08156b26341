"""In front of a file server, writes of places are judged line by line; other calls pass.

The server itself is asked for the text before each write, so lines that a shell wrote there
meanwhile are known as well.
"""

from __future__ import annotations

import msgspec

from proxy.dialects.files.edits import FileCall, item_of, read_file_call
from proxy.dialects.files.known import text_of
from proxy.dialects.mcp.calls import Call
from proxy.dialects.mcp.maps import ToolKind
from proxy.dialects.mcp.message import CALL, Kind, Message, Object
from proxy.files.here import place_of
from proxy.mcp.connection import Connection, ServerGone, Side


async def read_files(connection: Connection, call: Call, meta: Object) -> Call:
    """The call as a write of memory if it changes a place; else the call as it is.

    Raises:
        MalformedRequest: The call does not have the form that its map says, or the path is a link.
    """
    tool_map = connection.tool_map
    rule = None if call.rule is None else call.rule.file
    if tool_map is None or rule is None or call.rule is None:
        return call
    if call.rule.kind is not ToolKind.WRITE:
        return call
    read = read_file_call(rule, call.arguments)
    place = None if read.idle else await place_of(read, tool_map.all_places)
    if place is None:
        return call
    item = item_of(read, call.arguments, await _text_now(connection, read, meta), place)
    if item is None:
        return call
    return msgspec.structs.replace(call, kind=ToolKind.WRITE, items=(item,))


async def _text_now(connection: Connection, call: FileCall, meta: Object) -> str | None:
    """The whole text of the file; "" if there is none, None if the server does not say."""
    tools = {} if connection.tool_map is None else connection.tool_map.tools
    for name, tool in tools.items():
        rule = tool.file
        if tool.kind is ToolKind.READ and rule is not None:
            params: Object = {"name": name, "arguments": {rule.path: call.path}}
            if meta:
                params["_meta"] = meta
            try:
                answer = await connection.ask(Side.SERVER, CALL, params, None)
            except ServerGone:
                return None
            shown = _shown(answer)
            if shown is None or answer.result.get("isError") is True:
                missing = shown is not None and rule.missing is not None and rule.missing in shown
                return "" if missing else None
            return text_of(rule, shown)
    return None


def _shown(answer: Message) -> str | None:
    """The text of an answer that consists of one text; None of any other."""
    blocks = answer.result.get("content") if answer.kind is Kind.RESULT else None
    if not isinstance(blocks, list) or len(blocks) != 1 or not isinstance(blocks[0], dict):
        return None
    text = blocks[0].get("text")
    return text if isinstance(text, str) else None
