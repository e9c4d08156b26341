"""Runs the unmodified `openai` SDK through a task with tools; prints what it saw as JSON.

    python openai_tasks_drive.py PROMPT

It finds the API where `OPENAI_BASE_URL` says. Ids and times that a server makes are left out.
"""

import json
import sys
from typing import Any

import openai

NAMES = ("lookup", "save_note")
NOTES = {"lookup": "The library closes at eight.", "save_note": "Saved."}


def _chat_tools() -> list[Any]:
    return [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in NAMES
    ]


def chat(client: openai.OpenAI, prompt: str, *, stream: bool) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": prompt}]
    seen: list[Any] = []
    for _ in range(8):
        if stream:
            with client.chat.completions.stream(
                model="scripted", messages=messages, tools=_chat_tools()
            ) as events:
                kinds = [event.type for event in events]
                choice = events.get_final_completion().choices[0]
            seen.append(kinds)
        else:
            made = client.chat.completions.create(
                model="scripted", messages=messages, tools=_chat_tools()
            )
            choice = made.choices[0]
        calls = choice.message.tool_calls or []
        named = [[call.function.name, call.function.arguments] for call in calls]
        seen.append([choice.message.content, choice.finish_reason, named])
        if not calls:
            return seen
        messages.append(choice.message.model_dump(exclude_none=True, exclude={"parsed"}))
        for call in calls:
            text = NOTES[call.function.name]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return seen


def responses(client: openai.OpenAI, prompt: str, *, stream: bool) -> list[Any]:
    """A whole task over Responses, each step going on from the one before it."""
    tools = [{"type": "function", "name": name, "parameters": {}} for name in NAMES]
    given: object = prompt
    previous = openai.omit
    seen: list[Any] = []
    for _ in range(8):
        asked = {"model": "scripted", "input": given, "tools": tools}
        if stream:
            with client.responses.stream(**asked, previous_response_id=previous) as events:
                kinds = [event.type for event in events]
                made = events.get_final_response()
            seen.append(kinds)
        else:
            made = client.responses.create(**asked, previous_response_id=previous)
        calls = [item for item in made.output if item.type == "function_call"]
        seen.append([made.output_text, [[call.name, call.arguments] for call in calls]])
        if not calls:
            return seen
        previous = made.id
        given = [
            {"type": "function_call_output", "call_id": call.call_id, "output": NOTES[call.name]}
            for call in calls
        ]
    return seen


def main() -> None:
    """Every way of the SDK, one after the other."""
    prompt = sys.argv[1]
    client = openai.OpenAI(max_retries=0)
    seen = {
        "chat": chat(client, prompt, stream=False),
        "chat streamed": chat(client, prompt, stream=True),
        "responses": responses(client, prompt, stream=False),
        "responses streamed": responses(client, prompt, stream=True),
        "models": client.models.with_raw_response.list().status_code,
    }
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main()
