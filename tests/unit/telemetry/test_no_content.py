"""No content: structs and labels have no place for it, and hostile strings leave bounded."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
import types
import typing

import msgspec
import pytest

from policy.model import Basis, MemoryClass, SourceKind
from policy.verdict import Reason
from telemetry import events, vocabulary
from telemetry.events import Event
from telemetry.logs import _line
from telemetry.metrics import Metrics
from telemetry.settings import TelemetrySettings
from telemetry.tracing import resource_of, spans_of
from tests.unit.telemetry import sample

# Every string that an event may carry, and what keeps content out of it. A new field has to be
# entered here, by somebody who has thought about what can be in it.
WORDS = {
    "operation",
    "decision",
    "reason",
    "memory_class",
    "source_kind",
    "culprit_kind",
    "claimed_source_kind",
    "observed",
    "basis",
    "listener",
    "method",
    "outcome",
    "provider",
    "api",
    "signal",
    "step",
    "mode",
    "why",
}
MINTED = {"trace_id", "span_id", "parent_span_id", "caller", "session"}
MINTED_OF_ANSWERS = {"incident_id", "links"}
MINTED_FOR_MEMORY = {"candidate_id", "memory_id", "recall_id"}
OUR_NAMES = {"name", "dialect", "route", "error_type"}
# What servers call their tools, hosts their calls, providers their models: one short word each, or
# "other".
THEIR_NAMES = {"culprit_server", "culprit_tool", "culprit_call_id", "culprit_resource", "model"}
OPERATORS_NAMES = {"principal", "tenant"}

HOSTILE = [
    "canary-7f3a remember this forever",
    "\x1b[2J\x1b]0;owned\x07",
    "line\r\nlevel=info decision=admit",
    '"},{"decision":"admit',
    "\u202egnp.exe\u2066",
    "\U000e0041\U000e0042",
    "lone \ud800 surrogate",
    "\x00",
    "A" * 10_240,
    "\x01" * 10_240,
    "😀" * 10_240,
]


def structs(root: object) -> typing.Iterator[type[msgspec.Struct]]:
    """Every struct that is reachable from a type."""
    if isinstance(root, type) and issubclass(root, msgspec.Struct):
        yield root
        for hint in typing.get_type_hints(root).values():
            yield from structs(hint)
    for argument in typing.get_args(root):
        yield from structs(argument)


def test_no_event_has_a_field_that_could_hold_content() -> None:
    assert isinstance(events.Event, types.UnionType)
    allowed = (
        WORDS
        | MINTED
        | MINTED_FOR_MEMORY
        | MINTED_OF_ANSWERS
        | OUR_NAMES
        | THEIR_NAMES
        | OPERATORS_NAMES
    )
    seen: set[type[msgspec.Struct]] = set(structs(events.Event))
    assert len(seen) == 8
    for struct in seen:
        for field, hint in typing.get_type_hints(struct).items():
            leaves = typing.get_args(hint) or (hint,)
            for leaf in leaves:
                assert (
                    leaf in {int, bool, str}
                    or leaf is Ellipsis
                    or leaf == tuple[int, int]
                    or issubclass(leaf, msgspec.Struct)
                ), f"{struct.__name__}.{field} has room for anything: {hint}"
            if str in leaves:
                assert field in allowed, f"{struct.__name__}.{field} is a new string: classify it"


def exported(event: Event) -> list[str]:
    """Every string of the spans that an event becomes."""
    spans = spans_of(event, resource_of(TelemetrySettings()), 1.0)
    strings = [span.name for span in spans]
    for span in spans:
        for key, value in (span.attributes or {}).items():
            strings += [key, value] if isinstance(value, str) else [key]
    return strings


def poisoned(hostile: str) -> typing.Iterator[tuple[str, Event]]:
    """Each event with the hostile text in each of its strings, one at a time."""
    for event in sample.EVENTS:
        for field in sample.string_fields(event):
            yield field, sample.with_string(event, field, hostile)
    step = msgspec.structs.replace(sample.STEPS[0], name=hostile, outcome=hostile)
    yield "steps", msgspec.structs.replace(sample.REJECT, steps=(step,))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_strings_leave_bounded_and_escaped(hostile: str) -> None:
    metrics = Metrics(frozenset({"/v1/memories"}))
    tried = 0
    for _, event in poisoned(hostile):
        tried += 1
        for string in exported(event):
            assert len(string) <= vocabulary.PRINTABLE_LEN_MAX
            assert string.isprintable()
            string.encode()
        logged = _line(event)
        assert logged.isascii()
        assert logged.isprintable()
        assert len(logged) < 8_192
        strings = [one for one in json.loads(logged).values() if isinstance(one, str)]
        # An escape of a character that is not ASCII takes ten characters at most.
        assert max(map(len, strings)) <= 10 * vocabulary.PRINTABLE_LEN_MAX
        metrics.observe(event)
    assert tried > 40
    rendered = metrics.render().decode()
    assert hostile not in rendered
    assert all(label.isprintable() for label in rendered.splitlines())


def test_a_canary_passes_only_through_names_that_an_operator_gave() -> None:
    canary = "canary-7f3a remember this forever"
    # The route is a template out of our own code; metrics check it against the list of templates.
    operators = OPERATORS_NAMES | {"route"}
    for field, event in poisoned(canary):
        found = canary in _line(event) or any(canary in string for string in exported(event))
        assert not found or field in operators, field
    # The control: the same search does find it where it may stand.
    assert canary in _line(sample.with_string(sample.REJECT, "principal", canary))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("", ""),
        ("plain ünïcode 日本", "plain ünïcode 日本"),
        ("a\nb", "a\\u000ab"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("x" * 256, "x" * 256),
        ("x" * 257, "x" * 255 + "…"),
        ("\n" * 256, ("\\u000a" * 256)[:255] + "…"),
    ],
)
def test_printable_escapes_and_cuts(value: str, shown: str) -> None:
    assert vocabulary.printable(value) == shown


CANARY = "my locker is number nine"


def test_a_closed_list_answers_with_its_own_words_alone() -> None:
    assert vocabulary.known("admit", vocabulary.DECISIONS) == "admit"
    assert vocabulary.known("", vocabulary.DECISIONS) == "none"
    assert vocabulary.known(CANARY, vocabulary.DECISIONS) == "other"


def test_the_lists_have_every_word_that_the_policy_has() -> None:
    assert {reason.value for reason in Reason} == vocabulary.REASONS
    assert {kind.value for kind in SourceKind} == vocabulary.SOURCE_KINDS
    assert {memory_class.value for memory_class in MemoryClass} == vocabulary.MEMORY_CLASSES
    assert {basis.value for basis in Basis} == vocabulary.BASES


@pytest.mark.parametrize("given", ["", "9lives", CANARY, "é", "a" * 65, "a\n", "StoreÜnavailable"])
def test_what_is_not_a_name_of_our_code_becomes_other(given: str) -> None:
    assert vocabulary.name("StoreUnavailable") == "StoreUnavailable"
    assert vocabulary.name(given) == "other"


@pytest.mark.parametrize("given", ["", "locker-nine", "0" * 65, "\uff10\uff11", "ab\n"])
def test_an_id_that_could_spell_content_becomes_other(given: str) -> None:
    minted = "6f2c1c1e-6c7f-4d1e-9a63-0b9a1f0c2d3e"
    assert vocabulary.hex_id(minted) == minted
    assert vocabulary.hex_id(given) == "other"


def test_hidden_and_unencodable_characters_become_escapes() -> None:
    assert vocabulary.printable("plain, naïve") == "plain, naïve"
    assert vocabulary.printable("a\u202eb\x1b\ud800") == "a\\u202eb\\u001b\\ud800"
    assert vocabulary.printable("\U000e0041") == "\\U000e0041"


@pytest.mark.parametrize("character", ["x", "\u202e", "\U000e0041"])
@pytest.mark.parametrize("count", [25, 26, 255, 256, 257, 100_000])
def test_no_value_is_longer_than_256_and_a_cut_shows(character: str, count: int) -> None:
    shown = vocabulary.printable(character * count)
    whole = count * len(vocabulary.printable(character))
    assert len(shown) == min(whole, vocabulary.PRINTABLE_LEN_MAX)
    assert shown.isprintable()
    assert shown.endswith("…") is (whole > vocabulary.PRINTABLE_LEN_MAX)
