"""A ruleset is read strictly: what it does not say is an error, and every error has its place."""

from __future__ import annotations

import hashlib
import tomllib

import pytest

from policy.model import MemoryClass, SourceKind
from policy.ruleset import Cell, ClassChoice, RulesetError, parse_ruleset
from tests.property.gate_cases import DEFAULT_TOML, RULESET


def test_the_default_ruleset_has_the_digest_of_its_text_and_the_epoch_it_was_given() -> None:
    assert RULESET.digest == hashlib.sha256(DEFAULT_TOML.encode()).hexdigest()
    assert RULESET.epoch == 7


@pytest.mark.parametrize("value", ["[" * 2_000, "{a=" * 1_500, "9" * 5_000, '"\udcff"'])
def test_a_text_beyond_the_limits_of_the_toml_reader_is_no_ruleset(value: str) -> None:
    with pytest.raises(RulesetError):
        parse_ruleset(f"matrix = {value}")


def line_of(text: str, part: str) -> int:
    return next(at for at, line in enumerate(text.splitlines(), 1) if part in line)


@pytest.mark.parametrize(
    ("old", "new", "says", "at"),
    [
        ('L2 = "checked", L3 = "checked", ', 'L3 = "checked", ', "inference.L2", "model_inf"),
        ('L3 = "checked", L4 = "admit" }', 'L4 = "admit", L5 = "admit" }', "L5", "model_inf"),
        ("unknown         = {", "nobody          = {", "nobody", "nobody"),
        ('L1 = "token"', 'L1 = "tokn"', "tokn", "user_input  "),
        ("text_bytes_max = 65536", "", "text_bytes_max", "[budgets]"),
        ("text_bytes_max = 65536", "text_bytes_max = -1", "text_bytes_max", "text_bytes_max"),
        ("text_bytes_max = 65536", 'text_bytes_max = "1"', "text_bytes_max", "text_bytes_max"),
        ('over_rate = "reject"', 'over_rate = "shrug"', "over_rate", "over_rate"),
        ("window_s = 60", "window_s = 60\nmagic = 1", "magic", "magic"),
        ("L4 = 0.0", "", "trust.soft_score_min.L4", "[trust.soft_score_min]"),
        ("L1 = 0.5", "L1 = 1.5", "soft_score_min", "[trust.soft_score_min]"),
        ("bad_weight = 5.0", "bad_wait = 5.0", "bad_wait", "bad_wait"),
        ("[anchors]\noutrank_margin = 0.0", "", "anchors", ""),
        ('default = "L3"', 'default = "L9"', "L9", "L9"),
        ("[budgets]", "[budgets", "not TOML", ""),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, says: str, at: str) -> None:
    assert DEFAULT_TOML.count(old) == 1, old
    text = DEFAULT_TOML.replace(old, new)
    with pytest.raises(RulesetError) as caught:
        parse_ruleset(text)
    assert says in str(caught.value)
    if at:
        assert f"line {line_of(text, at)}:" in str(caught.value)


@pytest.mark.parametrize("text", ["", "\x00", "matrix = 1", "[matrix]", "[[matrix]]", "a = [[["])
def test_an_empty_or_foreign_text_is_no_ruleset(text: str) -> None:
    with pytest.raises(RulesetError):
        parse_ruleset(text)


def test_every_missing_line_of_the_default_is_noticed_or_changes_nothing_but_names() -> None:
    lines = DEFAULT_TOML.splitlines()
    for at, line in enumerate(lines):
        if "=" not in line or line.startswith("#"):
            continue
        text = "\n".join([*lines[:at], *lines[at + 1 :]])
        section = _section_of(lines, at)
        if section in {"classes.mem0.names", "reads"}:
            assert parse_ruleset(text).matrix == RULESET.matrix
            continue
        with pytest.raises(RulesetError):
            parse_ruleset(text)


def _section_of(lines: list[str], at: int) -> str:
    return next(line.strip("[]") for line in reversed(lines[:at]) if line.startswith("["))


@pytest.mark.parametrize(
    ("section", "successor"),
    [
        ('[drift]\nnames = "alarm"', r"drift: .*\[reads\]"),
        ("[drift]\nshown_of_ten = 3", r"drift: .*\[reads\]"),
        ('[labels]\nL1 = "taint"', r"labels: .*\[matrix\]"),
    ],
)
def test_a_section_that_went_names_its_successor_in_one_line(section: str, successor: str) -> None:
    with pytest.raises(RulesetError, match=successor) as caught:
        parse_ruleset(f"{DEFAULT_TOML}\n{section}\n")
    assert len(str(caught.value).splitlines()) == 1
    assert parse_ruleset(DEFAULT_TOML).reads.shown_of_ten == 3


def test_a_pair_that_is_nowhere_is_refused() -> None:
    assert RULESET.cell(SourceKind.UNKNOWN, MemoryClass.L1) is Cell.REFUSE
    tables = tomllib.loads(DEFAULT_TOML)
    assert tables["matrix"]["unknown"]["L1"] == "refuse"


@pytest.mark.parametrize(
    ("metadata", "chosen"),
    [
        (None, ("L3", False)),
        ({}, ("L3", False)),
        ({"memory_class": "L2"}, ("L2", True)),
        ({"memory_class": "policy"}, ("L1", True)),
        ({"memory_class": " L1 "}, ("L1", True)),
        ({"memory_class": "premium"}, ("L3", False)),
        ({"memory_class": 1, "other": "policy"}, ("L3", False)),
        ({"memory_class": "L4", "mnemogate_class": "L2"}, ("L2", True)),
    ],
)
def test_a_dialects_words_choose_the_class(
    metadata: dict[str, object] | None, chosen: tuple[str, bool]
) -> None:
    choice = RULESET.classes["mem0"].choose(metadata)
    assert choice == ClassChoice(memory_class=MemoryClass(chosen[0]), named=chosen[1])


@pytest.mark.parametrize("key", ['agent_scoped = "L2"', 'memory_type = { a = "L2" }'])
def test_a_key_that_went_is_an_error_in_one_line(key: str) -> None:
    text = DEFAULT_TOML.replace('default = "L3"', f'default = "L3"\n{key}')
    with pytest.raises(RulesetError, match=r"classes\.\w+: there is no such key") as caught:
        parse_ruleset(text)
    assert len(str(caught.value).splitlines()) == 1
