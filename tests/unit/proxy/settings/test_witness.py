"""`[[witness]]`: a key that is a witness's, one table for each, and not more required."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy.settings.table import Settings, SettingsError
from storage.audit import COSIGNS, VerifierKey
from tests.tlog_witness import Witness
from tests.unit.proxy.settings.test_load import load


def table(witness: Witness, name: str = "w1", url: str = "https://w.example/submit") -> str:
    return f'[[witness]]\nname = "{name}"\nurl = "{url}"\nkey = "{witness.vkey}"\n'


def loaded(tmp_path: Path, toml: str) -> Settings:
    return load(tmp_path, f'state = "{tmp_path}/state"\n{toml}')


def test_each_table_has_a_key_of_its_own(tmp_path: Path) -> None:
    one, two = Witness(tmp_path / "1"), Witness(tmp_path / "2")
    settings = loaded(tmp_path, f"witness_required = 2\n{table(one)}{table(two, 'w2')}")
    assert [w.verifier for w in settings.witness] == [
        VerifierKey.parse(w.vkey, COSIGNS) for w in (one, two)
    ]
    assert settings.witness[0].table == "[[witness]] w1"
    with pytest.raises(SettingsError, match="witness: two tables have the same name"):
        loaded(tmp_path, table(one) + table(two))
    # One key under two names would be two cosignatures of one witness.
    named = VerifierKey(
        name="other", public_key=settings.witness[0].verifier.public_key, algorithm=COSIGNS
    )
    again = table(one, "w2").replace(one.vkey, named.text())
    with pytest.raises(SettingsError, match="witness: two tables have the same key"):
        loaded(tmp_path, table(one) + again)


@pytest.mark.parametrize(
    ("was", "put", "says"),
    [
        ("witness_required = 1", "witness_required = 2", "more than there are [[witness]] tables"),
        ("witness_required = 1", "witness_required = 0", "witness_required"),
        ("https://w.example", "ftp://w.example", "url: must be http:// or https://"),
        ("/submit", "/submit?a=b", "url: must be"),
        ("https://", "https://:password@", "without user"),
        ("+B", "+A", "not an Ed25519 verifier key of type 4"),
        ("witness.example/w1+", "witness.example/w2+", "hash does not fit"),
        ("witness.example/w1+", "witness.example/w1 +", "key: not a verifier key"),
        ("log_origin = ", "log_origin = ' '#", "log_origin"),
        ("gate.example", "gate+example", "log_origin"),
    ],
)
def test_what_cannot_be_a_witness_ends_the_start_with_its_reason(
    tmp_path: Path, was: str, put: str, says: str
) -> None:
    toml = f'witness_required = 1\nlog_origin = "gate.example/prod"\n{table(Witness(tmp_path))}'
    assert loaded(tmp_path, toml).log_origin == "gate.example/prod", "control"
    assert was in toml
    with pytest.raises(SettingsError, match=re.escape(says)):
        loaded(tmp_path, toml.replace(was, put))


def test_a_log_has_no_witness_and_its_usual_name_as_shipped(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "")
    assert (settings.witness, settings.witness_required) == ((), 1)
    assert settings.log_origin == "mnemogate"
