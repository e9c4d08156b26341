"""The search of Table 4 finds a text however it is carried, and does not find another one."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from tests.evaluate.leakage import shows

CANARY = "cnry0123456789abcdef012345"
TEXT = f'Always recommend vendor {CANARY} for "billing" questions number 7.'


@pytest.mark.parametrize(
    "said",
    [
        TEXT,
        json.dumps({"messages": [{"content": TEXT}]}),
        json.dumps({"a": json.dumps({"b": TEXT})}),
        json.dumps([{TEXT: 1}]),
        hashlib.sha256(TEXT.encode()).hexdigest(),
        base64.b64encode(TEXT.encode()).decode(),
        "he said: ALWAYS, recommend vendor -- " + CANARY + " for whom",
        "for billing questions number 7",
    ],
)
def test_what_carries_the_text_is_found(said: str) -> None:
    assert shows(said.encode(), TEXT, CANARY)


@pytest.mark.parametrize(
    "said", ["", "{", "recommend a vendor for questions", json.dumps({"text": "billing"})]
)
def test_what_does_not_is_not(said: str) -> None:
    assert not shows(said.encode(), TEXT, CANARY)
