"""A chat agent without a shell: it keeps its conversation as clients of three APIs keep theirs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from proxy.dialects.model.confirm.block import HEADING
from proxy.dialects.sse import RawReader
from tests.integration.model_bench import PATHS, asking, call
from tests.integration.models.script import Move, Proposed
from tests.integration.running import AGENT_KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.model_bench import Bench
    from tests.integration.models.script import Context

Json = dict[str, Any]
FETCH, NOTE, SEARCH = "fetch", "core_memory_append", "archival_memory_search"
TOOLS = (FETCH, NOTE, SEARCH)
CONFIRM = f'confirm = "reply"\nconfirm_tools = {json.dumps(TOOLS)}\n'
PAGE = "The museum of clocks opens at nine and closes at five on weekdays."
FOUND = "The user keeps four hives of bees behind the old mill."
# As Letta answers.
DONE = '{"status": "OK", "message": "None", "time": "2026-08-04 09:12:44 AM UTC+0000"}'
LIKES = "The user prefers tea in the morning."


def read(url: str = "https://museum.example.com/hours") -> str:
    """The directive to read a page."""
    return call(FETCH, url=url)


def note(text: str = LIKES, label: str = "human") -> str:
    """The directive to note something at a place of the person's profile."""
    return call(NOTE, label=label, content=text)


def noting(*texts: tuple[str, ...], last: str = "It opens at nine.") -> Callable[[Context], Move]:
    """A model that reads a page, searches, notes these texts in one reply, and says `last`."""
    first = Proposed(
        call_id="call_page", name=FETCH, arguments={"url": "https://museum.example.com"}
    )
    second = Proposed(call_id="call_search", name=SEARCH, arguments={"query": "bees"})
    notes = tuple(
        Proposed(
            call_id=f"call_note_{at}", name=NOTE, arguments={"label": "human", "content": text}
        )
        for at, text in enumerate(one for group in texts for one in group)
    )
    steps = iter(((first,), (second,), notes) if notes else ())

    def move(context: Context) -> Move:
        del context
        calls = next(steps, ())
        return Move(text="I look." if calls else last, calls=calls)

    return move


class ChatAgent:
    """One conversation. `turns` is what it sends each time."""

    def __init__(
        self,
        bench: Bench,
        api: str = "chat",
        *,
        stream: bool = False,
        tools: tuple[str, ...] = TOOLS,
        page: str = PAGE,
        key: str = AGENT_KEY,
    ) -> None:
        self.bench = bench
        self.api = api
        self.stream = stream
        self.tools = tools
        self.page = page
        self.key = key
        self.turns: list[Json] = []
        self.more: Json = {}  # other members of its requests

    async def say(self, text: str) -> str:
        """A turn of the person's, until the model has ended its reply; the reply's last text."""
        self.turns.append({"role": "user", "content": text})
        for _ in range(9):
            said, calls = await self.ask()
            if not calls:
                return said
            self.results(calls)
        raise AssertionError("the model goes on and on")

    def body(self) -> Json:
        body = asking(self.api, "", stream=self.stream, tools=self.tools)
        body["input" if self.api == "responses" else "messages"] = self.turns
        return {**body, **self.more}

    async def ask(self) -> tuple[str, list[tuple[str, str]]]:
        """One request with all that there is; the text of its reply, and its calls."""
        answer = await self.bench.send("POST", PATHS[self.api], self.body(), key=self.key)
        assert answer.status == 200, answer.raw
        reply = _streamed(self.api, answer.raw) if self.stream else answer.body
        match self.api:
            case "anthropic":
                parts: list[Json] = reply["content"]
                self.turns.append({"role": "assistant", "content": parts})
                calls = [(one["id"], one["name"]) for one in parts if one["type"] == "tool_use"]
                return "".join(one.get("text", "") for one in parts), calls
            case "chat":
                message: Json = reply["choices"][0]["message"]
                self.turns.append(message)
                made: list[Json] = message.get("tool_calls") or []
                return message.get("content") or "", [
                    (one["id"], one["function"]["name"]) for one in made
                ]
            case _:
                items: list[Json] = reply["output"]
                self.turns += items
                texts = [
                    part["text"]
                    for one in items
                    if one["type"] == "message"
                    for part in one["content"]
                ]
                return "".join(texts), [
                    (one["call_id"], one["name"]) for one in items if one["type"] == "function_call"
                ]

    def results(self, calls: list[tuple[str, str]]) -> None:
        """What the tools answered."""
        answers = {FETCH: self.page, SEARCH: FOUND, NOTE: DONE}
        said = [(one, answers.get(name, "None")) for one, name in calls]
        match self.api:
            case "anthropic":
                content = [
                    {"type": "tool_result", "tool_use_id": one, "content": text}
                    for one, text in said
                ]
                self.turns.append({"role": "user", "content": content})
            case "chat":
                self.turns += [
                    {"role": "tool", "tool_call_id": one, "content": text} for one, text in said
                ]
            case _:
                self.turns += [
                    {"type": "function_call_output", "call_id": one, "output": text}
                    for one, text in said
                ]

    @property
    def sent(self) -> Json:
        """What the model was last asked."""
        found: Json = self.bench.model.asked[-1]
        return found

    def held(self) -> list[str]:
        """The candidates that wait."""
        return [one.candidate_id for one in self.bench.front.sidecar.store.reader.held()]

    async def stored(self) -> list[str]:
        """The texts of all memories, and of all intents that went on."""
        return await self.bench.front.texts(self.key)


def asked(said: str) -> bool:
    """Whether a reply ends with a question."""
    return HEADING in said


def codes_in(said: str) -> list[str]:
    """The codes of a question, in order."""
    lines = said.partition(HEADING)[2].split("`yes ")[1:]
    return [one[:8] for one in lines]


def _streamed(api: str, raw: bytes) -> Json:
    reader = RawReader()
    events = [*reader.feed(raw), *reader.last()]
    bodies = [
        json.loads(one.data) for one in events if one.data is not None and one.data != "[DONE]"
    ]
    match api:
        case "anthropic":
            return {"content": _blocks(bodies)}
        case "chat":
            return {"choices": [{"message": _message(bodies)}]}
        case _:
            ended: Json = next(one for one in bodies if one["type"] == "response.completed")
            numbers = [one["sequence_number"] for one in bodies]
            assert numbers == sorted(set(numbers)), "numbers go up"
            found: Json = ended["response"]
            return found


def _blocks(bodies: list[Json]) -> list[Json]:
    blocks: list[Json] = []
    for one in bodies:
        if one["type"] == "content_block_start":
            assert one["index"] == len(blocks)
            blocks.append({**one["content_block"], "_json": ""})
        elif one["type"] == "content_block_delta":
            delta = one["delta"]
            blocks[one["index"]]["_json"] += delta.get("partial_json", "")
            if "text" in delta:
                blocks[one["index"]]["text"] += delta["text"]
    for one in blocks:
        given = one.pop("_json")
        if one["type"] == "tool_use":
            one["input"] = json.loads(given or "{}")
    return blocks


def _message(bodies: list[Json]) -> Json:
    content = ""
    calls: list[Json] = []
    ended = False
    for one in bodies:
        for choice in one["choices"]:
            delta = choice["delta"]
            assert not (ended and delta.get("content")), "nothing stands behind the end"
            content += delta.get("content") or ""
            ended = ended or choice["finish_reason"] is not None
            for piece in delta.get("tool_calls", ()):
                if piece["index"] == len(calls):
                    calls.append({**piece, "function": {**piece["function"]}})
                else:
                    more = piece["function"]["arguments"]
                    calls[piece["index"]]["function"]["arguments"] += more
    made = [{key: one[key] for key in ("id", "type", "function")} for one in calls]
    message: Json = {"role": "assistant", "content": content}
    return {**message, "tool_calls": made} if made else message
