"""Keys under a store's secret: one name has one key, and no two names share one."""

from __future__ import annotations

from policy.model import Tenant
from storage.tables.keys import KeyedNames

ONE, OTHER = Tenant("one"), Tenant("other")
NAMES = KeyedNames(b"s" * 32)


def test_a_file_has_its_place_below_its_tenants_prefix() -> None:
    place = NAMES.place(ONE, "/home/ada/MEMORY.md")
    assert place.startswith(NAMES.places(ONE))
    assert len(place) == 2 * len(NAMES.places(ONE)) == 16
    every = {
        place,
        NAMES.place(ONE, "/home/ada/CLAUDE.md"),
        NAMES.place(OTHER, "/home/ada/MEMORY.md"),
        KeyedNames(b"t" * 32).place(ONE, "/home/ada/MEMORY.md"),
    }
    assert len(every) == 4, "another file, tenant or secret has another key"


def test_a_line_is_the_same_whatever_its_blanks_are_and_in_its_own_file_alone() -> None:
    line = NAMES.place_line(ONE, "/a", "Always  use pnpm.\t")
    assert line == NAMES.place_line(ONE, "/a", "Always use pnpm.")
    assert line != NAMES.place_line(ONE, "/b", "Always use pnpm.")
    assert line != NAMES.place_line(ONE, "/a", "Always use npm.")


def test_parts_of_a_name_are_not_joined() -> None:
    assert NAMES.own(ONE, "ab") != NAMES.own(Tenant("onea"), "b")
    assert NAMES.pins(ONE, "b") != NAMES.pins(Tenant("oneb"), "")
