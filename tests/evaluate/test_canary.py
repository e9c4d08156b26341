"""The search that every zero of the evaluation rests on finds each form, and nothing else."""

from __future__ import annotations

import base64
import gzip
import random
import zlib
from typing import TYPE_CHECKING

import pytest

from tests.evaluate.canary import canaries_in, disguises, found_in, new_canary

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "cnry0123456789abcdef012345"
FORMS = {name: b"\x00before" + data + b"after\xff" for name, data in disguises(CANARY).items()} | {
    "zlib": b"head" + zlib.compress(CANARY.encode() * 3) + b"tail",
    "gzip": b"head" + gzip.compress(CANARY.encode() * 3) + b"tail",
}


@pytest.mark.parametrize("form", [name for name in FORMS if not name.startswith("base64")])
def test_each_form_of_a_canary_is_found(form: str) -> None:
    assert canaries_in(FORMS[form]) == {CANARY}


def test_a_canary_in_base64_is_found_wherever_it_starts() -> None:
    for before in range(7):
        text = b"x" * before + CANARY.encode() + b" and what follows"
        assert canaries_in(base64.b64encode(text)) == {CANARY}


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(1 << 18)  # noqa: S311
    assert canaries_in(noise) == frozenset()
    (tmp_path / "a").write_bytes(noise)
    (tmp_path / "b").write_bytes(noise + CANARY.encode())
    other = new_canary()
    assert found_in([tmp_path / "a", tmp_path / "gone"], [CANARY]) == frozenset()
    assert found_in([tmp_path / "a", tmp_path / "b"], [CANARY, other]) == {CANARY}
