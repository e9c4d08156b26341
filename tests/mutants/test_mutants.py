"""Every wall has a test that turns red without it: the table of mutants, tried."""

from __future__ import annotations

import ast
import re

import pytest

from policy.model import MemoryClass
from tests.conftest import WHOLE
from tests.mutants.__main__ import main
from tests.mutants.addressed import Misplaced, mutated
from tests.mutants.mutant import Exchange, Mutant, bound_tests, dropped, replaced, returned
from tests.mutants.operators import faults
from tests.mutants.running import PACKAGES, ROOT, Copy
from tests.mutants.score import drawn, noticed, unit_tests_of
from tests.mutants.table import MUTANTS
from tests.mutants.warm import warm_up
from tests.shares import TODAY, todays

QUICK = tuple(mutant for mutant in MUTANTS if mutant.quick)
# One in so many each day; all of them by `python -m tests.mutants` as well.
DAYS = 6
# How many faults by rule are drawn each day, from the files that were changed last.
BY_RULE = 6
PROMISES = frozenset({"formation", "withholding", "labels"})
CONTROL = Mutant(
    row="formation",
    name="a comment says something else",
    invariant="none: this changes nothing, and must survive",
    where="policy.model:MemoryClass",
    fault=replaced(repr(MemoryClass.__doc__), "'Something else.'"),
    tests=("tests/unit/policy/test_checks.py",),
)


def _names(file: str) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("mutants") / "project")


def test_there_are_enough_of_them_and_no_two_share_a_name() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert len(names) == len(MUTANTS) > 90
    assert {mutant.file.partition("/")[0] for mutant in MUTANTS} == set(PACKAGES)
    assert 4 <= len(QUICK) <= 12


def test_a_name_that_no_mutant_has_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["mutants", "--only", "UNKNOWN", "--list"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "no mutant has a name with 'UNKNOWN' in it" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["mutants", "--only", MUTANTS[0].name, "--list"])
    assert main() == 0, "control"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_names_one_place_and_its_tests_exist(mutant: Mutant) -> None:
    mutated((ROOT / mutant.file).read_text("utf-8"), mutant)
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert (ROOT / file).is_file()
        assert not name or name in _names(file), test


def test_a_mutant_takes_away_a_wall_of_the_threat_model_or_a_promise() -> None:
    text = (ROOT / "docs/threat-model.md").read_text("utf-8")
    rows = set(re.findall(r'<a id="([^"]+)">', text))
    assert {mutant.row for mutant in MUTANTS} <= rows | PROMISES


SOURCE = '''
class Shop:
    """A shop."""

    def sells(self, what: str, age: int) -> bool:
        """Whether it does."""
        if age < 18 and what in self.never:
            self.count(what)
            return False
        return self.opened(at=age)


def sells() -> None:
    pass
'''
_PLACE = "shop:Shop.sells"


def _made(where: str, fault: Exchange) -> Mutant:
    return Mutant(row="a1", name="n", invariant="i", where=where, fault=fault, tests=())


@pytest.mark.parametrize(
    ("fault", "old", "new"),
    [
        (replaced("age < 18", "age < 16"), "age < 18", "(age < 16)"),
        (replaced("at=age", "at=0"), "at=age", "at=0"),
        (dropped("self.count(what)"), "self.count(what)", "pass"),
    ],
)
def test_each_operator_changes_the_place_that_is_named_and_nothing_else(
    fault: Exchange, old: str, new: str
) -> None:
    assert mutated(SOURCE, _made(_PLACE, fault)) == SOURCE.replace(old, new)
    constant = mutated(SOURCE, _made("shop:sells", returned("None")))
    assert constant == SOURCE.replace("pass", "return None")


@pytest.mark.parametrize(
    "mutant",
    [
        _made(_PLACE, replaced("age < 21", "True")),
        _made(_PLACE, replaced("what", "age")),
        _made(_PLACE, replaced("age < 18", "age < 18")),
        _made(_PLACE, replaced("age < 18", "age <")),
        _made("shop:sells", dropped("self.count(what)")),
        _made("shop:Shop.buys", returned("None")),
    ],
    ids=["nowhere", "twice", "unchanged", "no code", "elsewhere", "no such function"],
)
def test_a_place_that_is_not_there_once_is_an_error(mutant: Mutant) -> None:
    with pytest.raises(Misplaced):
        mutated(SOURCE, mutant)


def test_the_clean_code_passes_and_so_does_a_change_that_changes_nothing(copy: Copy) -> None:
    bound = (*bound_tests(QUICK), *CONTROL.tests)
    with copy.holding(CONTROL):
        assert copy.passes(tuple(sorted(set(bound))))


def test_a_run_that_does_not_end_in_time_is_no_verdict(copy: Copy) -> None:
    # It counted as a failed one: a busy machine caught mutants, and failed the clean code.
    with pytest.raises(Misplaced, match="no verdict of 1 tests"):
        copy.run(("tests/unit/policy/test_checks.py",), limit_s=0.01)


@pytest.mark.share(of=2)
@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_a_quick_mutant_is_caught(mutant: Mutant, copy: Copy) -> None:
    with copy.holding(mutant):
        assert not copy.passes(mutant.tests), mutant.invariant


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
def test_the_clean_code_passes_every_bound_test(copy: Copy) -> None:
    code, said = copy.run(bound_tests(MUTANTS if WHOLE else todays(MUTANTS, DAYS)))
    assert code == 0, said[-4_000:]


@pytest.mark.heavy
@pytest.mark.share(of=DAYS)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(mutant: Mutant, copy: Copy) -> None:
    with copy.holding(mutant):
        assert not copy.passes(mutant.tests), mutant.invariant


@pytest.mark.heavy
@pytest.mark.share(of=2, turn=1)
@pytest.mark.timeout(3_600)
def test_faults_by_rule_in_what_was_changed_last_are_noticed(copy: Copy) -> None:
    warm_up()
    tried = drawn(BY_RULE, str(TODAY))
    survivors = [fault.name for fault in tried if not noticed(copy, fault)]
    # Some change nothing that a unit test could see; `python -m tests.mutants.score` lists them. Up
    # to half of a file's faults are of that kind, so of six that are drawn chance alone leaves five
    # unnoticed in one run of ten, and all in one of sixty.
    assert len(survivors) < len(tried), survivors


def test_a_fault_by_rule_is_held_against_the_unit_tests_of_its_folder() -> None:
    assert unit_tests_of("policy/tokens.py")[0] == "tests/unit/policy/test_tokens.py"
    assert all((ROOT / test).is_file() for test in unit_tests_of("storage/write/judge.py"))
    assert unit_tests_of("proxy/compose/app.py") == ()
    once = drawn(5, "a")
    assert [one.name for one in once] == [one.name for one in drawn(5, "a")]
    assert all(unit_tests_of(fault.file) for fault in once)


def test_faults_by_rule_are_one_change_each_and_leave_annotations_and_messages_alone() -> None:
    source = '''
def most(one: int = 3) -> bool:
    """Docstring 1."""
    found: int = 1
    if not one > found and one != 2:
        raise ValueError("never 5")
    found += 1
    print(found)
    return one is found
'''
    done = [fault.done.partition(":")[0] for fault in faults("a.py", source)]
    assert sorted(done) == [
        "and for or",
        "call left out",
        "change left out",
        "comparison turned",
        "comparison turned",
        "comparison turned",
        "condition negated",
        "constant moved",
        "constant moved",
        "constant moved",
        "negation dropped",
        "nothing returned",
    ]
    clean = ast.unparse(ast.parse(source))
    for fault in faults("a.py", source):
        compile(fault.text, "a.py", "exec")
        assert fault.text != clean
        assert "one: int=3" in fault.text
        assert "never 5" in fault.text
