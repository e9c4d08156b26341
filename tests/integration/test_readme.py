"""The first screen of the README, run: what it shows is what one gets."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Json, running

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
PER_REQUEST = {"candidate_id", "trace_id"}


def _json(text: str) -> Json:
    return msgspec.json.decode(text, type=Json)


async def test_the_write_that_the_readme_shows_refused_is_refused_in_those_words(
    tmp_path: Path,
) -> None:
    sent = re.search(r"-d '(\{.*?\})'", README)
    shown = re.search(r"^\{\n.*?^\}$", README, re.DOTALL | re.MULTILINE)
    assert sent is not None
    assert shown is not None
    promised = _json(shown[0])
    async with running(tmp_path) as live:
        status, answer = await live.write(AGENT_KEY, _json(sent[1]))
        assert status == 403
        assert set(answer) == set(promised)
        assert {key: answer[key] for key in promised.keys() - PER_REQUEST} == {
            key: promised[key] for key in promised.keys() - PER_REQUEST
        }
        assert (await live.texts(OPERATOR_KEY), live.version()) == ([], 0)


async def test_each_first_write_gets_the_answer_that_the_readme_names(tmp_path: Path) -> None:
    rows = re.findall(r"^\| `(\{.*?\})` \| (\d+) `([a-z]+)`, (L\d) \|", README, re.MULTILINE)
    async with running(tmp_path) as live:
        answers = [(await live.write(AGENT_KEY, _json(body)), row) for body, *row in rows]
        assert [
            [str(status), answer["decision"], answer["memory_class"]]
            for (status, answer), _ in answers
        ] == [row for _, row in answers]
        # Control: a poison that waits is read by nobody; the one that is a fact is.
        assert {row[1] for _, row in answers} == {"admit", "hold", "reject"}
        assert await live.texts(OPERATOR_KEY) == ["Ada moved to Lisbon in March."]
