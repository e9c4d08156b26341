"""A permit is made by the gate alone, and used once."""

from __future__ import annotations

import ast
import copy
import pickle
from pathlib import Path

import pytest

from policy.gate import GATE
from policy.model import Basis, MemoryClass, SourceKind
from policy.verdict import Admit, InvariantBroken, Permit
from tests.property.gate_cases import CANDIDATE_ID, OTHER_DIGEST, RULESET, Labels, case_of

ROOT = Path(__file__).resolve().parents[3]


def test_only_the_gate_makes_permits() -> None:
    users = {
        path.relative_to(ROOT).as_posix()
        for package in ("policy", "storage", "telemetry", "proxy")
        for path in (ROOT / package).rglob("*.py")
        if "_SEAL" in _names(ast.parse(path.read_text()))
    }
    assert users == {"policy/verdict.py", "policy/gate.py"}


def _names(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def test_a_permit_is_neither_forged_nor_copied_nor_spent_twice() -> None:
    verdict = GATE.decide(*case_of(Labels()), RULESET)
    assert isinstance(verdict, Admit)
    with pytest.raises(InvariantBroken):
        Permit(
            object(),
            candidate_id=CANDIDATE_ID,
            digest=OTHER_DIGEST,
            epoch=0,
            memory_class=MemoryClass.L1,
            source=SourceKind.OPERATOR,
            basis=Basis.CHANNEL,
            passed=frozenset(),
        )
    with pytest.raises(InvariantBroken):
        copy.copy(verdict.permit)
    with pytest.raises(InvariantBroken):
        copy.deepcopy(verdict.permit)
    with pytest.raises(InvariantBroken):
        pickle.dumps(verdict.permit)
    verdict.permit.spend()
    with pytest.raises(InvariantBroken):
        verdict.permit.spend()


def test_a_permit_cannot_be_subclassed() -> None:
    with pytest.raises(InvariantBroken):
        type("Forged", (Permit,), {})
