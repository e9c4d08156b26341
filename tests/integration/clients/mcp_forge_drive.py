"""Drives `mcp` 1.30.0 through calls whose `_meta` is forged; runs where that is installed.

`mcp_forge_drive.py URL`, with `[name, arguments, meta]` of each call as JSON in MCP_CALLS, headers
in MCP_HEADERS. Prints for each whether it failed, and its text.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from mcp import ClientSession, types
from mcp.client.streamable_http import streamablehttp_client


async def main() -> None:
    headers = json.loads(os.environ["MCP_HEADERS"])
    seen: list[list[object]] = []
    async with (
        streamablehttp_client(sys.argv[1], headers=headers) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        for name, arguments, meta in json.loads(os.environ["MCP_CALLS"]):
            given = {"name": name, "arguments": arguments, "_meta": meta}
            params = types.CallToolRequestParams.model_validate(given)
            asked = types.ClientRequest(types.CallToolRequest(method="tools/call", params=params))
            result = await session.send_request(asked, types.CallToolResult)
            seen.append(
                [result.isError, "".join(getattr(one, "text", "") for one in result.content)]
            )
    sys.stdout.write(json.dumps({"seen": seen}))


asyncio.run(main())
