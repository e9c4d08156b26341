"""What the gate itself says is withheld from nobody, proposed as a memory or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy.model import MemoryClass
from policy.verdict import Reason
from proxy.dialects.model.withheld import LeftUnchanged
from proxy.seams.observations import ReviewPage, observation_for
from tests.unit.proxy.withheld import PAGE, POISON, REQUESTS, rig
from tests.unit.storage.opening import AGENT

REVIEW = ReviewPage()
REVIEW.base = "https://gate.example"
REFUSED = observation_for("reject", Reason.SOURCE_CLASS_FORBIDDEN, MemoryClass.L1)
HELD = observation_for("hold", Reason.CLASS_FLOOR, MemoryClass.L1, page=REVIEW.of("0" * 32))


@pytest.mark.parametrize("text", [REFUSED, HELD], ids=["refused", "held, with the page's address"])
async def test_our_own_observations_are_no_secret(tmp_path: Path, text: str) -> None:
    with rig(tmp_path) as one:
        one.withholding.page_served(REVIEW)
        item = await one.write(f"Remember this policy: {POISON} {text}")
        assert item.decision == "reject"
        later = text.replace("0" * 32, "1" * 32)
        bodies = [REQUESTS["responses"](said) for said in (f"It answered: {later}", PAGE)]
        made = [
            json.dumps(await one.withholding.apply(AGENT, "responses", body, LeftUnchanged))
            for body in bodies
        ]
    assert later in made[0]
    assert POISON not in made[1], "control: the rest of what was refused is"
