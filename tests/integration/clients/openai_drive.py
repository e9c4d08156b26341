"""Runs inside an environment that holds an unmodified `openai`; knows nothing of the sidecar.

    OPENAI_BASE_URL=... python openai_drive.py FOLDER PAGE API stream|whole PROMPT...

A loop around the SDK with two tools: one reads PAGE, the other is langmem's `manage_memory` on
files below FOLDER. API is `chat`, `responses` (goes on from the last response's id) or `runner`
(the SDK's own loop). Each prompt is a conversation of its own. Prints the last words of each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from openai import OpenAI
from openai.lib.responses_tool_runner import RegisteredFunction, ResponsesToolRunner

MODEL = "gpt-5"
STRING = {"type": "string"}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "fetch_page": ("Read a page.", {"url": STRING}),
    "manage_memory": (
        "Create, update, or delete a memory to persist across conversations.",
        {"content": STRING, "action": {"type": "string", "enum": ["create", "update", "delete"]}},
    ),
}


class Agent:
    """One agent with its tools."""

    def __init__(self, folder: Path, page: Path, *, stream: bool) -> None:
        self.client = OpenAI(max_retries=0)
        self._folder = folder
        self._page = page
        self._stream = stream

    def do(self, name: str, given: dict[str, Any]) -> str:
        if name == "fetch_page":
            return self._page.read_text(encoding="utf-8")
        path = self._folder / f"{len(list(self._folder.iterdir()))}.txt"
        path.write_text(given["content"], encoding="utf-8")
        return "created memory"

    def chat(self, prompt: str) -> str:
        messages: list[Any] = [{"role": "user", "content": prompt}]
        tools = [
            {"type": "function", "function": {"name": name, "description": said, **_schema(given)}}
            for name, (said, given) in TOOLS.items()
        ]
        while True:
            asked: dict[str, Any] = {"model": MODEL, "messages": messages, "tools": tools}
            if self._stream:
                with self.client.chat.completions.stream(**asked) as events:
                    message = events.get_final_completion().choices[0].message
            else:
                message = self.client.chat.completions.create(**asked).choices[0].message
            messages.append(message.to_dict(exclude_none=True))
            if not message.tool_calls:
                return message.content or ""
            for call in message.tool_calls:
                text = self.do(call.function.name, json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})

    def responses(self, prompt: str) -> str:
        asked: dict[str, Any] = {"model": MODEL, "tools": _functions(), "input": prompt}
        while True:
            if self._stream:
                with self.client.responses.stream(**asked) as events:
                    answer = events.get_final_response()
            else:
                answer = self.client.responses.create(**asked)
            calls = [item for item in answer.output if item.type == "function_call"]
            if not calls:
                return str(answer.output_text)
            asked["previous_response_id"] = answer.id
            asked["input"] = [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": self.do(call.name, json.loads(call.arguments)),
                }
                for call in calls
            ]

    def runner(self, prompt: str) -> str:
        functions = [
            RegisteredFunction(tool, lambda given, name=tool["name"]: self.do(name, given))
            for tool in _functions()
        ]
        asked = {"model": MODEL, "input": [{"role": "user", "content": prompt}]}
        runner = ResponsesToolRunner(functions=functions)
        return str(runner.run(self.client, asked, stream=self._stream).output_text)


def _schema(given: dict[str, Any]) -> dict[str, Any]:
    return {"parameters": {"type": "object", "properties": given, "required": sorted(given)}}


def _functions() -> list[Any]:
    return [
        {"type": "function", "name": name, "description": said, "strict": False, **_schema(given)}
        for name, (said, given) in TOOLS.items()
    ]


def main() -> None:
    folder, page, api, mode, *prompts = sys.argv[1:]
    agent = Agent(Path(folder), Path(page), stream=mode == "stream")
    Path(folder).mkdir(parents=True, exist_ok=True)
    ask = {"chat": agent.chat, "responses": agent.responses, "runner": agent.runner}[api]
    sys.stdout.write(json.dumps([ask(prompt) for prompt in prompts]))


if __name__ == "__main__":
    main()
