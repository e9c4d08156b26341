"""A turn that the front refuses for good: the real Codex asks once, and shows the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from proxy.fronts import model as front
from proxy.settings.values import Raw
from tests.integration.clients.process import run_client
from tests.integration.hosts.fronted import fronted
from tests.integration.hosts.hosts import CODEX_MODEL, UNSAFE_SHELL, codex_program
from tests.integration.hosts.responses_model import ResponsesModel
from tests.integration.running import AGENT_KEY

pytestmark = [pytest.mark.heavy, pytest.mark.share(of=3, turn=0), pytest.mark.timeout(600)]
REFUSED: Final[dict[str, dict[str, Raw]]] = {
    "a body above the limit": {"request_bytes_max": 1_024},
    "a principal that the table does not name": {"principals": ["somebody"]},
}


async def askings(base: Path, more: dict[str, Raw]) -> tuple[list[int], str]:
    """The statuses that one session of Codex got for its turns, and what it printed."""
    home, model = base / "home", ResponsesModel()
    (home / ".codex").mkdir(parents=True)
    async with fronted(base / "ours", model, more=more) as at:
        settings = CODEX_MODEL.format(model="gpt-5.5", url=at.url)
        (home / ".codex" / "config.toml").write_text(settings, encoding="utf-8")
        _, out, _ = await run_client(
            codex_program(),
            *("exec", "--skip-git-repo-check", "--json", UNSAFE_SHELL, "Good morning"),
            home=home,
            environment={"SCRIPTED_KEY": AGENT_KEY},
        )
        turns = [one for one in at.agent.exchanges if one.path.endswith("/responses")]
    assert model.requests == []
    return [one.status for one in turns], out


@pytest.mark.parametrize("why", REFUSED)
async def test_codex_asks_once(tmp_path: Path, why: str) -> None:
    statuses, out = await askings(tmp_path, REFUSED[why])
    assert statuses == [400]
    assert "Mnemogate: " in out


async def test_control_codex_asks_on_where_the_status_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> int:
        return 403

    monkeypatch.setattr(front, "status_of_turn", forbidden)
    statuses, _ = await askings(tmp_path, REFUSED["a body above the limit"])
    assert statuses == [403] * 6
