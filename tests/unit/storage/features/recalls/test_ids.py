"""Ids of recalls: each leads back to its number, and shows nothing of it."""

from __future__ import annotations

from storage.features.recalls.ledger import RecallIds

IDS = RecallIds(b"k" * 32)


def test_an_id_leads_back_to_its_number() -> None:
    for number in (0, 1, 2, 1 << 20, (1 << 40) - 1):
        assert IDS.number(IDS.of(number).hex()) == number


def test_an_id_does_not_show_how_many_reads_there_were() -> None:
    # By luck the number stands at the end of one id of a million million.
    shown = [IDS.of(number).hex() for number in range(16)]
    assert not any(int(one[6:], 16) == number for number, one in enumerate(shown))
    # Nor may an id be read with the key of another store.
    others = RecallIds(b"o" * 32)
    assert [others.number(one) for one in shown] != list(range(16))


def test_what_is_no_id_has_no_number() -> None:
    for told in ("", "00", "0" * 17, "G" * 16, "A" * 16, "\u0661" * 16):
        assert IDS.number(told) is None
