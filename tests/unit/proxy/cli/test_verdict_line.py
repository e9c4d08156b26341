"""One line a verdict for a person: the reader's words, no content, and names that do nothing."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import io
import logging
import time
from pathlib import Path

import msgspec
import pytest

from policy.verdict import Reason
from proxy.cli import run
from proxy.cli.verdict_line import PersonLines, VerdictLine
from proxy.seams.observations import WHY
from proxy.settings.load import load_settings
from telemetry import logs
from tests.unit.telemetry import sample

HOSTILE = (
    "\x1b[2J\x1b]0;title\x07",
    "a\n12:00:00 stored   L1 from operator",
    "\r12:00:00 stored",
    "\u202etxet\u2066",
    "e" + "\u0301" * 50,
    "\U000e0041\u200b",
    "\x9b31m",
)
LINES = PersonLines()


def held(**fields: str) -> VerdictLine:
    line = VerdictLine(
        at="12:04:31",
        decision="hold",
        reason="class_floor",
        memory_class="L3",
        change="",
        principal="scout",
        tool="web_fetch",
        resource="shop.example",
        candidate_id="3f2a91c0" * 4,
    )
    return msgspec.structs.replace(line, **fields)


def test_a_held_text_is_one_line_in_the_readers_words() -> None:
    said = '12:04:31 held     L3 from web_fetch shop.example · "reads as an order" · review show '
    assert str(held()) == f"{said}3f2a91c0"
    own = held(tool="", resource="", decision="admit", reason="", change="delete")
    assert str(own) == "12:04:31 stored   L3 delete from scout"


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("field", ["tool", "resource", "principal"])
def test_a_hostile_name_is_escaped_visibly_in_one_line(field: str, name: str) -> None:
    fields = {"tool": "", "resource": "", "principal": "", field: name}
    said = str(held(**fields))
    assert said.isprintable()
    assert "\\" in said
    # Control: the name as it is would act on a terminal, or add marks to the rows around it.
    assert not name.isprintable() or name.count("\u0301") > 2


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason_is_in_words_and_no_code_is_printed(reason: Reason) -> None:
    event = msgspec.structs.replace(sample.REJECT, reason=reason.value)
    assert f'"{WHY[reason]}" · trace abababab' in LINES.of_event(event)
    assert reason.value not in LINES.of_event(event)


def test_observe_mode_and_a_failure_are_named() -> None:
    observed = msgspec.structs.replace(sample.ADMIT, observed="hold", reason="class_floor")
    assert "stored   L3 from agent-1 · would wait" in LINES.of_event(observed)
    assert LINES.of_event(sample.ERROR).endswith("StoreUnavailable")
    assert "failed" in LINES.of_event(sample.ERROR)


@pytest.mark.parametrize(
    "field",
    ["decision", "reason", "memory_class", "operation", "candidate_id", "observed", "error_type"],
)
def test_a_field_that_is_no_name_has_no_other_text_than_its_vocabulary(field: str) -> None:
    text = "the office opens at nine"
    assert text not in LINES.of_event(msgspec.structs.replace(sample.REJECT, **{field: text}))
    # Control: a name is printed.
    named = msgspec.structs.replace(sample.REJECT, principal="ada")
    assert "from ada" in LINES.of_event(named)


def test_what_was_refused_before_the_gate_is_a_line_that_leads_nowhere() -> None:
    reason = Reason.CHARACTER_REFUSED
    event = msgspec.structs.replace(sample.REJECT, candidate_id="", reason=reason.value)
    assert LINES.of_event(event).endswith(f'"{WHY[reason]}"')
    fields = {"memory_class": "", "culprit_tool": "forget", "culprit_server": "notes"}
    event = msgspec.structs.replace(event, **fields, reason=Reason.UNKNOWN_TOOL.value)
    said = f'refused  from forget notes · "{WHY[Reason.UNKNOWN_TOOL]}"'
    assert LINES.of_event(event).endswith(said)


def test_what_serves_is_no_line_and_what_fails_is_one() -> None:
    assert (LINES.of_event(sample.REQUEST), LINES.of_event(sample.READ)) == ("", "")
    failed = msgspec.structs.replace(sample.REQUEST, status=503, error_type="StoreUnavailable")
    assert LINES.of_event(failed).endswith("503 StoreUnavailable")


def test_records_and_events_are_written_in_the_wording() -> None:
    root = logging.getLogger()
    before, level, disabled = root.handlers[:], root.level, root.manager.disable
    stream = io.StringIO()
    try:
        logging.disable(logging.NOTSET)
        logs.configure(stream, "info", wording=LINES)
        log = logs.EventLog(access_log=True)
        for event in (sample.HOLD, sample.REQUEST, sample.ADMIT):
            log.offer(event)
        logging.getLogger("mnemogate.run").warning(
            "an upstream does not serve", extra={"fields": {"table": "a\x1b[2J", "tries": 2}}
        )
        log.close()
        root.handlers[0].flush()
    finally:
        root.handlers[0].close()
        root.handlers[:] = before
        root.setLevel(level)
        logging.disable(disabled)
    one, two, three = stream.getvalue().splitlines()
    at = time.strftime("%H:%M:%S", time.localtime(sample.STARTED_NS / 1e9))
    assert one.startswith(f"{at} held     L1 from agent-1")
    assert two == f"{at} stored   L3 from agent-1"
    assert three.endswith("warning  an upstream does not serve · table a\\\\u001b[2J, tries 2")


@pytest.mark.parametrize(
    ("log", "is_terminal", "text"),
    [
        ("auto", True, True),
        ("auto", False, False),
        ("text", False, True),
        ("json", True, False),
    ],
)
def test_lines_are_for_a_person_where_one_reads_them(
    tmp_path: Path, log: str, *, is_terminal: bool, text: bool
) -> None:
    settings = load_settings({"log": log}, environment={"HOME": str(tmp_path)})
    assert (run._wording(settings, is_terminal=is_terminal) is not None) is text
