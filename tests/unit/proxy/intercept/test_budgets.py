"""What step 9 is told: writes in the window, writes on one topic, and sizes in bytes."""

from __future__ import annotations

import pytest

from policy.model import PrincipalId
from proxy.intercept.budgets import (
    BYTES_PER_WRITE,
    PRINCIPALS_MAX,
    Topics,
    WriteCounts,
    weight_of,
)
from proxy.seams.faults import RateLimited
from tests.unit.storage.opening import AGENT, DIMENSION, candidate_of, vector_of

WINDOW_MS = 60_000
NOW = 1_750_000_020_000  # a multiple of the window
ME = AGENT.principal_id
VECTOR = vector_of("tea")


def budgets() -> WriteCounts:
    return WriteCounts(Topics(DIMENSION), lambda: WINDOW_MS)


def test_writes_are_counted_before_this_one_and_leave_with_the_window() -> None:
    counted = budgets()
    seen = [
        counted.measure(candidate_of("tea"), b"", NOW + at).writes_in_window_count
        for at in (0, 0, WINDOW_MS - 1, WINDOW_MS, 3 * WINDOW_MS)
    ]
    assert seen == [0, 1, 2, 1, 0]


def test_one_principals_flood_costs_no_other_any_room() -> None:
    counted = budgets()
    for _ in range(5):
        counted.measure(candidate_of("tea"), VECTOR, NOW)
    other = candidate_of("tea", principal_id=PrincipalId("other"))
    state = counted.measure(other, VECTOR, NOW)
    assert (state.writes_in_window_count, state.topic_writes_count) == (0, 0)


def test_sizes_are_utf8_bytes() -> None:
    state = budgets().measure(candidate_of("ü€", metadata_json='{"ä":1}'), b"", NOW)
    assert (state.text_bytes, state.metadata_bytes) == (5, 8)


def test_texts_of_one_topic_are_counted_together_within_a_window() -> None:
    counted = budgets()
    for before in range(3):
        assert counted.measure(candidate_of("tea"), VECTOR, NOW).topic_writes_count == before
    far = vector_of("the opposite")
    assert Topics(DIMENSION).cell(far) != Topics(DIMENSION).cell(VECTOR)
    assert counted.measure(candidate_of("x"), far, NOW).topic_writes_count == 0
    assert counted.measure(candidate_of("tea"), VECTOR, NOW + WINDOW_MS).topic_writes_count == 0


def test_a_cell_means_the_same_after_a_restart() -> None:
    assert Topics(DIMENSION).cell(VECTOR) == Topics(DIMENSION).cell(VECTOR)


def test_a_request_that_does_not_fit_is_stopped_and_counts_for_nothing() -> None:
    counted = budgets()
    for _ in range(3):
        counted.measure(candidate_of("tea"), b"", NOW)
    counted.keep_room(ME, 1, 4, NOW)  # control: to the limit it fits
    counted.give_back(ME, 1)
    with pytest.raises(RateLimited) as caught:
        counted.keep_room(ME, 2, 4, NOW)
    assert caught.value.retry_after_s == WINDOW_MS // 1_000
    counted.keep_room(ME, 1, 4, NOW)
    counted.give_back(ME, 1)
    counted.keep_room(ME, 4, 4, NOW + WINDOW_MS)


def test_requests_that_are_read_side_by_side_do_not_both_find_the_room_that_is_left() -> None:
    counted = budgets()
    counted.keep_room(ME, 3, 4, NOW)
    with pytest.raises(RateLimited):
        counted.keep_room(ME, 2, 4, NOW)
    for _ in range(3):
        counted.measure(candidate_of("tea"), b"", NOW)
    counted.keep_room(ME, 1, 4, NOW)  # what was kept is what was measured


def test_bytes_count_in_the_window() -> None:
    assert weight_of("tea", None) == 1
    assert weight_of("t" * (BYTES_PER_WRITE - 1), None) == 1  # control: it is no second write
    assert weight_of("t" * BYTES_PER_WRITE, None) == 2
    assert weight_of("\ufdfa" * BYTES_PER_WRITE, "{}") == 4
    assert weight_of("tea", ids_count=64) == 3
    counted = budgets()
    counted.measure(candidate_of("tea"), b"", NOW, 63)
    assert counted.measure(candidate_of("tea"), b"", NOW).writes_in_window_count == 63


def test_principals_that_are_not_seen_again_do_not_fill_the_memory() -> None:
    counted = budgets()
    counted.measure(candidate_of("tea"), b"", NOW)
    for number in range(PRINCIPALS_MAX):
        counted.keep_room(PrincipalId(f"p{number}"), 1, 10, NOW)
    assert counted.measure(candidate_of("tea"), b"", NOW).writes_in_window_count == 0
    assert counted.measure(candidate_of("tea"), b"", NOW).writes_in_window_count == 1


def test_asking_whether_there_is_room_takes_none() -> None:
    counted = budgets()
    for _ in range(10):
        counted.require_room(ME, 4, 4, NOW)
    counted.keep_room(ME, 4, 4, NOW)
    with pytest.raises(RateLimited):
        counted.require_room(ME, 1, 4, NOW)


def test_where_no_room_was_kept_none_is_given_back() -> None:
    counted = budgets()
    counted.give_back(ME, -4)
    counted.require_room(ME, 4, 4, NOW)
    counted.keep_room(ME, 4, 4, NOW)
    counted.give_back(ME, 4)
    counted.require_room(ME, 4, 4, NOW)  # control


def test_a_burst_is_sustained_where_ten_windows_in_a_row_were_full() -> None:
    counted = budgets()
    told = [counted.sustained(ME, NOW + number * WINDOW_MS) for number in range(11)]
    assert told == [False] * 9 + [True, True]
    assert not counted.sustained(ME, NOW + 10 * WINDOW_MS), "once for each window"
    assert not counted.sustained(ME, NOW + 12 * WINDOW_MS), "a window between was not full"


@pytest.mark.parametrize("count", [3, 4])
def test_a_window_is_full_at_its_limit(count: int) -> None:
    counted = budgets()
    for _ in range(count):
        counted.measure(candidate_of("tea"), b"", NOW)
    assert counted.is_full(ME, 4, NOW) is (count == 4)
    assert not counted.is_full(ME, 4, NOW + WINDOW_MS)
