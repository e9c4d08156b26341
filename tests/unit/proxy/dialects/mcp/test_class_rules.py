"""Class rules: what their author reads in them is what they fit, in time, or they are refused."""

from __future__ import annotations

import re
import time

import pytest

from policy.model import MemoryClass
from proxy.dialects.mcp.calls import read_call
from proxy.dialects.mcp.class_rules import ClassRule, RuleError, example_of, fits
from proxy.dialects.mcp.maps import MapError, parse_map
from proxy.settings.tool_maps import shipped, shipped_map

MAP = """
format = 1
name = "m"
read_from = "here"
[tools.t]
kind = "write"
texts = ["a"]
class_rules = [{{ path = "{path}", {test}, memory_class = "L1" }}]
"""


def rule(**test: object) -> ClassRule:
    return ClassRule(path="a", memory_class=MemoryClass.L1, **test)  # type: ignore[arg-type]


def class_of(test: str, text: str) -> MemoryClass | None:
    tool_map = parse_map(MAP.format(path="a", test=test))
    return read_call(tool_map, {"name": "t", "arguments": {"a": text}}).items[0].memory_class


@pytest.mark.parametrize(
    ("test", "text"),
    [
        ('words = ["policy"]', "our Policy"),
        ('words = ["Policy"]', "our policy"),
        ('words = ["our policy"]', "in our_Policy folder"),
        ('words = ["house-rule"]', "a house-rule"),
        ('words = ["houseRule"]', "a House rule"),
        ('words = ["pol\u00edtica"]', "la politica"),
        ('words = ["politica"]', "la Pol\u00edtica"),
        ('prefixes = ["/Memories/"]', "/memories/policy"),
        ('prefixes = ["/memories/"]', "/Memories/policy"),
        ('pattern = "Policy"', "our policy"),
        ('pattern = "^How to "', "How to do it"),
        ('pattern = "rule [A-C]1*$|house"', "rule b11"),
        ("pattern = '^\\d+$'", "1000"),
    ],
)
def test_what_a_rule_says_is_what_it_fits(test: str, text: str) -> None:
    assert class_of(test, text) is MemoryClass.L1
    assert class_of(test, "nothing of the kind") is not MemoryClass.L1


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(.*,){12}x",
        "a*a*b",
        "(?=a)b",
        r"(a)\1",
        "a?" * 30 + "a" * 30,
        "a**",
        "*",
        "[z-A]",
    ],
)
def test_a_pattern_that_may_not_end_is_refused(pattern: str) -> None:
    with pytest.raises(RuleError, match="pattern"):
        example_of(rule(pattern=pattern))


def test_without_that_each_letter_of_a_text_doubles_the_time() -> None:
    took = [min(_seconds(length) for _ in range(3)) for length in (16, 22)]
    assert took[1] > 8 * took[0]


def _seconds(length: int) -> float:
    started = time.thread_time()
    assert re.search("(a+)+$", "a" * length + "!") is None
    return time.thread_time() - started


@pytest.mark.parametrize("pattern", ["a*!", ".*!$", "[^b]+!", "a{1,99}!|a*!|" + "a*!|" * 50 + "a"])
def test_the_slowest_patterns_that_are_taken_end_at_once(pattern: str) -> None:
    started = time.thread_time()
    fits(rule(pattern=pattern), "a" * 65_536)
    assert time.thread_time() - started < 1


@pytest.mark.parametrize(
    "test",
    [
        {"words": ("---",)},
        {"words": ("policy", "_")},
        {"prefixes": (" ",)},
        {"pattern": "a^b"},
        {"pattern": "x{300}"},
    ],
)
def test_what_no_text_fits_is_refused(test: dict[str, object]) -> None:
    with pytest.raises(RuleError):
        example_of(rule(**test))


def test_a_path_that_no_tool_has_is_refused() -> None:
    parse_map(MAP.format(path="a", test='words = ["policy"]'))
    with pytest.raises(MapError, match="aa: no tool is said to have it"):
        parse_map(MAP.format(path="aa", test='words = ["policy"]'))


@pytest.mark.parametrize("name", shipped())
def test_every_rule_of_a_shipped_map_fits_its_example(name: str) -> None:
    tool_map = shipped_map(name)
    assert tool_map is not None
    rules: list[ClassRule] = [*tool_map.class_rules]
    for tool in tool_map.tools.values():
        for case in (tool, *(tool.switch.cases.values() if tool.switch else ())):
            rules += case.class_rules
    for one in rules:
        assert fits(one, example_of(one))
