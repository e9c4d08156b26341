"""A chat in a terminal: it reads pages, keeps a profile of its person, and can do nothing else.

    OPENAI_BASE_URL=http://127.0.0.1:7077/openai/v1 OPENAI_API_KEY=mg_... python chat.py

What it keeps stands in `profile.txt`.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

PROFILE = Path("profile.txt")
PAGE_BYTES_MAX = 20_000
STRING = {"type": "string"}
ARGUMENTS = {"fetch": {"url": STRING}, "core_memory_append": {"label": STRING, "content": STRING}}
TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": given}},
    }
    for name, given in ARGUMENTS.items()
]


def carried_out(name: str, given: dict[str, str]) -> str:
    """The result of a tool."""
    if name == "fetch":
        # Plain reads of the web, with no header of the model's.
        if not given["url"].startswith(("http://", "https://")):
            return "only http:// and https://"
        try:
            with urllib.request.urlopen(given["url"], timeout=20) as page:  # noqa: S310 - see above
                return str(page.read(PAGE_BYTES_MAX).decode(errors="replace"))
        except OSError as error:
            return f"cannot be read: {error}"
    with PROFILE.open("a", encoding="utf-8") as file:
        file.write(f"{given['label']}: {given['content']}\n")
    return "None"


class Chat:
    """One conversation."""

    def __init__(self, base: str, key: str, model: str) -> None:
        self.base, self.key, self.model = base, key, model
        self.messages: list[dict[str, Any]] = []

    def say(self, text: str) -> str:
        """What the model answers, once it calls no more tools."""
        self.messages.append({"role": "user", "content": text})
        while True:
            message = self.asked()
            self.messages.append(message)
            calls = message.get("tool_calls") or []
            if not calls:
                return str(message["content"])
            for call in calls:
                given = json.loads(call["function"]["arguments"])
                result = carried_out(call["function"]["name"], given)
                answer = {"role": "tool", "tool_call_id": call["id"], "content": result}
                self.messages.append(answer)

    def asked(self) -> dict[str, Any]:
        """The model's next message."""
        body = {"model": self.model, "messages": self.messages, "tools": TOOLS}
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        url = f"{self.base}/chat/completions"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=600) as reply:  # noqa: S310
            message: dict[str, Any] = json.load(reply)["choices"][0]["message"]
        return message


def main() -> None:
    base, key = (os.environ.get(f"OPENAI_{name}") for name in ("BASE_URL", "API_KEY"))
    if not base or not key:
        sys.exit("OPENAI_BASE_URL and OPENAI_API_KEY are not set: the sidecar, and the agent's key")
    chat = Chat(base, key, os.environ.get("OPENAI_MODEL", "gpt-5"))
    for line in sys.stdin:
        try:
            print(chat.say(line.rstrip("\n")), flush=True)
        except OSError as error:
            sys.exit(f"no answer of the model at {base}: {error}")


if __name__ == "__main__":
    main()
