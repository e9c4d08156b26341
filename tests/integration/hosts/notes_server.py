"""An unmodified memory server on `mcp` 2.3.0, in an environment of its own: both protocol eras.

`notes_server.py stdio`, or a port for Streamable HTTP. Its tools report progress, ask the person
(elicitation) and ask the model (sampling); it has resources and prompts.
"""

from __future__ import annotations

import sys
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

# A client may keep what it read for an hour, if nobody in between knows better.
HINTS = {"resources/read": CacheHint(ttl_ms=3_600_000, scope="public")}
SERVER = MCPServer("example-notes", version="1.0.0", cache_hints=HINTS)
NOTES: dict[str, str] = {}


class Kept(BaseModel):
    title: str
    count: int


class Sure(BaseModel):
    sure: bool


@SERVER.tool()
def write_note(title: str, text: str) -> Kept:
    """Keep a note."""
    NOTES[title] = text
    return Kept(title=title, count=len(NOTES))


@SERVER.tool()
async def find_notes(word: str, ctx: Context) -> list[str]:
    """The notes that have a word in them."""
    found = [text for text in NOTES.values() if word in text]
    for done in range(3):
        await ctx.report_progress(done, 3, f"step {done}")
    return found


def _sure() -> Elicit[Sure]:
    return Elicit("Are the notes complete?", Sure)


@SERVER.tool()
def ask_person(answer: Annotated[Sure, Resolve(_sure)]) -> str:
    """Ask the person whether the notes are complete."""
    return "complete" if answer.sure else "incomplete"


def _summary() -> Sample:
    content = TextContent(type="text", text="Summarise: " + " ".join(NOTES.values()))
    return Sample([SamplingMessage(role="user", content=content)], max_tokens=50)


@SERVER.tool()
def summarise_notes(said: Annotated[CreateMessageResult, Resolve(_summary)]) -> str:
    """The notes in fewer words, by the client's own model."""
    return said.content.text if isinstance(said.content, TextContent) else ""


@SERVER.resource("notes://all")
def all_notes() -> str:
    return "\n".join(NOTES.values())


@SERVER.prompt()
def recall_prompt(word: str) -> str:
    """A question that brings the notes along."""
    return f"What do my notes say of {word}?\n" + "\n".join(NOTES.values())


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        SERVER.run("stdio")
    else:
        SERVER.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
