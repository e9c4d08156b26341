"""Every invariant has a test that turns red without it: the table of mutants, tried."""

from __future__ import annotations

import ast
import time

import pytest

from tests.conftest import WHOLE
from tests.mutants.__main__ import main
from tests.mutants.mutant import Mutant, bound_tests
from tests.mutants.operators import faults
from tests.mutants.running import PACKAGES, ROOT, Copy, Misplaced
from tests.mutants.table import MUTANTS

QUICK = tuple(mutant for mutant in MUTANTS if mutant.quick)
# One in twelve, others every day; all of them by `python -m tests.mutants`, and where asked for.
_TODAY = int(time.time() // 86_400)
SHARE = MUTANTS if WHOLE else MUTANTS[_TODAY % 12 :: 12]
CONTROL = Mutant(
    name="a comment says something else",
    file="policy/model.py",
    old="# L1, policy: directives that steer the agent.",
    new="# L1, policy.",
    invariant="none: this changes nothing, and must survive",
    tests=("tests/unit/policy/test_model.py",),
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
def test_a_mutant_fits_the_code_and_its_tests_exist(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text("utf-8")
    for old, new in ((mutant.old, mutant.new), *mutant.more):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    if mutant.file.endswith(".py"):
        ast.parse(text)
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert (ROOT / file).is_file()
        assert not name or name in _names(file), test


def test_the_clean_code_passes_and_so_does_a_change_that_changes_nothing(copy: Copy) -> None:
    bound = (*bound_tests(QUICK), *CONTROL.tests)
    with copy.holding(CONTROL):
        assert copy.passes(tuple(sorted(set(bound))))


def test_a_run_that_does_not_end_in_time_is_no_verdict(copy: Copy) -> None:
    # It counted as a failed one: a busy machine caught mutants, and failed the clean code.
    with pytest.raises(Misplaced, match="no verdict of 1 tests"):
        copy.run(("tests/unit/policy/test_model.py",), limit_s=0.01)


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_a_quick_mutant_is_caught(mutant: Mutant, copy: Copy) -> None:
    with copy.holding(mutant):
        assert not copy.passes(mutant.tests), mutant.invariant


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
def test_the_clean_code_passes_every_bound_test(copy: Copy) -> None:
    code, said = copy.run(bound_tests(SHARE))
    assert code == 0, said[-4_000:]


@pytest.mark.heavy
@pytest.mark.parametrize("mutant", SHARE, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(mutant: Mutant, copy: Copy) -> None:
    with copy.holding(mutant):
        assert not copy.passes(mutant.tests), mutant.invariant


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
