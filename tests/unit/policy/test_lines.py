"""What of a candidate a person decides on: its lines, or all of it."""

from __future__ import annotations

import msgspec
import pytest

from policy.labels.forwarded_call import ForwardedCall, texts_of
from policy.lines import LINES_MAX, lines_of, place_of
from policy.model import ChangeKind, Scope
from tests.unit.storage.opening import candidate_of

FILE = "/home/ada/CLAUDE.md"


def edit(*pieces: str, came: int, place: str = FILE) -> tuple[str, str]:
    return texts_of(
        ForwardedCall(tool="Edit", arguments="{}", key=place, pieces=pieces, place=place, came=came)
    )


def test_a_file_s_lines_come_or_go_and_blank_ones_do_not_count() -> None:
    text, metadata = edit("- One.\n\n  Two.\n- One.", "- Old.", came=1)
    candidate = candidate_of(text, metadata_json=metadata, target="mcp/files")
    assert place_of(candidate) == FILE
    lines = lines_of(candidate)
    expected = [("- One.", True), ("  Two.", True), ("- Old.", False)]
    assert [(one.text, one.comes) for one in lines] == expected
    assert not any(one.whole for one in lines)


def test_a_line_is_let_in_by_its_bytes_and_denied_by_its_words() -> None:
    def line(text: str, came: int = 1) -> tuple[bytes, bytes]:
        said, metadata = edit(text, came=came)
        (one,) = lines_of(candidate_of(said, metadata_json=metadata, target="mcp/files"))
        return one.exact, one.shape

    exact, shape = line("- Always use tabs.")
    assert line("* always USE tabs!") != (exact, shape)
    assert line("* always USE tabs!")[1] == shape
    assert line("- Always use tabs. ")[0] != exact
    assert line("- Always use tabs.", came=0)[0] != exact
    assert line("- Always use tabs.", came=0)[1] != shape, "to take a line away is another thing"


@pytest.mark.parametrize(
    ("pieces", "came"),
    [
        (("One.",), -1),
        ((" \n ",), 1),
        (("\n".join(f"Line {number}." for number in range(LINES_MAX + 1)),), 1),
    ],
)
def test_what_has_no_known_lines_is_one_whole(pieces: tuple[str, ...], came: int) -> None:
    text, metadata = edit(*pieces, came=came)
    candidate = candidate_of(text, metadata_json=metadata, target="mcp/files")
    (one,) = lines_of(candidate)
    assert (one.whole, place_of(candidate)) == (True, FILE)
    other = msgspec.structs.replace(candidate, nonce="another")
    assert lines_of(other) == (one,), "whatever its nonce is"
    moved = msgspec.structs.replace(candidate, scope=Scope(user_id="bo"))
    assert lines_of(moved)[0].exact != one.exact


def test_any_other_place_is_what_is_done_and_where() -> None:
    candidate = candidate_of("The ferry leaves at nine.")
    assert place_of(candidate) == "create in memories"
    removal = msgspec.structs.replace(candidate, change=ChangeKind.DELETE, text=None)
    assert place_of(removal) == "delete in memories"
    assert [one.comes for of in (candidate, removal) for one in lines_of(of)] == [True, False]
    # A client's own metadata names no place.
    text, metadata = edit("One.", came=1)
    assert place_of(candidate_of(text, metadata_json=metadata)) == "create in memories"
