"""`mnemogate recall`: which memories a read showed, and which a model saw before a reply."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from proxy.cli.exits import Exit
from tests.integration.cli_process import Done, Place
from tests.integration.model_bench import asking, call, fronted
from tests.integration.running import AGENT_KEY
from tests.integration.test_model_coupling import answered
from tests.integration.test_recalls_of_replies import TEA, TRAIN, reply_id_in


async def test_a_person_sees_what_reads_showed_and_what_stood_before_a_reply(
    tmp_path: Path,
) -> None:
    async def told(*words: str) -> Done:
        return await asyncio.to_thread(Place(root=tmp_path).command, "recall", *words)

    async with fronted(tmp_path) as bench:
        ids = [(await bench.front.write(AGENT_KEY, {"text": one}))[1]["id"] for one in (TEA, TRAIN)]
        asked = {"query": "When is tea?", "limit": 1}
        _, found = await bench.front.call("POST", "/v1/search", AGENT_KEY, asked)
        assert [one["id"] for one in found["results"]] == ids[:1]
        body = asking("chat", f"When is tea? {call('fetch', url='x')}", tools=("fetch",))
        assert (await bench.ask("chat", body)).status == 200
        result = json.dumps({"results": found["results"]})
        second = await bench.ask("chat", answered("chat", body, "call_0000", result))
        reply_id = reply_id_in(second.raw)

        (recall,) = (await told("list", "--json")).data["recalls"]
        reply = (await told("show", "--reply", reply_id, "--json")).data
        assert [one["memory_id"] for one in reply["memories"]] == ids[:1]
        assert reply["memories"][0]["recall_id"] == recall["recall_id"]
        assert (await told("show", recall["recall_id"], "--json")).data == recall
        for option, given in (("--memory", ids[0]), ("--session", reply["session"])):
            short = await told("list", option, given[:12], "--json")
            assert short.data["recalls"] == [recall]
        # Controls: a memory that was never shown, and the tables for a person.
        never = await told("list", "--memory", ids[1])
        assert (never.code, "no read" in never.out) == (Exit.OK, True), never.err
        shown = [await told("list"), await told("show", recall["recall_id"])]
        shown.append(await told("show", "--reply", reply_id))
        for one in shown:
            assert (one.code, ids[0] in one.out) == (Exit.OK, True), one.err
            assert "tea" not in one.out, "ids and numbers, no text"

        for words, code in (
            (("show", "0" * 16), Exit.NOT_FOUND),
            (("show", "--reply", "msg_never"), Exit.NOT_FOUND),
            (("show",), Exit.USAGE),
            (("show", "0" * 16, "--reply", reply_id), Exit.USAGE),
            (("list", "--memory", ids[0], "--session", reply["session"]), Exit.USAGE),
            (("list", "--limit", "0"), Exit.USAGE),
        ):
            refused = await told(*words)
            assert (refused.code, refused.out) == (code, ""), words
