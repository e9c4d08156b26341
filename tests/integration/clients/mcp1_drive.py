"""Drives `mcp` 1.30.0 through the steps of its last argument; runs where that is installed.

`mcp1_drive.py STEPS URL`, or `mcp1_drive.py STEPS COMMAND ...`. Prints what each step gave.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def say_yes(_: Any, __: types.ElicitRequestParams) -> types.ElicitResult:  # noqa: ANN401
    return types.ElicitResult(action="accept", content={"sure": True})


async def sample(_: Any, __: types.CreateMessageRequestParams) -> types.CreateMessageResult:  # noqa: ANN401
    content = types.TextContent(type="text", text="Tea, in short.")
    return types.CreateMessageResult(role="assistant", content=content, model="scripted")


async def progressed(*_: object) -> None:
    """Asked for, so that the server reports it."""


async def step(session: ClientSession, kind: str, name: str, given: dict[str, Any]) -> object:
    if kind == "tools":
        return [tool.name for tool in (await session.list_tools()).tools]
    if kind == "resources":
        return [str(one.uri) for one in (await session.list_resources()).resources]
    if kind == "prompts":
        return [one.name for one in (await session.list_prompts()).prompts]
    if kind == "resource":
        return (await session.read_resource(name)).model_dump(mode="json")
    if kind == "prompt":
        return (await session.get_prompt(name, given)).model_dump(mode="json")
    result = await session.call_tool(name, given, progress_callback=progressed)
    return result.model_dump(mode="json")


async def main() -> None:
    steps, *target = sys.argv[1:]
    async with AsyncExitStack() as stack:
        if target[0].startswith("http"):
            headers = json.loads(os.environ.get("MCP_HEADERS", "{}"))
            opened = streamablehttp_client(target[0], headers=headers)
            read, write, _ = await stack.enter_async_context(opened)
        else:
            command = StdioServerParameters(
                command=target[0], args=target[1:], env=dict(os.environ)
            )
            read, write = await stack.enter_async_context(stdio_client(command))
        session = await stack.enter_async_context(
            ClientSession(read, write, elicitation_callback=say_yes, sampling_callback=sample)
        )
        await session.initialize()
        seen = [await step(session, *one) for one in json.loads(steps)]
    sys.stdout.write(json.dumps({"seen": seen}))


asyncio.run(main())
