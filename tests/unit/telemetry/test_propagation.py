"""W3C Trace Context: ids of our own, the caller's as a hash, and what counts as nothing."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.events import TraceContext
from telemetry.propagation import Traces, format_traceparent, recorded_id, recorded_parts

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
WELL_FORMED = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-0[01]")
KEY = bytes(range(32))


def traces(seed: int = 7, key: bytes = KEY) -> Traces:
    draws = Random(seed)  # noqa: S311 - a test wants the same ids each time
    return Traces(key, lambda count: draws.randbytes(count).hex())


def accepted(*traceparents: str) -> TraceContext:
    return traces().accept(traceparents)


def test_nothing_of_a_callers_ids_is_taken_over() -> None:
    context = accepted(PARENT)
    said = f"{context}{format_traceparent(context)}{recorded_id(context)}"
    assert TRACE not in said
    assert SPAN not in said
    assert context.parent_span_id == ""
    assert context.sampled
    # The control: it was read.
    assert re.fullmatch("[0-9a-f]{16}", context.caller)


def test_one_trace_of_a_caller_has_one_hash_and_another_key_another() -> None:
    first, second = traces(1).accept([PARENT]), traces(2).accept([f"00-{TRACE}-{'1' * 16}-00"])
    assert first.trace_id != second.trace_id
    assert first.caller == second.caller
    assert traces(key=bytes(32)).accept([PARENT]).caller != first.caller
    assert accepted(f"00-{SPAN}{SPAN}-{SPAN}-01").caller != first.caller


def test_a_trace_of_ours_goes_on_below_the_span_that_it_came_from() -> None:
    mine = traces(1)
    context = mine.start()
    below = traces(2).accept([format_traceparent(context)])
    assert (below.trace_id, below.parent_span_id) == (context.trace_id, context.span_id)
    assert (below.caller, context.caller) == ("", "")
    # With another key it is anybody's.
    assert traces(2, bytes(32)).accept([format_traceparent(context)]).caller


@pytest.mark.parametrize("place", range(32))
def test_an_id_that_differs_in_one_digit_from_ours_is_not_ours(place: int) -> None:
    ours = traces().start().trace_id
    other = "0" if ours[place] != "0" else "1"
    forged = ours[:place] + other + ours[place + 1 :]
    assert traces(3).accept([f"00-{forged}-{SPAN}-01"]).trace_id != forged


@pytest.mark.parametrize(
    ("flags", "sampled"), [("00", False), ("01", True), ("03", True), ("fe", False), ("ff", True)]
)
def test_only_the_sampled_bit_of_the_flags_is_read(flags: str, sampled: bool) -> None:  # noqa: FBT001
    assert accepted(f"00-{TRACE}-{SPAN}-{flags}").sampled is sampled


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "00",
        PARENT.upper(),
        PARENT + "-",
        PARENT + "-00",
        PARENT + "\n",
        " " + PARENT,
        f"ff-{TRACE}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}g-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-0x",
        f"00_{TRACE}_{SPAN}_01",
        f"00-{TRACE[:-1]}\u0661-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"cc-{TRACE}-{SPAN}-01-" + "x" * 1_000,
        f"{PARENT},{PARENT}",
    ],
)
def test_a_parent_that_breaks_a_rule_counts_as_none(traceparent: str) -> None:
    context = accepted(traceparent)
    assert (context.parent_span_id, context.caller) == ("", "")
    assert context.sampled


def test_a_later_version_is_read_as_far_as_ours_goes() -> None:
    assert accepted(f"cc-{TRACE}-{SPAN}-01").caller == accepted(PARENT).caller
    assert accepted(f"cc-{TRACE}-{SPAN}-01-what-comes-next").caller == accepted(PARENT).caller


def test_two_parents_are_ambiguous_and_count_as_none() -> None:
    assert accepted(PARENT, PARENT).caller == ""
    assert accepted().caller == ""


def test_an_id_of_zeros_is_drawn_again() -> None:
    draws = iter(["0" * 32, "03" * 8 + "01" * 8, "0" * 16, "0" * 16, "02" * 8])
    context = Traces(KEY, lambda _: next(draws)).start()
    assert (context.trace_id[:16], context.span_id) == ("01" * 8, "02" * 8)


def test_what_the_log_keeps_tells_both() -> None:
    for context in (accepted(PARENT), accepted()):
        assert recorded_parts(recorded_id(context)) == (context.trace_id, context.caller)
        assert len(recorded_id(context)) <= 64


@given(st.lists(st.text() | st.from_regex(WELL_FORMED, fullmatch=True), max_size=3))
def test_whatever_arrives_what_we_send_is_well_formed_and_ours(parents: list[str]) -> None:
    context = traces().accept(parents)
    assert WELL_FORMED.fullmatch(format_traceparent(context))
    assert context.trace_id == traces().start().trace_id
