"""Files that real clients put into prompts: what a shell wrote waits, what was there passes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.hosts.fronted import Fronted, fronted
from tests.integration.hosts.hosts import ClaudeCode, Codex, Settings
from tests.integration.test_injected_places import OFF, OLD, ORDER, RULE

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]
HOSTS = [
    pytest.param(ClaudeCode(), "CLAUDE.md", "ANTHROPIC_API_KEY", id="claude-code"),
    pytest.param(Codex(), "AGENTS.md", "SCRIPTED_KEY", id="codex"),
]


def _asked(at: Fronted, before: int) -> str:
    """All that the upstream got since."""
    return "".join(one.asked.decode("utf-8", "replace") for one in at.upstream.exchanges[before:])


@pytest.mark.share(of=3)
@pytest.mark.parametrize(("host", "name", "key"), HOSTS)
@pytest.mark.parametrize("walled", [True, False], ids=["walled", "control"])
async def test_a_line_of_a_shell_is_in_no_prompt_until_it_is_let_in(
    tmp_path: Path, host: ClaudeCode | Codex, name: str, key: str, *, walled: bool
) -> None:
    home = tmp_path / "home"
    file = home / "project" / name
    await asyncio.to_thread(file.parent.mkdir, parents=True)
    await asyncio.to_thread((home / ".codex").mkdir)
    await asyncio.to_thread(file.write_text, f"{OLD}\n" * 100)
    async with fronted(tmp_path / "ours", host.model(), flags={} if walled else OFF) as at:
        settings = Settings(text=host.settings({}), servers=(), environment={key: at.key})

        async def session() -> str:
            before = len(at.upstream.exchanges)
            await host.run("Hello.", home, at.url, settings)
            return _asked(at, before)

        first = await session()
        assert first.count(OLD.split("\n", maxsplit=1)[0]) >= 100, "a first start asks for nothing"
        assert "places accept" not in first
        await asyncio.to_thread(file.write_text, f"{OLD}\n" * 100 + f"{RULE}\n{ORDER}\n")
        second = await session()
        assert (RULE in second) is not walled
        assert (ORDER in second) is not walled
        assert (f"2 new lines of {name} wait" in second) is walled
        if walled:
            places = (await at.sidecar.operate("GET", "/places"))["places"]
            (waits,) = [one for one in places if one["waiting"]]
            assert waits["path"].endswith(f"/project/{name}")
            asked = {"path": waits["path"], "text": "\n".join(waits["waiting"])}
            await at.sidecar.operate("POST", "/places/accept", asked)
            assert RULE in await session()


@pytest.mark.whole
async def test_twenty_edits_of_a_day_by_four_keys_cost_three_acts(tmp_path: Path) -> None:
    host, home = Codex(), tmp_path / "home"
    file = home / "project" / "AGENTS.md"
    await asyncio.to_thread(file.parent.mkdir, parents=True)
    await asyncio.to_thread((home / ".codex").mkdir)
    await asyncio.to_thread(file.write_text, f"{OLD}\n")
    async with fronted(tmp_path / "ours", host.model()) as at:
        keys = [at.key, *[await at.sidecar.key(f"agent-{number}") for number in range(3)]]

        async def session(key: str) -> str:
            before = len(at.upstream.exchanges)
            settings = Settings(text="", servers=(), environment={"SCRIPTED_KEY": key})
            await host.run("Hello.", home, at.url, settings)
            return _asked(at, before)

        await session(keys[0])
        acts, unread = 0, 0
        for number in range(20):
            rule = f"Rule {number}: keep the module of topic {number} small."
            text = await asyncio.to_thread(file.read_text)
            await asyncio.to_thread(file.write_text, f"{text}{rule}\n")
            asked = await session(keys[number % 4])
            unread += 1
            assert rule not in asked
            assert f"{unread} new line{'s wait' if unread > 1 else ' waits'}" in (
                asked.replace(" of AGENTS.md", "")
            ), "told within a turn"
            if number in {6, 13, 19}:
                (place,) = [
                    one
                    for one in (await at.sidecar.operate("GET", "/places"))["places"]
                    if one["waiting"]
                ]
                given = {"path": place["path"], "text": "\n".join(place["waiting"])}
                await at.sidecar.operate("POST", "/places/accept", given)
                acts, unread = acts + 1, 0
        asked = await session(keys[1])
        assert all(f"Rule {number}:" in asked for number in range(20))
        assert "places accept" not in asked
        assert acts == 3
