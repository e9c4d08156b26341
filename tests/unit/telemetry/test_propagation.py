"""W3C Trace Context: what is accepted, what starts anew, and what is sent on."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry import propagation

if TYPE_CHECKING:
    from telemetry.events import TraceContext

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
WELL_FORMED = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-0[01]")


def source(seed: int = 7) -> propagation.RandomBytes:
    return Random(seed).randbytes  # noqa: S311 - a test wants the same ids each time


def accepted(traceparent: str, *tracestate: str) -> TraceContext:
    return propagation.accept((traceparent,), tracestate, source())


def test_a_valid_parent_is_adopted_under_a_span_of_our_own() -> None:
    context = accepted(PARENT)
    assert (context.trace_id, context.parent_span_id) == (TRACE, SPAN)
    assert context.span_id != SPAN
    assert context.sampled


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
def test_a_parent_that_breaks_a_rule_starts_a_new_trace(traceparent: str) -> None:
    context = accepted(traceparent, "vendor=1")
    assert context.trace_id != TRACE
    assert (context.parent_span_id, context.tracestate) == ("", "")
    assert context.sampled


def test_a_later_version_is_read_as_far_as_ours_goes() -> None:
    assert accepted(f"cc-{TRACE}-{SPAN}-01").trace_id == TRACE
    assert accepted(f"cc-{TRACE}-{SPAN}-01-what-comes-next").trace_id == TRACE


def test_two_parents_are_ambiguous_and_start_a_new_trace() -> None:
    assert propagation.accept((PARENT, PARENT), (), source()).trace_id != TRACE
    assert propagation.accept((), (), source()).trace_id != TRACE


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("", ""),
        ("a=1", "a=1"),
        ("a=1,b=2", "a=1,b=2"),
        (" a=1 ,\t, b=2", "a=1,b=2"),
        ("t61rcwkgmzer1@vendor=x y", "t61rcwkgmzer1@vendor=x y"),
        ("a=" + "v" * 256, "a=" + "v" * 256),
        ("a=1,a=2", ""),
        ("A=1", ""),
        ("1a=1", ""),
        ("a=", ""),
        ("a=b=c", ""),
        ("a=\x01", ""),
        ("a=é", ""),
        ("a=1,b", ""),
        ("a=" + "v" * 257, ""),
        ("a@=1", ""),
        ("a@" + "b" * 15 + "=1", ""),
        (",".join(f"k{i}=1" for i in range(33)), ""),
        (",".join(f"k{i}=1" for i in range(32)), ",".join(f"k{i}=1" for i in range(32))),
    ],
)
def test_tracestate_is_kept_whole_or_left_out(value: str, kept: str) -> None:
    assert propagation.parse_tracestate(value) == kept
    assert accepted(PARENT, value).tracestate == kept
    assert accepted(PARENT, value).trace_id == TRACE


def test_tracestate_is_bounded_and_loses_its_oldest_members() -> None:
    members = [f"key{i:02}=" + "v" * 60 for i in range(20)]
    kept = propagation.parse_tracestate(",".join(members))
    assert len(kept) <= propagation.TRACESTATE_LEN_MAX
    assert kept.split(",") == members[: len(kept.split(","))]


def test_several_tracestate_headers_are_one_list() -> None:
    assert accepted(PARENT, "a=1", "b=2").tracestate == "a=1,b=2"


def test_a_child_hangs_below_and_a_sibling_beside() -> None:
    context = accepted(PARENT, "a=1")
    below = propagation.child(context, source(1))
    beside = propagation.sibling(context, source(2))
    assert below.parent_span_id == context.span_id
    assert beside.parent_span_id == context.parent_span_id
    assert {below.trace_id, beside.trace_id} == {TRACE}
    assert len({context.span_id, below.span_id, beside.span_id}) == 3
    assert (below.tracestate, beside.tracestate) == ("a=1", "a=1")


def test_an_id_of_zeros_is_drawn_again() -> None:
    draws = iter([bytes(16), b"\x01" * 16, bytes(8), bytes(8), b"\x02" * 8])
    context = propagation.start(lambda _: next(draws))
    assert (context.trace_id, context.span_id) == ("01" * 16, "02" * 8)


def test_headers_name_us_as_the_parent() -> None:
    context = accepted(PARENT, "a=1")
    assert propagation.to_headers(context) == {
        "traceparent": f"00-{TRACE}-{context.span_id}-01",
        "tracestate": "a=1",
    }
    assert set(propagation.to_headers(propagation.start(source()))) == {"traceparent"}


def test_mcp_meta_is_read_and_rewritten_and_its_baggage_goes_no_further() -> None:
    meta = {"traceparent": PARENT, "tracestate": "a=1", "baggage": "role=operator", "keep": 3}
    context = propagation.accept_meta(meta, source())
    assert (context.trace_id, context.tracestate) == (TRACE, "a=1")
    assert propagation.to_meta(meta, context) == {
        "keep": 3,
        "traceparent": f"00-{TRACE}-{context.span_id}-01",
        "tracestate": "a=1",
    }


@pytest.mark.parametrize("value", [None, 3, [PARENT], {"traceparent": PARENT}, b"00"])
def test_mcp_meta_of_another_type_starts_a_new_trace(value: object) -> None:
    assert propagation.accept_meta({"traceparent": value}, source()).trace_id != TRACE


@given(st.lists(st.text(), max_size=3), st.lists(st.text(), max_size=3))
def test_whatever_arrives_what_we_send_is_well_formed(
    traceparents: list[str], tracestates: list[str]
) -> None:
    context = propagation.accept(traceparents, tracestates, source())
    assert WELL_FORMED.fullmatch(propagation.format_traceparent(context))
    assert len(context.tracestate) <= propagation.TRACESTATE_LEN_MAX


@given(st.from_regex(WELL_FORMED, fullmatch=True))
def test_every_well_formed_parent_is_adopted_as_it_is(traceparent: str) -> None:
    _, trace_id, span_id, flags = traceparent.split("-")
    context = accepted(traceparent)
    assert (context.trace_id, context.parent_span_id) == (trace_id, span_id)
    assert context.sampled is (flags == "01")


@given(st.text(alphabet="abz09_-*/@= ,\tA\x7f", max_size=600))
def test_a_kept_tracestate_reads_back_as_itself(value: str) -> None:
    kept = propagation.parse_tracestate(value)
    assert propagation.parse_tracestate(kept) == kept
