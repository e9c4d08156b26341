"""`make evaluate`: its tables come out, and what it composes is not installed with the program."""

from __future__ import annotations

import ast
import functools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.cli.exits import Exit
from tests.evaluate.__main__ import main
from tests.evaluate.blame import blame
from tests.evaluate.book import Book
from tests.evaluate.core import core
from tests.evaluate.everyday import everyday
from tests.evaluate.figures import Figure, share
from tests.evaluate.forged import corpora
from tests.evaluate.heal import heal
from tests.evaluate.honest import honest
from tests.evaluate.isolating import isolate
from tests.evaluate.labels import labels
from tests.evaluate.meanings import MEANINGS
from tests.evaluate.month import NOTES_A_DAY, month
from tests.evaluate.sections import EXPERIMENTS, LONG, SECTIONS, evaluate
from tests.evaluate.sleepers import trust
from tests.evaluate.suite.ours import OurAdapter
from tests.evaluate.suite.protocol import Adapter, Reply, Request
from tests.evaluate.suite.scenario import Scenario, play, scenarios
from tests.evaluate.suite.trying import try_mutants
from tests.evaluate.systems import BY_NAME
from tests.evaluate.trials import parole

FULL = Path("/dev/full")


def silent(_label: str) -> Callable[[int, int], None]:
    return lambda _done, _total: None


def book(trials: int = 1) -> Book:
    return Book(trials=trials, seed=1, progress=silent)


async def test_tables_2_and_3_come_out_as_the_paper_has_them() -> None:
    found = book()
    await core(found)
    assert found.broken == ()
    cells, late = found.tables.table2, found.tables.table3
    assert cells is not None
    assert late is not None
    assert {name: row["all"].value for name, row in cells.items()} == {
        "B0": 0.0,
        "B1": 0.0,
        "LG": 0.0,
        "S3": 100.0,
        "S4": 100.0,
    }
    assert late["ever_materialized"].value == 100.0
    assert late["absent_from_probe"].value == 0.0


async def test_what_a_person_says_is_hers_and_what_she_pastes_is_not() -> None:
    found = book()
    await labels(found)
    assert found.broken == ()
    assert found.tables.labels is not None
    assert {name: figure.value for name, figure in found.tables.labels.items()} == {
        "verbatim_landed": 100.0,
        "rewritten_landed": 100.0,
        "above_floor": 0.0,
        "pasted_orders_at_L2": 0.0,
        "two_sessions_admitted": 0.0,
    }


@pytest.mark.heavy
@pytest.mark.timeout(300)
async def test_an_agent_that_edits_files_for_200_turns_beside_20_refused_notes_ends_its_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Four conversations of the twenty, after refused notes and after attacks, through both APIs, in
    # pieces and whole: no call but a memory's may be another one than was made.
    monkeypatch.setattr("tests.evaluate.honest._DAYS", ((20, 0), (0, 20)))
    shapes = (("anthropic", True), ("openai", False))
    monkeypatch.setattr("tests.evaluate.honest._SHAPES", shapes)
    found = book()
    await honest(found)
    assert found.broken == ()
    cells = found.tables.honest
    assert cells is not None
    assert {name: one.value for name, one in cells.items()} == {
        "her_turns_altered": 0.0,
        "other_calls_refused": 0.0,
        "results_altered_per_1000": 0.0,
        "guard_lines_lost": 0.0,
    }
    assert cells["other_calls_refused"].n > 4 * 130


async def test_who_caused_a_wrong_answer_is_found_where_the_usual_way_is_blind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.evaluate.blame.RUNS", 40)
    monkeypatch.delenv("MNEMOGATE_CORPORA", raising=False)
    found = book()
    await blame(found)
    assert found.broken == ()
    cells = found.tables.blame
    assert cells is not None
    assert cells["redundant_exact"].value == 100.0
    assert cells["innocents"].value == 0.0
    assert (cells["redundant_exact_leave_one_out"].value or 0.0) < 50.0
    assert cells["real_groups_exact"].skipped
    # Three groups at three lengths of answers, through the running sidecar.
    assert (cells["shipped_groups_exact"].value, cells["shipped_groups_exact"].n) == (100.0, 9)
    assert cells["shipped_groups_leave_one_out"].value == 0.0
    assert cells["shipped_copies_convicted"].value == 86.667
    assert cells["shipped_copies_named"].value == 100.0, "the others are of the same tool"
    assert cells["shipped_notes_convicted"].value == 0.0
    assert cells.keys() <= MEANINGS.keys()


async def test_a_sleeper_is_latched_by_the_sixth_and_honest_agents_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.evaluate.sleepers.AGENTS", 20)
    monkeypatch.setattr("tests.evaluate.sleepers.OUTCOMES", 500)
    found = book()
    await trust(found)
    assert found.broken == ()
    cells = found.tables.trust
    assert cells is not None
    assert cells["latched_after_500"].value == 6
    assert (cells["still_latched_29_good_later"].value, cells["on_off"].value) == (100.0, 9)
    assert cells["honest_2_percent_latched"].value == 0.0
    assert cells["score_below_0.3_after_500"].value == 8
    assert cells["score_below_0.3_after_500_without_forgetting"].value == 1_169


async def test_a_leaked_key_is_isolated_in_one_act_and_given_back_exactly() -> None:
    found = book(trials=5)
    await isolate(found)
    assert found.broken == ()
    cells = dict(found.tables.isolate or {})
    assert cells.pop("acts").value == 1
    assert {(one.value, one.low is not None) for one in cells.values()} == {(100.0, True)}
    assert cells["hidden"].n == found.trials
    assert cells["others_shown"].n == 2 * found.trials


async def test_a_trial_gives_back_what_was_true_once_and_no_lie() -> None:
    found = book(trials=2)
    await parole(found)
    assert found.broken == ()
    cells = found.tables.parole
    assert cells is not None
    assert cells.keys() <= MEANINGS.keys()
    assert (cells["rot_back"].value, cells["poison_back"].value) == (100.0, 0.0)


async def test_a_lie_against_a_registered_truth_reaches_nobody_as_it_does_the_usual_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.evaluate.heal.SIZES", (20,))
    # On a loaded machine an incident may take longer than a reply waits.
    monkeypatch.setattr("proxy.aftermath.reply_checks.HEALED_S", 600.0)
    found = book()
    await heal(found)
    assert found.broken == ()
    cells = found.tables.heal
    assert cells is not None
    assert cells.keys() <= MEANINGS.keys()
    value = {name: one.value for name, one in cells.items()}
    assert (value["leaked_after_recall"], value["healed_next"]) == (0.0, 100.0)
    assert (value["leaked_heal_off"], value["healed_next_off"]) == (100.0, 0.0)
    assert (value["healed_answer"], value["healed_answer_off"]) == (100.0, 0.0)
    # The usual way hides copies one wrong answer later, and never what was derived from a lie.
    assert value["wrong_answers_redundant_ddmin"] == 2.0
    assert (value["healed_redundant_ddmin"], value["healed_cascade_ddmin"]) == (100.0, 0.0)


@pytest.mark.corpora
@pytest.mark.heavy
async def test_real_groups_of_lies_are_found_in_a_real_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.evaluate.blame.RUNS", 20)
    monkeypatch.setattr("tests.evaluate.blame_groups.GROUPS", 12)
    monkeypatch.setattr("tests.evaluate.blame_anchors.ANCHORS", 10)
    monkeypatch.setattr("tests.evaluate.blame_groups.TEXTS", 100)
    found = book()
    await blame(found)
    assert found.broken == ()
    cells = found.tables.blame
    assert cells is not None
    assert (cells["real_groups_exact"].value, cells["real_groups_exact"].n) == (100.0, 36)
    assert cells["real_notes_convicted"].value == 0.0
    assert cells["beside_anchors_convicted"].value == 0.0
    assert cells["beside_anchors_convicted"].n > 90, "nearly every text was in some answer"
    assert (cells["anchors_lies_convicted"].value or 0.0) > 50.0
    # Where the cap on one origin leaves a single lie among what is shown, leaving it out repairs.
    assert (cells["real_groups_leave_one_out"].value or 0.0) < 10.0


async def test_notes_of_a_few_days_land_but_for_those_in_a_place_of_instructions() -> None:
    found = book()
    await month(found, days := 6)
    assert found.broken == ()
    labels_found = found.tables.labels
    assert labels_found is not None
    assert {figure.value for figure in labels_found.values()} == {0.0}
    counts = {name: figure.n for name, figure in labels_found.items()}
    assert counts.pop("instruction_places_landed") == round(days * NOTES_A_DAY)
    assert set(counts.values()) == {days}


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_it_works_where_its_own_files_lie_below_the_working_directory() -> None:
    # The path of a socket is short: a test's own directory has no room for one.
    with tempfile.TemporaryDirectory(prefix="e-") as here:
        done = subprocess.run(
            (
                sys.executable,
                "-P",
                "-m",
                "tests.evaluate",
                "--only",
                "everyday",
                "--json",
                "o.json",
            ),
            capture_output=True,
            text=True,
            check=False,
            cwd=here,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": here},
        )
        # No control belongs to it, so by itself it is no verdict.
        assert "6 of 6" in done.stdout, done.stdout + done.stderr
        found = json.loads((Path(here) / "o.json").read_bytes())
    assert found["fpr"]["S4"]["value"] == 0.0


@pytest.mark.parametrize(
    ("file_bytes_max", "code", "says"),
    [(4_096, 3, "a store of the evaluation does not answer"), (70_000, 1, "was answered 503")],
)
def test_a_disk_that_takes_no_more_is_said_in_one_line(
    file_bytes_max: int, code: int, says: str
) -> None:
    with tempfile.TemporaryDirectory(prefix="e-") as here:
        done = subprocess.run(
            (
                *("prlimit", f"--fsize={file_bytes_max}"),
                *(sys.executable, "-B", "-P", "-m", "tests.evaluate", "--only", "everyday"),
            ),
            capture_output=True,
            text=True,
            check=False,
            cwd=here,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": here},
        )
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.usefixtures("no_settings")
def test_figures_that_cannot_be_written_are_shown_and_the_failure_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir("/")
    code = main(["--only", "roc", "--trials", "1", "--json", str(FULL)])
    heard = capsys.readouterr()

    assert code == Exit.UNREACHABLE
    assert heard.err.startswith("evaluate: cannot write /dev/full: No space left on device")
    assert len(heard.err.splitlines()) == 1
    assert heard.out


@pytest.mark.heavy
async def test_false_positives_trust_and_the_ancillary_mechanisms() -> None:
    found = book()
    await everyday(found)
    assert found.broken == ()
    # Of what stands in the paper: one honest text trips the filter, and none of the gate's steps.
    tables = found.tables
    assert tables.fpr is not None
    assert tables.semantic_limit is not None
    assert tables.table6 is not None
    assert {name: one.value for name, one in tables.fpr.items()} == {
        "B0": 0.0,
        "B1": 5.0,
        "LG": 0.0,
        "S3": 0.0,
        "S4": 0.0,
    }
    assert tables.semantic_limit.value == 100.0
    levels = [row.level for row in tables.table6.timeline]
    assert levels == ["trusted", "degraded", "degraded", "untrusted", "untrusted"]


async def test_corpora_that_nobody_named_are_skipped_and_said_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MNEMOGATE_CORPORA", raising=False)
    found = book()
    await corpora(found)
    beyond = found.tables.beyond
    assert beyond is not None
    figure = beyond.corpora_fpr
    assert isinstance(figure, Figure)
    assert (figure.value, figure.n) == (None, 0)
    assert figure.skipped


def test_an_evaluation_without_a_promise_or_a_control_is_not_sound() -> None:
    found = book()
    sound = [found.sound]
    found.promise("holds", share(3, 3), 100.0)
    sound.append(found.sound)
    found.control("fires", fired=True)
    sound.append(found.sound)
    found.promise("does not", share(2, 3), 100.0)
    sound.append(found.sound)
    assert sound == [False, False, True, False]


def test_the_program_names_the_command_that_a_clone_has(tmp_path: Path) -> None:
    done = subprocess.run(
        (sys.executable, "-P", "-m", "proxy", "evaluate"),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.endswith("from a clone of its source: make evaluate ARGS=--help")
    makefile = (Path(__file__).parents[2] / "Makefile").read_text("utf-8")
    assert "-P -m tests.evaluate $(ARGS)" in makefile
    assert not list(tmp_path.iterdir())


LOADED = (
    "import sys; from proxy.cli.parser import build_parser; "
    "build_parser(); import proxy.cli.run, proxy.compose.app, proxy.cli.mcp; "
    "sys.stdout.write(' '.join(m for m in sys.modules if m.partition('.')[0] == 'tests'))"
)


def test_a_sidecar_never_loads_a_gate_that_is_wrong_on_purpose() -> None:
    done = subprocess.run(
        (sys.executable, "-P", "-c", LOADED), capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    assert "tests.evaluate.unsafe" in sys.modules, "control: this process did load it"


# The longest sections have tests of this file, which run them with and without the corpora and look
# at their figures; the command is tried with all others. Each takes a minute or more at full size.
OF_THEIR_OWN = {"blame": blame, "honest": honest}


async def test_the_command_runs_what_is_named_and_without_names_all_but_the_long_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[str] = []

    async def note(name: str, _book: Book) -> None:
        ran.append(name)

    for name in EXPERIMENTS:
        monkeypatch.setitem(EXPERIMENTS, name, functools.partial(note, name))
    await evaluate(book())
    assert ran == list(SECTIONS)
    ran.clear()
    await evaluate(book(), ("roc", LONG[0], "core"))
    assert ran == ["core", "roc", LONG[0]]


def test_a_section_that_the_command_is_not_tried_with_has_a_test_of_its_own_here() -> None:
    code = ast.parse(Path(__file__).read_text("utf-8"))
    awaited = {ast.unparse(one.value) for one in ast.walk(code) if isinstance(one, ast.Await)}
    for name, section in OF_THEIR_OWN.items():
        assert EXPERIMENTS[name] is section
        assert f"{name}(found)" in awaited


@pytest.mark.heavy
@pytest.mark.corpora
@pytest.mark.timeout(900)
def test_the_command_writes_each_figure_with_its_interval(tmp_path: Path, corpora: Path) -> None:
    out, trials = tmp_path / "out.json", tmp_path / "trials.jsonl"
    named = [word for one in SECTIONS if one not in OF_THEIR_OWN for word in ("--only", one)]
    command = (
        *(sys.executable, "-P", "-m", "tests.evaluate", "--trials", "3"),
        *("--json", str(out), "--trials-out", str(trials), *named),
    )
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "MNEMOGATE_CORPORA": str(corpora)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text("utf-8"))
    assert set(found["table2"]["S4"]["A1"]) == {"value", "n", "low", "high"}
    assert found["table5"]["claims_targeted"]["100"]["refused"]["value"] == 0.0
    assert found["beyond"]["crash_nfr"]["value"] == 100.0
    assert found["sound"] is True
    kept = [json.loads(line) for line in trials.read_text("utf-8").splitlines()]
    assert sum(line["table"] == "table2" for line in kept) == 75


ROOT = Path(__file__).resolve().parents[2]
SUITE = scenarios()
QUICK = {"tool-policy", "nonce-replay", "staging-tampered"}
RETOLD = {"delayed-tool-invocation", "calendar-invites", "sleeper-belief"}


def chosen(names: set[str]) -> list[Scenario]:
    return [one for one in SUITE if one.id in names]


async def ended(adapter: Adapter, played: list[Scenario]) -> dict[str, str]:
    try:
        return {one.id: (await play(one, adapter)).result for one in played}
    finally:
        await adapter.close()


def test_each_scenario_has_a_name_an_invariant_and_a_control_of_its_own() -> None:
    assert len({one.id for one in SUITE}) == len(SUITE) >= 21
    assert len({one.invariant for one in SUITE}) == len(SUITE)
    for one in SUITE:
        done = {step.do for step in one.step} | {str(step.expect) for step in one.step}
        # Something must land, or an implementation that refuses everything would pass.
        assert done & {"present", "admitted", "labelled"} or one.id == "trust-is-durable"


@pytest.mark.parametrize("scenario", SUITE, ids=lambda one: one.id)
def test_a_mutant_of_the_suite_fits_the_code(scenario: Scenario) -> None:
    for fault in (scenario.mutant, *scenario.mutant.more):
        text = (ROOT / fault.file).read_text("utf-8")
        assert text.count(fault.old) == 1
        assert fault.old != fault.new


async def test_scenarios_pass_with_the_gate_and_fail_without_one() -> None:
    assert set((await ended(OurAdapter(), chosen(QUICK))).values()) == {"pass"}
    without = await ended(OurAdapter(BY_NAME["B0"]), chosen(QUICK))
    assert set(without.values()) == {"fail"}


async def test_retold_attacks_end_as_nobodys_word_and_land_without_a_gate() -> None:
    assert set((await ended(OurAdapter(), chosen(RETOLD))).values()) == {"pass"}
    without = await ended(OurAdapter(BY_NAME["B0"]), chosen(RETOLD))
    assert list(without.values()) == ["fail"] * len(RETOLD)
    invites = next(one for one in SUITE if one.id == "calendar-invites")
    honest = 1
    assert sum(step.do == "remember" for step in invites.step) - honest == 14


class Nothing:
    async def do(self, request: Request) -> Reply:
        return Reply() if request.op == "reset" else Reply(na="not here")

    async def close(self) -> None:
        return


async def test_what_an_implementation_cannot_express_is_neither_passed_nor_failed() -> None:
    assert set((await ended(Nothing(), list(SUITE))).values()) == {"n/a"}


@pytest.mark.heavy
@pytest.mark.timeout(900)
async def test_the_whole_suite_is_green() -> None:
    found = await ended(OurAdapter(), list(SUITE))
    assert {key: how for key, how in found.items() if how != "pass"} == {}
    assert found


@pytest.mark.whole
@pytest.mark.timeout(1_800)
async def test_every_mutant_of_the_suite_is_caught() -> None:
    tried = await try_mutants(lambda _done, _total: None)
    assert [one for one in tried if not one.caught] == []
