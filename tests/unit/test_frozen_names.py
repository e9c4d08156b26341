"""No name that a user types or parses goes or changes unnoticed; a new one is added to the list."""

from __future__ import annotations

import re

import pytest

from tests.frozen_names import LIST, ROOT, Names, gone, listed, main, names

COMMAND = "python -P -m tests.frozen_names"


@pytest.fixture(scope="module")
def now() -> Names:
    return names()


def test_the_list_has_exactly_the_names_of_the_code(now: Names) -> None:
    held = listed()
    assert gone(held, now) == [], "docs/compatibility.md says when a name may go"
    assert gone(now, held) == [], f"new names: run {COMMAND}"


@pytest.mark.parametrize(
    "name",
    [
        "commands: mnemogate review watch",
        "exit codes: 4 NOT_FOUND",
        "settings: MNEMOGATE_PAGE_URL",
        "settings: Model APIs: headers_file",
        "ruleset: reads.shown_of_ten",
        "reasons: class_floor",
        "headers, markers and files: mnemogate-key",
        "routes and members: POST /v1/memories",
        "routes and members: POST /api/v1/policy/reload",
        "metrics: mnemogate_verdicts_total counter",
        "spans: gen_ai.memory.record.id",
        "output of commands: BackupSummary.leaf_count",
        "records of exports: mnemogate.approved_by",
        "events and findings: DetectionFinding.finding_info",
        "events and findings: SentryEvent: origin",
    ],
)
def test_control_a_name_of_each_kind_that_is_renamed_is_gone_and_new(now: Names, name: str) -> None:
    kind, _, one = name.partition(": ")
    renamed = {**now, kind: [*(each for each in now[kind] if each != one), f"{one}_renamed"]}
    assert gone(listed(), renamed) == [name]
    assert gone(renamed, listed()) == [f"{name}_renamed"]


# Structs of the commands that neither come from a command line nor are printed.
INSIDE = {"_ProblemDetails", "Command", "Option", "VerdictLine", "_Tables"}


def test_each_struct_of_a_command_is_an_argument_or_its_members_are_in_the_list(now: Names) -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "proxy" / "cli").glob("*.py")]
    structs = {
        one for text in texts for one in re.findall(r"(?m)^class (\w+)\(msgspec.Struct", text)
    }
    taken = {one for text in texts for one in re.findall(r"\b(?:arguments|takes=)\(?(\w+)", text)}
    printed = {one.partition(".")[0] for one in now["output of commands"]}
    assert structs - taken - printed == INSIDE, "add it to PRINTED in tests/frozen_names.py"
    assert "_Ready" in structs & printed, "control"


def test_a_name_that_is_gone_is_not_dropped_from_the_list_by_the_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = LIST.read_bytes()
    monkeypatch.setattr("tests.frozen_names.names", lambda: {**listed(), "reasons": []})
    monkeypatch.setattr("sys.argv", ["frozen_names"])
    assert main() == 1
    assert "gone: reasons: class_floor\n" in capsys.readouterr().err
    assert LIST.read_bytes() == before
