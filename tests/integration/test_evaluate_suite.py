"""The conformance suite: green on what `run` serves, and its data fit the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluate.suite.ours import OurAdapter
from tests.evaluate.suite.protocol import Adapter, Reply, Request
from tests.evaluate.suite.scenario import Scenario, play, scenarios
from tests.evaluate.suite.trying import try_mutants
from tests.evaluate.systems import BY_NAME

ROOT = Path(__file__).resolve().parents[2]
SUITE = scenarios()
QUICK = {"tool-policy", "nonce-replay", "staging-tampered"}
RETOLD = {"delayed-tool-invocation", "calendar-invites", "sleeper-belief"}


def chosen(names: set[str]) -> list[Scenario]:
    return [one for one in SUITE if one.id in names]


async def ended(adapter: Adapter, played: list[Scenario]) -> dict[str, str]:
    try:
        return {one.id: (await play(one, adapter)).result for one in played}
    finally:
        await adapter.close()


def test_each_scenario_has_a_name_an_invariant_and_a_control_of_its_own() -> None:
    assert len({one.id for one in SUITE}) == len(SUITE) >= 21
    assert len({one.invariant for one in SUITE}) == len(SUITE)
    for one in SUITE:
        done = {step.do for step in one.step} | {str(step.expect) for step in one.step}
        # Something must land, or an implementation that refuses everything would pass.
        assert done & {"present", "admitted", "labelled"} or one.id == "trust-is-durable"


@pytest.mark.parametrize("scenario", SUITE, ids=lambda one: one.id)
def test_a_mutant_of_the_suite_fits_the_code(scenario: Scenario) -> None:
    for fault in (scenario.mutant, *scenario.mutant.more):
        text = (ROOT / fault.file).read_text("utf-8")
        assert text.count(fault.old) == 1
        assert fault.old != fault.new


async def test_scenarios_pass_with_the_gate_and_fail_without_one() -> None:
    assert set((await ended(OurAdapter(), chosen(QUICK))).values()) == {"pass"}
    without = await ended(OurAdapter(BY_NAME["B0"]), chosen(QUICK))
    assert set(without.values()) == {"fail"}


async def test_retold_attacks_end_as_nobodys_word_and_land_without_a_gate() -> None:
    assert set((await ended(OurAdapter(), chosen(RETOLD))).values()) == {"pass"}
    without = await ended(OurAdapter(BY_NAME["B0"]), chosen(RETOLD))
    assert list(without.values()) == ["fail"] * len(RETOLD)
    invites = next(one for one in SUITE if one.id == "calendar-invites")
    honest = 1
    assert sum(step.do == "remember" for step in invites.step) - honest == 14


class Nothing:
    """An implementation that can do nothing."""

    async def do(self, request: Request) -> Reply:
        return Reply() if request.op == "reset" else Reply(na="not here")

    async def close(self) -> None:
        return


async def test_what_an_implementation_cannot_express_is_neither_passed_nor_failed() -> None:
    assert set((await ended(Nothing(), list(SUITE))).values()) == {"n/a"}


@pytest.mark.heavy
@pytest.mark.timeout(900)
async def test_the_whole_suite_is_green() -> None:
    assert set((await ended(OurAdapter(), list(SUITE))).values()) == {"pass"}


@pytest.mark.whole
@pytest.mark.timeout(1_800)
async def test_every_mutant_of_the_suite_is_caught() -> None:
    tried = await try_mutants(lambda _done, _total: None)
    assert [one for one in tried if not one.caught] == []
