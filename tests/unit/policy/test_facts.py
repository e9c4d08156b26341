"""A caller that forgets a fact fails at once; a fact it could not gather is said to be missing."""

from __future__ import annotations

import pytest

from policy.facts import Facts
from tests.property.gate_cases import Labels, case_of

# What need not be there: none of these can admit a candidate by being left out.
OPTIONAL = {"stored", "lineage", "approval", "guarded"}


@pytest.mark.parametrize("name", sorted(set(Facts.__struct_fields__) - OPTIONAL))
def test_no_fact_that_a_step_needs_has_a_default(name: str) -> None:
    _, facts = case_of(Labels())
    values = {field: getattr(facts, field) for field in Facts.__struct_fields__ if field != name}
    with pytest.raises(TypeError):
        Facts(**values)
