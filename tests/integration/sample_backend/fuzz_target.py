"""The adapter of a server of cards: any request and any answer is read in one way, or refused."""

from __future__ import annotations

from tests.fuzz.backends import check_backend
from tests.fuzz.choices import words
from tests.integration.sample_backend.cards import Cards

ADAPTER = Cards()
WORDS = words("text tags name cards true POST PUT DELETE GET HEAD /cards /cards/tea cards-key ---")


def check(data: bytes) -> None:
    check_backend(ADAPTER, data)
