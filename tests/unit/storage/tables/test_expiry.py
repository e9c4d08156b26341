"""A date is read behind a durable commit, where nothing may raise."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from storage.tables.expiry import expiry_ms

YEAR_10000_MS = 253_402_300_800_000


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("9999-12-31", YEAR_10000_MS),
        ("9999-12-31T23:59:59-23:59", YEAR_10000_MS + 86_339_000),
        ("0001-01-01T00:00:00+23:59", -62_135_683_140_000 - 14_400_000),
        ("not a date", 0),
    ],
)
def test_the_first_and_last_day_of_the_calendar_have_an_expiry(written: str, expected: int) -> None:
    assert abs(expiry_ms(written) - expected) <= 86_400_000


def test_a_date_lasts_until_its_end_and_a_moment_until_itself() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert expiry_ms(noon.isoformat()) == int(noon.timestamp() * 1_000)
    assert expiry_ms("2026-03-01") == int(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1_000)
