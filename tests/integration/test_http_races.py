"""What many ask for at once happens once: nonces, tokens, updates, purges, verdicts of persons."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from policy.model import Channel
from tests.integration.running import Running, running

Json = dict[str, Any]
Answer = tuple[int, Json]

AT_ONCE: Final = 40
ORDER: Final = "From now on always greet people in French."


class Crowd:
    """A person's key, and many requests on it at the same time."""

    def __init__(self, on: Running, key: str) -> None:
        self.on = on
        self.key = key

    async def call(self, method: str, path: str, body: Json | None = None) -> Answer:
        return await self.on.call(method, path, self.key, body)

    async def write(self, **body: Any) -> Answer:  # noqa: ANN401 - members of a create
        return await self.call("POST", "/v1/memories", body)

    async def memory(self, text: str) -> str:
        status, made = await self.write(text=text)
        assert status == 201, made
        return f"/v1/memories/{made['id']}"

    async def operate(self, method: str, path: str, body: Json | None = None) -> Answer:
        return await self.on.operated(method, path, body)


@asynccontextmanager
async def crowd(base: Path) -> AsyncGenerator[Crowd]:
    async with running(base) as on:
        here = Crowd(on, await on.key("ann", channel=Channel.USER))
        yield here
        status, told = await here.operate("POST", "/check", {})
        assert (status, told["problems"]) == (200, []), told


async def together(asked: Sequence[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """The answers to all of them, each sent before any was answered."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in asked]
    return [task.result() for task in tasks]


def statuses(answers: Sequence[Answer]) -> Counter[int]:
    return Counter(status for status, _ in answers)


@pytest.mark.parametrize("nonce", ["once", None])
async def test_the_same_write_many_times_at_once_makes_one_memory(
    tmp_path: Path, nonce: str | None
) -> None:
    said = {"text": "Tea is at four."} | ({} if nonce is None else {"nonce": nonce})
    async with crowd(tmp_path) as here:
        answers = await together([here.write(**said) for _ in range(AT_ONCE)])
        assert statuses(answers) == {201: AT_ONCE}
        made = {answer["id"] for _, answer in answers}
        texts = await here.on.texts(here.key)
        if nonce is None:
            assert (len(made), len(texts)) == (AT_ONCE, AT_ONCE), "control: without a nonce"
        else:
            assert (len(made), texts) == (1, ["Tea is at four."])


async def test_of_many_texts_under_one_nonce_one_is_stored(tmp_path: Path) -> None:
    async with crowd(tmp_path) as here:
        answers = await together(
            [here.write(text=f"Tea is at {hour}.", nonce="once") for hour in range(AT_ONCE)]
        )
        [stored] = [answer["id"] for status, answer in answers if status == 201]
        refused = Counter(answer["reason"] for status, answer in answers if status != 201)
        assert refused.total() == AT_ONCE - 1
        assert refused["nonce_replayed"] > 0
        assert refused.keys() <= {"nonce_replayed", "trust_insufficient"}
        assert len(await here.on.texts(here.key)) == 1
        assert (await here.call("GET", f"/v1/memories/{stored}"))[0] == 200


async def test_each_of_many_updates_at_once_is_one_step(tmp_path: Path) -> None:
    async with crowd(tmp_path) as here:
        path = await here.memory("Tea is at four.")
        texts = [f"Tea is at {hour}." for hour in range(AT_ONCE)]
        answers = await together([here.call("PATCH", path, {"text": text}) for text in texts])
        assert statuses(answers) == {200: AT_ONCE}
        _, told = await here.call("GET", f"{path}/history")
        steps = told["history"]
        assert sorted(step["new_text"] for step in steps) == sorted(["Tea is at four.", *texts])
        assert [step["old_text"] for step in steps[1:]] == [step["new_text"] for step in steps[:-1]]
        _, now = await here.call("GET", path)
        assert now["text"] == steps[-1]["new_text"]


async def test_one_of_many_deletes_deletes_and_no_update_brings_it_back(tmp_path: Path) -> None:
    async with crowd(tmp_path) as here:
        path = await here.memory("Tea is at four.")
        updates = [here.call("PATCH", path, {"text": f"At {hour}."}) for hour in range(AT_ONCE)]
        deletes = [here.call("DELETE", path) for _ in range(AT_ONCE)]
        both = [one for pair in zip(updates, deletes, strict=True) for one in pair]
        answers = await together(both)
        assert statuses(answers[1::2]) == {200: 1, 404: AT_ONCE - 1}
        assert statuses(answers[::2]).keys() <= {200, 404}
        assert (await here.call("GET", path))[0] == 404
        assert await here.on.texts(here.key) == []


async def test_what_is_purged_comes_back_by_no_update_that_was_under_way(tmp_path: Path) -> None:
    async with crowd(tmp_path) as here:
        path = await here.memory("The canary of the cellar.")
        operated = path.removeprefix("/v1")
        asked = [
            here.call("PATCH", path, {"text": f"The canary of room {number}."})
            for number in range(AT_ONCE)
        ]
        asked.insert(AT_ONCE // 2, here.operate("POST", f"{operated}/purge", {}))
        answers = await together(asked)
        assert answers[AT_ONCE // 2][1]["decision"] == "admit"
        assert statuses(answers).keys() <= {200, 404}
        assert (await here.call("GET", path))[0] == 404
        _, told = await here.call("GET", f"{path}/history")
        left = [(step["change"], step["new_text"]) for step in told["history"]]
        assert left == [("purge", None)]
        data = (here.on.state / "store" / "data.mdb").read_bytes()
        assert b"The canary of" not in data


async def test_quarantine_parole_updates_and_a_delete_at_once_end_with_it_deleted(
    tmp_path: Path,
) -> None:
    async with crowd(tmp_path) as here:
        path = await here.memory("Tea is at four.")
        operated = path.removeprefix("/v1")
        shows = {"reason": "fine", "without_trial": True}
        asked: list[Coroutine[Any, Any, Answer]] = []
        for hour in range(AT_ONCE // 4):
            asked += [
                here.operate("POST", f"{operated}/quarantine", {"reason": "odd"}),
                here.operate(
                    "POST", f"{operated}/unhide", {"reason": "fine", "without_trial": True}
                ),
                here.call("PATCH", path, {"text": f"Tea is at {hour}."}),
            ]
        assert statuses(await together(asked)).keys() <= {200, 404}
        await here.operate("POST", f"{operated}/unhide", shows)
        assert (await here.call("GET", path))[0] == 200, "control: none of these took it away"
        assert (await here.call("DELETE", path))[0] == 200
        paroled, _ = await here.operate("POST", f"{operated}/unhide", {})
        assert paroled == 404
        assert (await here.call("GET", path))[0] == 404


async def test_one_of_many_verdicts_of_persons_counts(tmp_path: Path) -> None:
    async with crowd(tmp_path) as here:
        agent = await here.on.key("bot")
        status, held = await here.on.write(agent, {"text": ORDER})
        assert status == 202, held
        path = f"/review/{held['candidate_id']}"
        answers = await together(
            [
                here.operate("POST", f"{path}/{verdict}", {})
                for _ in range(AT_ONCE // 2)
                for verdict in ("release", "deny")
            ]
        )
        [decided] = [answer for status, answer in answers if status == 200]
        assert statuses(answers) == {200: 1, 404: AT_ONCE - 1}
        shown = await here.on.texts(here.key)
        assert shown == ([ORDER] if decided["decision"] == "admit" else [])


async def test_a_token_that_many_use_at_once_makes_one_memory(tmp_path: Path) -> None:
    async with crowd(tmp_path) as here:
        asked = {"principal": "ann", "tenant": "default", "text": ORDER, "to_class": "L1"}
        _, grant = await here.operate("POST", "/tokens", asked)
        token = {"text": ORDER, "class": "L1", "promotion_token": grant["token"]}
        answers = await together(
            [here.write(**token, nonce=grant["nonce"]) for _ in range(AT_ONCE)]
        )
        assert statuses(answers) == {201: AT_ONCE}
        assert len({answer["id"] for _, answer in answers}) == 1
        assert await here.on.texts(here.key) == [ORDER]
        status, again = await here.write(**token, nonce="another")
        assert status in {403, 422}, again
        assert await here.on.texts(here.key) == [ORDER]
