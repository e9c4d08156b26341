"""The first screen of the README, run: the refusal it shows is the refusal one gets."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Json, running

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
PER_REQUEST = {"candidate_id", "trace_id"}


def _bodies() -> list[Json]:
    return [msgspec.json.decode(body, type=Json) for body in re.findall(r"-d '(\{.*?\})'", README)]


async def test_the_write_that_the_readme_shows_refused_is_refused_in_those_words(
    tmp_path: Path,
) -> None:
    shown = re.search(r"^\{\n.*?^\}$", README, re.DOTALL | re.MULTILINE)
    assert shown is not None
    promised: Json = msgspec.json.decode(shown[0], type=Json)
    refused, stored = _bodies()
    async with running(tmp_path) as live:
        status, answer = await live.write(AGENT_KEY, refused)
        assert status == 403
        assert set(answer) == set(promised)
        assert {key: answer[key] for key in promised.keys() - PER_REQUEST} == {
            key: promised[key] for key in promised.keys() - PER_REQUEST
        }
        assert (await live.texts(OPERATOR_KEY), live.version()) == ([], 0)
        # Control: the same search sees what is admitted.
        assert (await live.write(AGENT_KEY, stored))[0] == 201
        assert await live.texts(OPERATOR_KEY) == [stored["text"]]
