"""What a terminal is sent: no control character of a stored text, and progress in one line."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import Terminal, block, inert, iso, width_of, working

HOSTILE = {
    "escape sequence": "\x1b[2J\x1b[1;31mAPPROVED\x1b[0m",
    "title": "\x1b]0;owned\x07",
    "8-bit control": "\x9b31m",
    "carriage return": "benign\rMALICIOUS",
    "backspace": "benign\b\b\b\b\b\bevil",
    "newline": "one\ntwo",
    "bidi override": "user\u202etxt.exe",
    "bidi isolate": "a\u2066b\u2069c",
    "zero width": "pass\u200bword",
    "tag characters": "hi\U000e0041\U000e0042",
    "lone surrogate": "x\ud800y",
    "line separator": "a\u2028b\u2029c",
    "soft hyphen": "a\u00adb",
    "byte order mark": "\ufeffa",
    "delete": "a\x7fb",
    "variation selectors": "b\ufe0fri\U000e0101ef",
    "fillers": "a\u034fb\u3164c\u2800d",
}


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def _acts(text: str) -> list[str]:
    dangerous = {0x7F, 0xAD, 0x200B, 0x202E, 0x2066, 0x2069, 0x2028, 0x2029, 0xFEFF}
    dangerous |= {0x034F, 0x3164, 0x2800}
    return [
        c
        for c in text
        if ord(c) < 0x20
        or 0x80 <= ord(c) < 0xA0
        or ord(c) in dangerous
        or 0xD800 <= ord(c) < 0xE000
        or 0xFE00 <= ord(c) < 0xFE10
        or 0xE0000 <= ord(c) < 0xE01F0
    ]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_nothing_a_terminal_acts_on_survives(text: str) -> None:
    assert _acts(text), "control: the raw text does hold something that acts"

    assert _acts(inert(text)) == []


def test_escapes_cannot_be_imitated_by_text() -> None:
    assert inert("\x1b") == "\\x1b"
    assert inert("\\x1b") == "\\\\x1b"


def test_honest_text_in_any_language_is_shown_as_it_is() -> None:
    for text in ("Grüße, naïve café", "日本語のメモ", "дом", "🙂 ok", "שלום", "e\u0301"):
        assert inert(text) == text


def test_a_stack_of_marks_is_cut() -> None:
    assert inert("a" + "\u0301" * 5) == "a\u0301\u0301" + "\\u0301" * 3


def test_lines_of_a_block_stay_behind_their_margin() -> None:
    shown = block("first\n\x1b[Asecond\r\nthird")

    assert shown.split("\n") == ["  | first", "  | \\x1b[Asecond\\r", "  | third"]


def test_an_emoji_of_several_parts_stays_readable() -> None:
    assert inert("❤\ufe0f 👩\u200d👧 🇩🇪") == "❤\\ufe0f 👩\\u200d👧 🇩🇪"


@pytest.mark.parametrize("letter", ["a", "\\", "日", "é", "\ufe0f", "a\u0301"], ids=ascii)
def test_no_row_of_a_block_begins_without_its_margin(letter: str) -> None:
    text = letter * 100 + " " * 60 + "type yes"

    rows = block(text, 40).split("\n")

    assert "".join(row.removeprefix("  | ") for row in rows) == inert(text)
    assert all(row.startswith("  | ") and width_of(row) <= 40 for row in rows)
    assert len(rows) > len(block(text).split("\n")) > 1, "80 where no width is known"
    # Control: what fits stays one row.
    assert block("a" * 36, 40) == "  | " + "a" * 36


def test_a_long_value_goes_on_under_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    def columns(_stream: object) -> int:
        return 40

    monkeypatch.setattr("proxy.cli.terminal._columns", columns)
    out = _Tty()
    terminal = Terminal(out, io.StringIO(), as_json=False)
    link = "https://" + "a" * 60

    terminal.pairs([("key", "b" + " " * 33 + "type yes"), ("page", link)])

    rows = out.getvalue().splitlines()
    assert rows == ["key   b", "      type yes", f"page  {link}"]
    terminal.pairs([("held", "two wait for a person: mnemogate review list")])
    assert out.getvalue().splitlines()[3:] == [
        "held  two wait for a person: mnemogate",
        "      review list",
    ]
    # Control: a word that is longer than a row is cut.
    terminal.pairs([("a", f"{'b' * 50} c")])
    assert out.getvalue().splitlines()[5:] == [f"a  {'b' * 37}", f"   {'b' * 13} c"]


@pytest.mark.parametrize(("columns", "row"), [(None, "a\\b"), (80, "  | a\\\\b")])
def test_a_copy_is_the_text_itself_except_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: int | None, row: str
) -> None:
    def width(_stream: object) -> int | None:
        return columns

    monkeypatch.setattr("proxy.cli.terminal._columns", width)
    out = io.StringIO()
    Terminal(out, io.StringIO(), as_json=False).copy("a\\b")
    assert out.getvalue() == f"{row}\n"


def tabled(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """The lines of a table where no terminal reads."""
    out = io.StringIO()
    Terminal(out, io.StringIO(), as_json=False).table(heads, rows)
    return out.getvalue().splitlines()


def test_a_table_row_cannot_be_forged_by_a_cell() -> None:
    lines = tabled(("id", "text"), [("1", "x\n2  approved"), ("3", "\x1b[1A")])
    assert len(lines) == 3
    assert "\x1b" not in "".join(lines)


def test_a_table_without_rows_says_so_where_heads_alone_would_look_cut_off() -> None:
    out = io.StringIO()
    terminal = Terminal(out, io.StringIO(), as_json=False)

    terminal.table(("id", "text"), [])
    terminal.table(("id", "text"), [], nothing="no anchor")
    # Control: one row, and the heads are there.
    terminal.table(("id", "text"), [("1", "a")], nothing="no anchor")

    assert out.getvalue().splitlines() == ["nothing to list", "no anchor", "id  text", "1   a"]


def test_columns_line_up_with_wide_letters() -> None:
    lines = tabled(("text", "end"), [("日本", "|"), ("abcd", "|")])
    assert [width_of(line) for line in lines[1:]] == [7, 7]


def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def columns(_stream: object) -> int:
        return 60

    monkeypatch.setattr("proxy.cli.terminal._columns", columns)
    out = _Tty()
    terminal = Terminal(out, io.StringIO(), as_json=False)

    terminal.table(("id", "text", "when"), [("a" * 36, "b" * 300, "2026-01-01T00:00:00Z")])

    assert max(width_of(line) for line in out.getvalue().splitlines()) <= 60
    assert "…" in out.getvalue()


def test_nothing_is_cut_where_no_terminal_reads() -> None:
    lines = tabled(("text",), [("b" * 300,)])
    assert "b" * 300 in lines


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_json_is_inert_and_says_the_same(text: str) -> None:
    out = io.StringIO()
    Terminal(out, io.StringIO(), as_json=True).data({"text": text})

    assert _acts(out.getvalue().removesuffix("\n")) == []
    decoded: dict[str, Any] = json.loads(out.getvalue())
    assert decoded == {"text": text}


def test_json_mode_has_nothing_but_json_on_stdout() -> None:
    out, err = io.StringIO(), io.StringIO()
    terminal = Terminal(out, err, as_json=True)

    terminal.say("for people")
    terminal.table(("a",), [("b",)])
    terminal.pairs([("a", "b")])
    terminal.note("a warning")

    assert out.getvalue() == ""
    assert err.getvalue() == "a warning\n"


def test_a_letter_the_terminal_cannot_show_is_escaped_and_no_traceback() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    Terminal(out, io.StringIO(), as_json=False).say("é")

    assert raw.getvalue() == b"\\xe9\n"


def test_progress_is_silent_unless_a_terminal_or_a_flag_asks_for_it() -> None:
    quiet, asked, seen = io.StringIO(), io.StringIO(), _Tty()
    for err, flag in ((quiet, False), (asked, True), (seen, False)):
        terminal = Terminal(io.StringIO(), err, as_json=False, progress=flag)
        advance = terminal.progress("verifying")
        advance(10, 10)

    assert quiet.getvalue() == ""
    assert asked.getvalue() == "verifying: 10/10 (100%)\n"
    assert seen.getvalue() == "\rverifying: 10/10 (100%)\n"


def test_times_are_iso() -> None:
    assert iso(0) == "1970-01-01T00:00:00Z"
    assert iso(None) == "-"


class BrokeError(Exception):
    """Anything that work may raise."""


@pytest.mark.parametrize(
    "error", [CommandFailed(Exit.NOT_FOUND, "no such memory"), BrokeError("so")]
)
@pytest.mark.parametrize("progress", [False, True])
async def test_a_failure_inside_comes_out_as_itself(progress: bool, error: Exception) -> None:  # noqa: FBT001
    terminal = Terminal(io.StringIO(), io.StringIO(), as_json=False, progress=progress)

    with pytest.raises(type(error)) as found:
        async with working(terminal, "purging"):
            raise error
    assert found.value is error
