"""A dialect that is named in `compose` is served, judged and bounded like every other one.

The sample is a small memory API of notes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from policy.ruleset import Ruleset
from proxy.compose import app
from proxy.compose.app import Composition
from proxy.compose.dialects import dialects_of
from proxy.seams.operation import Dialect
from proxy.settings.table import SettingsError
from tests.conformance.bypass import directive, formed
from tests.evaluate.unsafe import unsafe_gate_without
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Json, Running, running
from tests.integration.sample_dialect.notes import Notes

NO_FLOOR: Final = unsafe_gate_without(frozenset({1, 2}))
WALLS = pytest.mark.parametrize("walled", [True, False], ids=["walled", "control"])
MODEL_OF_THAT_NAME: Final = (
    '[[model]]\nname = "notes"\napi = "openai"\nurl = "http://127.0.0.1:9/v1"\n'
)


@pytest.fixture
def _served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose serves the sample as well: the one place that names dialects names one more."""

    def with_notes(rules: Callable[[], Ruleset]) -> tuple[Dialect, ...]:
        return (*dialects_of(rules), Notes())

    monkeypatch.setattr(app, "dialects_of", with_notes)


async def _ask(
    live: Running, method: str, path: str, body: object = None, key: str = AGENT_KEY
) -> tuple[int, Json]:
    data = body if isinstance(body, bytes) else None
    async with live.client.request(
        method,
        live.url + path,
        data=data,
        json=None if data is not None else body,
        headers={"Notes-Key": key},
    ) as response:
        return response.status, await response.json()


async def _shown(live: Running, canary: str) -> str:
    """Everything that the reads of this dialect show."""
    _, listed = await _ask(live, "GET", "/notes")
    _, found = await _ask(live, "GET", f"/notes?find={canary}")
    each = [(await _ask(live, "GET", f"/notes/{one['note']}"))[1] for one in listed["notes"]]
    return str((listed, found, each))


async def _decide(live: Running, act: str, canary: str) -> None:
    """A person's decision about the one candidate that waits, and that it was the one meant."""
    [held] = (await live.operate("GET", "/review"))["held"]
    one = f"/review/{held['candidate_id']}"
    assert canary in str(await live.operate("GET", one))
    await live.operate("POST", f"{one}/{act}", {})


@pytest.mark.usefixtures("_served")
async def test_a_good_note_is_admitted_read_back_and_deleted(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        status, made = await _ask(
            live, "POST", "/notes", {"text": "Ada moved to Lisbon.", "about": "ada"}
        )
        assert status == 201, made
        note = {"note": made["note"], "text": "Ada moved to Lisbon.", "about": "ada"}
        assert await _ask(live, "GET", f"/notes/{made['note']}") == (200, note)
        assert await _ask(live, "GET", "/notes") == (200, {"notes": [note]})
        assert await _ask(live, "GET", "/notes?find=Lisbon") == (200, {"notes": [note]})
        assert await live.texts(AGENT_KEY) == ["Ada moved to Lisbon."]
        async with live.client.get(
            f"{live.admin_url}/metrics", headers={"Authorization": f"Bearer {OPERATOR_KEY}"}
        ) as response:
            assert 'route="notes.write",status="201"' in await response.text()
        status, _ = await _ask(live, "DELETE", f"/notes/{made['note']}")
        assert (status, live.version()) == (200, 2)
        status, gone = await _ask(live, "GET", f"/notes/{made['note']}")
        assert (status, gone["refused"]["code"]) == (404, "not_found")


@WALLS
@pytest.mark.parametrize(
    ("standing", "reason"), [(True, "source_class_forbidden"), (False, "class_floor")]
)
@pytest.mark.usefixtures("_served")
async def test_a_note_that_steers_is_refused_in_the_dialects_shape_and_is_in_no_read(
    walled: bool,  # noqa: FBT001
    standing: bool,  # noqa: FBT001
    reason: str,
    tmp_path: Path,
) -> None:
    text, canary = directive()
    gate = Composition() if walled else Composition(gate=NO_FLOOR)
    async with running(tmp_path, gate) as live:
        await _ask(live, "POST", "/notes", {"text": "The office opens at nine."})
        status, answer = await _ask(live, "POST", "/notes", {"text": text, "standing": standing})
        if walled:
            assert (status, list(answer), answer["refused"]["code"]) == (403, ["refused"], reason)
            assert canary not in str(answer)
        else:
            assert status == 201, answer
        assert (canary in await _shown(live, canary)) is not walled
        assert (await formed(live, canary) == []) is walled


@pytest.mark.parametrize("act", ["deny", "release"], ids=["denied", "control"])
@pytest.mark.usefixtures("_served")
async def test_what_a_person_denies_is_in_no_read_before_and_after(
    act: str, tmp_path: Path
) -> None:
    text, canary = directive()
    async with running(tmp_path) as live:
        status, answer = await _ask(live, "POST", "/notes", {"text": text})
        assert (status, answer["refused"]["code"]) == (403, "class_floor")
        assert canary not in await _shown(live, canary)
        await _decide(live, act, canary)
        assert (canary in await _shown(live, canary)) is (act == "release")
        assert (await formed(live, canary) == []) is (act == "deny")


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/notes/import"), ("PUT", "/notes"), ("DELETE", "/notes")]
)
@pytest.mark.usefixtures("_served")
async def test_a_change_below_its_path_that_nobody_knows_is_refused(
    method: str, path: str, tmp_path: Path
) -> None:
    text, canary = directive()
    async with running(tmp_path) as live:
        status, answer = await _ask(live, method, path, {"text": text})
        assert (status, answer["refused"]["code"]) == (403, "forbidden")
        assert answer["refused"]["says"].startswith("unknown_write")
        assert (live.version(), await formed(live, canary)) == (0, [])


@pytest.mark.usefixtures("_served")
async def test_what_cannot_be_read_or_has_no_key_is_told_so_and_nothing_is_staged(
    tmp_path: Path,
) -> None:
    text, canary = directive()
    cases: list[tuple[object, str, int, str]] = [
        (f'{{"text": "{text}"'.encode(), AGENT_KEY, 422, "unprocessable_content"),
        (f'{{"text": "a", "text": "{text}"}}'.encode(), AGENT_KEY, 422, "unprocessable_content"),
        ({"text": "a", "colour": text}, AGENT_KEY, 422, "unprocessable_content"),
        ({"text": text}, "nobody's", 401, "unauthorized"),
    ]
    async with running(tmp_path) as live:
        for body, key, expected, code in cases:
            status, answer = await _ask(live, "POST", "/notes", body, key)
            assert (status, answer["refused"]["code"]) == (expected, code), body
            assert canary not in str(answer)
        assert (live.version(), await formed(live, canary)) == (0, [])


async def test_no_model_api_takes_the_path_of_a_dialect(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with running(tmp_path, tables=MODEL_OF_THAT_NAME):
        """Control: without the dialect nobody else is served below that path."""
    request.getfixturevalue("_served")
    with pytest.raises(SettingsError, match="'notes': the dialect notes is served below it"):
        async with running(tmp_path, tables=MODEL_OF_THAT_NAME):
            pass
