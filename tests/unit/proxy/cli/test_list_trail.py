"""A list that changes while it is read page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.cli import list_trail
from proxy.cli.list_trail import IDLE_MAX, ListTrail
from proxy.seams.faults import UpstreamError
from proxy.seams.http_backend import ListPart
from proxy.seams.operation import HttpRequest

PAGE = 5
ASKED = HttpRequest(method="GET", path="/list")


def begin(number: int) -> HttpRequest:
    return HttpRequest(method="GET", path=f"/list/{number}")


def part(names: list[str], *, most: int = PAGE) -> ListPart:
    return ListPart(names=tuple(names), is_full=len(names) >= most, begin=begin)


def read(pages: Iterable[list[str]]) -> None:
    """Let a walk have these pages, whatever it asks for."""
    trail = ListTrail()
    for names in pages:
        trail.take(part(names))


def walked(server: list[str], between: Callable[[int], None]) -> list[str]:
    """All that a walk over the server's list finds; `between` is called after each page."""
    trail, found, pages = ListTrail(), list[str](), 0
    while trail.begin is not None:
        found += trail.take(part(server[trail.begin : trail.begin + PAGE]))
        pages += 1
        between(pages)
    return found


def test_a_list_that_nobody_changes_is_read_once() -> None:
    for length in range(3 * PAGE):
        names = [f"n{number}" for number in range(length)]
        assert walked([*names], lambda _: None) == names


@given(st.lists(st.lists(st.integers(0, 99), max_size=30), max_size=12))
def test_what_stays_in_a_list_is_found_whatever_is_deleted_between_two_pages(
    gone: list[list[int]],
) -> None:
    names = [f"n{number}" for number in range(100)]
    server = [*names]

    def delete(at: int, page: int) -> None:
        for number in gone[page - 1] if page <= at else []:
            if f"n{number}" in server:
                server.remove(f"n{number}")

    found = walked(server, partial(delete, len(gone)))
    assert {*server} <= {*found}
    assert len({*found}) == len(found)


def test_what_is_new_at_the_beginning_moves_nothing_out_of_sight_and_is_counted_once() -> None:
    server = [f"n{number}" for number in range(40)]
    found = walked(server, lambda page: server.insert(0, f"new{page}"))
    assert {f"n{number}" for number in range(40)} <= {*found}
    assert len({*found}) == len(found)


def test_all_is_gone_but_one_that_moved_to_the_beginning() -> None:
    server = [*(f"n{number}" for number in range(PAGE)), "last"]

    def empty(page: int) -> None:
        if page == 1:
            del server[:PAGE]

    assert walked(server, empty)[-1] == "last"


def test_a_list_without_an_end_is_left_with_the_reason() -> None:
    names = [f"n{number}" for number in range(PAGE)]
    with pytest.raises(UpstreamError, match="page after page"):
        read(repeat(names, IDLE_MAX + 2))
    # Control: one page fewer.
    read(repeat(names, IDLE_MAX + 1))


@pytest.mark.parametrize("shows_again", [False, True])
def test_a_server_with_ever_new_names_is_left_too(
    monkeypatch: pytest.MonkeyPatch,
    shows_again: bool,  # noqa: FBT001 - a case of the test
) -> None:
    monkeypatch.setattr(list_trail, "NAMES_MAX", 300)
    made = [[f"{page}-{number}" for number in range(PAGE)] for page in range(300)]
    pages = [before[-1:] + page for before, page in pairwise(made)] if shows_again else made
    with pytest.raises(UpstreamError, match="more than 300"):
        read(pages)
