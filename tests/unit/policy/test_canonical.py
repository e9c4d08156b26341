from __future__ import annotations

import msgspec
import pytest

from policy.canonical import canonical_bytes, decode_canonical
from policy.model import Candidate, ChangeKind, PrincipalId, Scope, Tenant

PLAIN = Candidate(
    change=ChangeKind.CREATE,
    principal_id=PrincipalId("p"),
    tenant=Tenant("t"),
    nonce="n",
    text="x",
)


def _fresh(text: str) -> str:
    """Equal, and another object: as a decoder makes it."""
    return bytes(text, "ascii").decode()


@pytest.mark.parametrize(
    "fields",
    [{"target": _fresh("memories")}, {"scope": Scope()}],
    ids=["target", "scope"],
)
def test_a_default_has_one_spelling_wherever_it_came_from(fields: dict[str, object]) -> None:
    spelled = msgspec.structs.replace(PLAIN, **fields)
    assert spelled == PLAIN

    assert canonical_bytes(spelled) == canonical_bytes(PLAIN)


def test_what_is_no_default_is_spelled_out() -> None:
    filed = msgspec.structs.replace(PLAIN, scope=Scope(user_id="ada"), target="notes")

    assert canonical_bytes(filed) != canonical_bytes(PLAIN)
    assert decode_canonical(canonical_bytes(filed)) == filed
