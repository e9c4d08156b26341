"""Drives `mcp` 2.3.0 through the steps of its second argument; runs where that is installed.

`mcp2_drive.py MODE STEPS URL`, or `mcp2_drive.py MODE STEPS COMMAND ...`. MODE is `legacy`, `auto`
or a protocol version. Prints what each step gave.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def say_yes(_: Any, __: types.ElicitRequestParams) -> types.ElicitResult:  # noqa: ANN401
    return types.ElicitResult(action="accept", content={"sure": True})


async def sample(_: Any, __: types.CreateMessageRequestParams) -> types.CreateMessageResult:  # noqa: ANN401
    content = types.TextContent(type="text", text="Tea, in short.")
    return types.CreateMessageResult(role="assistant", content=content, model="scripted")


async def progressed(*_: object) -> None:
    """Asked for, so that the server reports it."""


async def step(client: Client, kind: str, name: str, given: dict[str, Any]) -> object:
    if kind == "tools":
        return [tool.name for tool in (await client.list_tools()).tools]
    if kind == "resources":
        return [str(one.uri) for one in (await client.list_resources()).resources]
    if kind == "prompts":
        return [one.name for one in (await client.list_prompts()).prompts]
    if kind == "resource":
        return (await client.read_resource(name)).model_dump(mode="json")
    if kind == "prompt":
        return (await client.get_prompt(name, given)).model_dump(mode="json")
    result = await client.call_tool(name, given, progress_callback=progressed)
    return result.model_dump(mode="json")


async def main() -> None:
    mode, steps, *target = sys.argv[1:]
    if target[0].startswith("http"):
        headers = json.loads(os.environ.get("MCP_HEADERS", "{}"))
        http = httpx2.AsyncClient(headers=headers, timeout=60)
        server = streamable_http_client(target[0], http_client=http)
    else:
        server = StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ))
    async with Client(
        server, mode=mode, elicitation_callback=say_yes, sampling_callback=sample
    ) as client:
        seen = [await step(client, *one) for one in json.loads(steps)]
        version = client.protocol_version
    sys.stdout.write(json.dumps({"seen": seen, "version": version}))


asyncio.run(main())
