"""An adapter that is named in `compose` is served, judged, sifted and settled like every other one.

The sample is that of a small server of cards, which runs as a process of its own.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from proxy.compose.app import Composition
from proxy.compose.backends import ADAPTERS
from proxy.fronts.backend_writes import TEND_S
from tests.conformance.bypass import directive, formed
from tests.evaluate.unsafe import unsafe_gate_without
from tests.integration.operator_line import line
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Running, running
from tests.integration.sample_backend import server
from tests.integration.sample_backend.cards import Cards
from tests.integration.turns import Turns
from tests.unit.proxy.guarded import GOOD

NO_FLOOR: Final = unsafe_gate_without(frozenset({1, 2}))
SECRET: Final = "the-sidecars-own-credential-0123456789"
MISSING: Final = "/cards/never-written"
WALLS = pytest.mark.parametrize("walled", [True, False], ids=["walled", "control"])


@pytest.fixture(autouse=True)
def _served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose has the sample as well: the one place that names adapters names one more."""
    if "cards" not in ADAPTERS:
        served = {**ADAPTERS, "cards": _cards}
        monkeypatch.setattr("proxy.compose.backends.ADAPTERS", served)


def _cards(table: object) -> Cards:
    del table
    return Cards()


class Behind(NamedTuple):
    """A sidecar with the server of cards behind it."""

    live: Running
    url: str

    async def ask(
        self, method: str, path: str, body: object = None, key: str = AGENT_KEY
    ) -> tuple[int, Any]:
        """The answer to an agent."""
        headers = {"cards-key": key, "cookie": "a=b"}
        asked = self.live.client.request(method, self.live.url + path, json=body, headers=headers)
        async with asked as response:
            raw = await response.read()
            return response.status, await response.json() if raw else None

    async def there(self, method: str, path: str) -> Any:  # noqa: ANN401 - what a server says
        """The answer of the server itself, past the gate."""
        async with self.live.client.request(method, self.url + path) as response:
            return await response.json() if response.status == 200 else None

    async def changes(self) -> list[tuple[str, str]]:
        """The changes that reached the server."""
        seen = await self.there("GET", "/seen")
        return [(one["method"], one["path"]) for one in seen if one["method"] != "GET"]

    async def operate(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
        url = f"{self.live.admin_url}/api/v1{path}"
        async with self.live.client.request(method, url, json=body, headers=headers) as response:
            assert response.status == 200, await response.text()
            return await response.json()


@asynccontextmanager
async def behind(
    root: Path, composition: Composition | None = None, more: str = ""
) -> AsyncGenerator[Behind]:
    """The sidecar before the server, which is begun and ended here."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        server.__file__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    secret = root / "headers"
    secret.write_text(f"authorization: Bearer {SECRET}\n")
    secret.chmod(0o600)
    try:
        url = f"http://127.0.0.1:{int(await process.stdout.readline())}"
        table = f'[[backend]]\nname = "store"\nadapter = "cards"\nurl = "{url}"\n'
        tables = f'{table}headers_file = "{secret}"\n{more}'
        async with running(root, composition, tables=tables) as live:
            yield Behind(live, url)
    finally:
        process.stdin.close()
        await process.wait()


async def _shown(gate: Behind, key: str = AGENT_KEY) -> str:
    """Everything that reads of the server show through the gate."""
    status, listed = await gate.ask("GET", "/cards", key=key)
    assert status == 200, listed
    each = [await gate.ask("GET", f"/cards/{one['name']}", key=key) for one in listed["cards"]]
    return str((listed, each))


async def test_a_good_card_is_stored_on_its_server_read_back_changed_and_deleted(
    tmp_path: Path,
) -> None:
    async with behind(tmp_path) as gate:
        card = {"name": "review", "text": GOOD, "tags": ["work"]}
        body = {"text": GOOD, "tags": ["work"]}
        assert await gate.ask("PUT", "/cards/review", body) == (204, None)
        assert await gate.there("GET", "/cards/review") == card
        assert await gate.ask("GET", "/cards/review") == (200, card)
        assert await gate.ask("GET", "/cards") == (200, {"cards": [card]})
        assert (await gate.ask("DELETE", "/cards/review"))[0] == 204
        assert await gate.there("GET", "/cards") == {"cards": []}
        assert (await gate.ask("DELETE", "/cards/review"))[0] == 404
        seen = await gate.there("GET", "/seen")
        asked = [one for one in seen if one["path"].startswith("/cards/")]
        assert {one["headers"].get("authorization") for one in asked} == {None, f"Bearer {SECRET}"}
        assert not [one for one in seen if AGENT_KEY in str(one) or "cookie" in one["headers"]]
        assert await gate.changes() == [("PUT", "/cards/review"), ("DELETE", "/cards/review")]


@WALLS
async def test_a_card_that_steers_is_refused_and_is_not_on_the_server(
    walled: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    text, canary = directive()
    gate_of = Composition() if walled else Composition(gate=NO_FLOOR)
    async with behind(tmp_path, gate_of) as gate:
        status, said = await gate.ask("PUT", "/cards/rule", {"text": text})
        assert status == (403 if walled else 204)
        assert canary not in str(said)
        assert (await gate.changes() == []) is walled
        assert (canary in await _shown(gate)) is not walled
        assert (await formed(gate.live, canary) == []) is walled


async def test_a_quarantined_card_is_one_that_is_not_there_until_its_parole(
    tmp_path: Path,
) -> None:
    async with behind(tmp_path) as gate:
        for name in ("one", "two"):
            assert (await gate.ask("PUT", f"/cards/{name}", {"text": f"{GOOD} {name}"}))[0] == 204
        found = (await gate.operate("GET", "/memories"))["memories"]
        (place,) = (f"/memories/{one['memory_id']}" for one in found if "one" in one["text"])
        assert "afternoon one" in await _shown(gate)
        await gate.operate("POST", f"{place}/quarantine", {"reason": "a lie"})
        assert await gate.ask("GET", "/cards/one") == await gate.ask("GET", MISSING)
        assert "afternoon one" not in await _shown(gate)
        assert "afternoon two" in await _shown(gate)
        # Control: sifting takes it away; the server has it all the time.
        assert await gate.there("GET", "/cards/one") is not None
        await gate.operate("POST", f"{place}/unhide", {})
        assert "afternoon one" in await _shown(gate)


async def test_a_card_is_its_tenants_and_another_one_neither_sees_nor_deletes_it(
    tmp_path: Path,
) -> None:
    async with behind(tmp_path) as gate:
        other = await gate.live.key("other", tenant="other")
        assert (await gate.ask("PUT", "/cards/mine", {"text": GOOD}))[0] == 204
        assert GOOD not in await _shown(gate, other)
        assert await gate.ask("GET", "/cards/mine", key=other) == await gate.ask("GET", MISSING)
        refused = await gate.ask("DELETE", "/cards/mine", key=other)
        assert refused == await gate.ask("DELETE", MISSING, key=other)
        assert await gate.changes() == [("PUT", "/cards/mine")]
        # Control: the owner sees it, and deletes it.
        assert GOOD in await _shown(gate)
        assert (await gate.ask("DELETE", "/cards/mine"))[0] == 204


@pytest.mark.parametrize("act", ["deny", "release"], ids=["denied", "control"])
async def test_a_held_card_is_sent_once_a_person_released_it(act: str, tmp_path: Path) -> None:
    text, canary = directive()
    turns = Turns()
    async with behind(tmp_path, Composition(wait=turns)) as gate:
        assert (await gate.ask("PUT", "/cards/rule", {"text": text}))[0] == 403
        [held] = (await gate.operate("GET", "/review"))["held"]
        await gate.operate("POST", f"/review/{held['candidate_id']}/{act}", {})
        for _ in range(2):
            await turns.turn(TEND_S)
        sent = await gate.changes()
        assert sent == ([("PUT", "/cards/rule")] if act == "release" else [])
        assert (canary in await _shown(gate)) is (act == "release")


async def test_a_lost_answer_is_looked_up_and_the_card_is_never_sent_again(tmp_path: Path) -> None:
    turns = Turns()
    async with behind(tmp_path, Composition(wait=turns), "answer_seconds = 5\n") as gate:
        await gate.there("POST", "/lose")
        assert (await gate.ask("PUT", "/cards/lost", {"text": GOOD}))[0] == 502
        assert GOOD not in await _shown(gate), "its outcome is not known, so it is not shown"
        await turns.turn(TEND_S)
        assert GOOD in await _shown(gate)
        assert await gate.changes() == [("PUT", "/cards/lost")]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("DELETE", "/cards", None, 403),
        ("POST", "/cards/one", {"text": "a"}, 403),
        ("PUT", "/cards/one", {"text": "a", "colour": "red"}, 422),
        ("PUT", "/cards/One", {"text": "a"}, 400),
    ],
)
async def test_what_is_in_no_table_or_cannot_be_read_reaches_no_server(
    method: str, path: str, body: object, status: int, tmp_path: Path
) -> None:
    async with behind(tmp_path) as gate:
        assert (await gate.ask(method, path, body))[0] == status
        assert await gate.changes() == []
        # Control: what is in the table does.
        assert (await gate.ask("PUT", "/cards/one", {"text": GOOD}))[0] == 204
        assert await gate.changes() == [("PUT", "/cards/one")]


async def test_an_operator_finds_what_came_past_the_gate_and_takes_it_in(tmp_path: Path) -> None:
    async with behind(tmp_path, more='before = "hide"\n') as gate:
        assert (await gate.ask("PUT", "/cards/ours", {"text": GOOD}))[0] == 204
        past = gate.live.client.put(f"{gate.url}/cards/theirs", json={"text": "Grace has a key"})
        async with past as response:
            assert response.status == 204
        checked = await line(gate.live, "backend", "check", "store", "--json")
        assert (checked.code, checked.data["same"], checked.data["foreign"]) == (1, 1, 1)
        assert "Grace has a key" not in await _shown(gate)
        assert (await line(gate.live, "backend", "import", "store")).code == 0
        assert "Grace has a key" in await _shown(gate)
        # Control: nothing is foreign any more.
        checked = await line(gate.live, "backend", "check", "store", "--json")
        assert (checked.code, checked.data["same"]) == (0, 2)
