"""Runs the unmodified `anthropic` SDK and its tool runner through a task; prints what it saw.

    python anthropic_tasks_drive.py PROMPT

It finds the API where `ANTHROPIC_BASE_URL` says.
"""

import json
import sys
from typing import Any

import anthropic
from anthropic import beta_tool

HISTORIES: list[Any] = []


@beta_tool
def lookup(about: str) -> str:
    """Look something up.

    Args:
        about: What to look up.
    """
    return f"About {about}: the library closes at eight."


@beta_tool
def save_note(text: str) -> str:
    """Keep a note.

    Args:
        text: The note.
    """
    HISTORIES.append(text)
    return "Saved."


def runner(client: anthropic.Anthropic, prompt: str, *, stream: bool) -> list[Any]:
    """A whole task through the SDK's own tool runner."""
    seen: list[Any] = []
    running = client.beta.messages.tool_runner(
        model="scripted",
        max_tokens=256,
        messages=[{"role": "user", "content": prompt}],
        tools=[lookup, save_note],
        stream=stream,
    )
    for one in running:
        message = one.get_final_message() if stream else one
        blocks = [
            [block.type, getattr(block, "text", None), getattr(block, "input", None)]
            for block in message.content
        ]
        seen.append([blocks, message.stop_reason, message.usage.output_tokens])
    return seen


def streamed(client: anthropic.Anthropic, prompt: str) -> list[Any]:
    """One request, event by event."""
    tools = [{"name": "lookup", "input_schema": {"type": "object"}}]
    with client.messages.stream(
        model="scripted",
        max_tokens=256,
        messages=[{"role": "user", "content": prompt}],
        tools=tools,
    ) as events:
        kinds = [event.type for event in events]
        final = events.get_final_message()
    return [kinds, final.stop_reason, final.model]


def main() -> None:
    """Every way of the SDK, one after the other."""
    prompt = sys.argv[1]
    client = anthropic.Anthropic(max_retries=0)
    seen = {
        "runner": runner(client, prompt, stream=False),
        "runner streamed": runner(client, prompt, stream=True),
        "streamed": streamed(client, prompt),
        "saved": HISTORIES,
        "counted": client.messages.with_raw_response.count_tokens(
            model="scripted", messages=[{"role": "user", "content": prompt}]
        ).status_code,
    }
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main()
