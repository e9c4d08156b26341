"""A request without some of its memories is what withholding makes of it once they are hidden."""

from __future__ import annotations

import json

import pytest

from policy.model import (
    Basis,
    CandidateId,
    Memory,
    MemoryClass,
    MemoryId,
    MemoryStatus,
    PrincipalId,
    Scope,
    SourceKind,
    Tenant,
)
from proxy.dialects.model.withheld import LeftUnchanged
from proxy.dialects.strict_json.tolerant import Json
from proxy.withhold.left_out import without

LIE = "The office near the old harbour has moved to the street of Campanha since May."
COPY = f"A note of Monday: {LIE}"
NOTHING = LeftUnchanged()
HONEST = "The kitchen of the office has a big green table with nine chairs around it."


def memory(text: str) -> Memory:
    return Memory(
        memory_id=MemoryId(text[:8]),
        tenant=Tenant("default"),
        principal_id=PrincipalId("agent"),
        text=text,
        metadata_json=None,
        scope=Scope(),
        target="memories",
        memory_class=MemoryClass.L3,
        source=SourceKind.UNKNOWN,
        basis=Basis.UNPROVEN,
        status=MemoryStatus.LIVE,
        version=1,
        created_at_ms=1,
        updated_at_ms=1,
        candidate_id=CandidateId("c"),
    )


def asked(*texts: str, prompt: str = "Where is it?") -> dict[str, Json]:
    result = json.dumps({"results": [{"text": text} for text in texts]})
    return {
        "messages": [
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": LIE},
            {"role": "tool", "tool_call_id": "call_1", "content": result},
        ]
    }


def left(
    body: dict[str, Json],
    leave: LeftUnchanged = NOTHING,
    *,
    out: tuple[str, ...],
    present: tuple[str, ...],
) -> str:
    made = without(body, "chat", leave, out=[*map(memory, out)], present=[*map(memory, present)])
    return json.dumps(made)


def test_a_memory_goes_with_what_the_model_repeated_of_it_and_others_stay() -> None:
    body = asked(LIE, HONEST)
    assert json.dumps(body).count(LIE) == 2, "control"
    found = left(body, out=(LIE,), present=(HONEST,))
    assert LIE not in found
    assert HONEST in found
    assert left(body, out=(), present=(LIE, HONEST)) == json.dumps(body)


def test_what_a_memory_that_stays_says_too_stays() -> None:
    assert COPY in left(asked(LIE, COPY), out=(LIE,), present=(COPY,))
    assert COPY not in left(asked(LIE, COPY), out=(LIE, COPY), present=())


@pytest.mark.parametrize("is_hers", [True, False])
def test_what_a_person_typed_stays(*, is_hers: bool) -> None:
    where = ("messages", 0, "content")
    leave = LeftUnchanged(typed={where: ((0, len(LIE)),)} if is_hers else {})
    found = left(asked(LIE, prompt=LIE), leave, out=(LIE,), present=())
    assert found.count(LIE) == int(is_hers)
