"""What a session read of files of memory is told apart from the rest, and from logs without it."""

from __future__ import annotations

import msgspec

from policy.model import SourceKind
from proxy.ledger.records import Began, CallRow, KeptSession, Row
from proxy.ledger.snapshot import restored_session
from proxy.ledger.state import FILES_MAX, SessionState, ShownSegment

MODEL, TOOL, UNKNOWN = SourceKind.MODEL_INFERENCE, SourceKind.TOOL_RESULT, SourceKind.UNKNOWN


def _kept(*brought: tuple[int, SourceKind]) -> list[object]:
    kept = KeptSession(
        Began("ada", "s", 1), 1, TOOL, (), (), 1, 1, b"", (), (), (), (), (), brought
    )
    found: list[object] = msgspec.msgpack.decode(msgspec.msgpack.encode(kept))
    return found


def _restored(raw: list[object]) -> SessionState:
    return restored_session(msgspec.msgpack.decode(msgspec.msgpack.encode(raw), type=KeptSession))


def test_a_file_lowers_all_but_itself() -> None:
    session = SessionState("ada", Began("ada", "s", 1))
    assert session.taint_but(7) is UNKNOWN, "a session that nothing entered is one that nobody saw"
    for file, label in ((0, SourceKind.USER_INPUT), (7, TOOL)):
        row = Row("tool", label, 1, file=file)
        session.lower(label, ShownSegment(1, 1, row))
        session.bring(file, label)
    assert session.taint is TOOL
    assert session.taint_but(7) is MODEL
    assert session.taint_but(8) is TOOL
    session.bring(0, UNKNOWN)
    assert session.taint_but(7) is UNKNOWN


def test_more_files_than_are_told_apart_count_as_the_rest() -> None:
    session = SessionState("ada", Began("ada", "s", 1))
    session.taint = TOOL
    for file in range(1, FILES_MAX + 2):
        session.bring(file, TOOL)
    assert len(session.brought) <= FILES_MAX + 1
    session.bring(FILES_MAX + 2, TOOL)
    assert session.taint_but(1) is TOOL


def test_a_log_from_before_is_read_and_all_that_it_has_counts_as_the_rest() -> None:
    now = _kept((0, MODEL), (7, TOOL))
    assert _restored(now).taint_but(7) is MODEL, "control: of a log that tells them apart"
    assert _restored(now[:-1]).taint_but(7) is TOOL
    row = CallRow(1, "c", "Read", "", 2, b"", b"", 7)
    raw: list[object] = msgspec.msgpack.decode(msgspec.msgpack.encode(row))
    old = msgspec.msgpack.decode(msgspec.msgpack.encode(raw[:-2]), type=CallRow)
    assert (old.tool, old.file, old.spelled) == ("Read", 0, b"")
