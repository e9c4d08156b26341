"""The rules of one epoch: who may write what, within which budgets. Parsed strictly from TOML.

A ruleset permits only what it names: a pair of source and class that is absent is refused, and an
unknown word is an error.
"""

from __future__ import annotations

import enum
import hashlib
import re
import tomllib
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import MemoryClass, SourceKind
from policy.trust.score import SoftScoring


class RulesetError(ValueError):
    """The error for a text that is not a ruleset; its message names the line and the key."""


class Cell(enum.Enum):
    """The matrix's answer for one source and one class (docs/glossary.md#decisions)."""

    ADMIT = "admit"
    CHECKED = "checked"  # The candidate is admitted after the language check of step 2.
    TOKEN = "token"  # noqa: S105 - needs a promotion token, or a person's confirmation
    HOLD = "hold"  # The candidate waits for a person.
    REFUSE = "refuse"


class OverBudget(enum.Enum):
    """What happens to a candidate that exceeds a budget."""

    HOLD = "hold"
    REJECT = "reject"


Count = Annotated[int, Meta(ge=0, le=10_000_000)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Word = Annotated[str, Meta(min_length=1, max_length=64)]


class Budgets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of step 9, against floods. Sizes in UTF-8 bytes, counts per principal and window."""

    text_bytes_max: Count
    metadata_bytes_max: Count
    window_s: Annotated[int, Meta(ge=1, le=86_400)]
    writes_per_window_max: Count
    over_rate: OverBudget
    topic_writes_max: Count
    over_topic: OverBudget


class TrustRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The least soft score that step 3 requires for each class, and how the score is computed."""

    soft_score_min: dict[MemoryClass, Share]
    scoring: SoftScoring


class AnchorRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The margin of a search's score by which a candidate outranks an anchor (step 8)."""

    outrank_margin: Annotated[float, Meta(ge=-2.0, le=2.0)]


Days = Annotated[int, Meta(ge=1, le=36_500)]


class RetentionRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long memories of one class are kept: for ever, unless one of the limits is set.

    `per_principal_max` and `per_scope_max` keep only so many of the newest memories: of one
    principal in a tenant, and of one set of ids (user, agent, run, app) in a tenant.
    """

    age_days_max: Days | None = None
    per_principal_max: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    per_scope_max: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which memories are erased automatically: by the rule of their class, or after their expiry.

    `expired_grace_days` counts from the memory's own expiry.
    """

    expired_grace_days: Days | None = None
    classes: dict[MemoryClass, RetentionRule] = {}


class ReadRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Caps on the results of one origin in a search, against harmless-looking texts that add up.

    `shown_of_ten`: of each ten results of a search, at most so many come from one origin that had
    read foreign text and has a label below `user_input`; 10 sets no cap. `shown_on_probation` is
    the same for an origin on probation or latched, whatever that origin had read.
    """

    shown_of_ten: Annotated[int, Meta(ge=1, le=10)] = 3
    shown_on_probation: Annotated[int, Meta(ge=1, le=10)] = 1


class ClassChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A memory class, and whether the client named this very class or a rule mapped to it."""

    memory_class: MemoryClass
    named: bool


class ClassMap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The memory classes that the words of one dialect name."""

    default: MemoryClass
    metadata_keys: Annotated[tuple[Word, ...], Meta(max_length=16)]
    names: dict[Word, MemoryClass]

    def choose(self, metadata: dict[str, object] | None = None) -> ClassChoice:
        """The class that a write's metadata names, or the dialect's default class.

        Of several named classes the most powerful counts, so that a client cannot hide one word
        with another. A metadata value that names no class is ordinary metadata.
        """
        given = metadata or {}
        words = [self.named(given[key]) for key in self.metadata_keys if key in given]
        named = [word for word in words if word is not None]
        if not named:
            return ClassChoice(memory_class=self.default, named=False)
        most = max(named, key=lambda memory_class: memory_class.power)
        return ClassChoice(memory_class=most, named=True)

    def named(self, word: object) -> MemoryClass | None:
        """The class that a metadata value names; None for a value that names no class."""
        return self.names.get(word.strip().casefold()) if isinstance(word, str) else None


Matrix = dict[SourceKind, dict[MemoryClass, Cell]]


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The TOML document; every key is required except the keys of `retention` and `reads`."""

    matrix: Matrix
    budgets: Budgets
    trust: TrustRules
    anchors: AnchorRules
    classes: dict[Word, ClassMap]
    # The sections that may be left out: without `retention` nothing is erased, and without `reads`
    # the defaults of that section hold.
    retention: Retention = Retention()
    reads: ReadRules = ReadRules()


class Ruleset(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one epoch. `digest` is the hex SHA-256 of their TOML text."""

    matrix: Matrix
    budgets: Budgets
    trust: TrustRules
    anchors: AnchorRules
    classes: dict[str, ClassMap]
    digest: str
    epoch: int = 0
    retention: Retention = Retention()
    reads: ReadRules = ReadRules()

    def cell(self, source: SourceKind, memory_class: MemoryClass) -> Cell:
        """The matrix's answer for a pair of source and class; `REFUSE` for an absent pair."""
        try:
            return self.matrix[source][memory_class]
        except KeyError:
            return Cell.REFUSE


_NO_TYPE: Final = "there is no such key; no type and no id decides a class"
_SUCCESSORS: Final = {
    "agent_scoped": _NO_TYPE,
    "memory_type": _NO_TYPE,
    "labels": "there is no such section; a text that nothing proves lands as [matrix] says of "
    "tool_result and unknown",
    "drift": "there is no such section; shown_of_ten and shown_on_probation are keys of [reads], "
    "which has the cap on what one origin fills of a search in place of names",
}
_AT = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?", re.DOTALL)
_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]+)`")
_BAD_WORD = re.compile(r"Invalid enum value '([^']+)'")


def parse_ruleset(text: str, epoch: int = 0) -> Ruleset:
    """Parse the TOML text of a ruleset.

    Raises:
        RulesetError: Syntax, an unknown key, a missing pair or key, a wrong word or type.
    """
    try:
        digest = hashlib.sha256(text.encode()).hexdigest()
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RulesetError(f"not TOML: {error}") from None
    except (ValueError, RecursionError):
        # The errors that the TOML reader raises at its own limits: thousands of digits, a thousand
        # brackets, lone surrogates.
        raise RulesetError("not TOML: a number too long, or nested too deeply") from None
    try:
        document = msgspec.convert(tables, _Document)
    except msgspec.ValidationError as error:
        raise RulesetError(_explained(text, str(error))) from None
    _refuse_gaps(text, document)
    return Ruleset(
        matrix=document.matrix,
        budgets=document.budgets,
        trust=document.trust,
        anchors=document.anchors,
        classes=document.classes,
        retention=document.retention,
        reads=document.reads,
        digest=digest,
        epoch=epoch,
    )


def _refuse_gaps(text: str, document: _Document) -> None:
    for source in SourceKind:
        row = document.matrix.get(source)
        if row is None:
            raise RulesetError(f"line {_line_of(text, ['matrix'])}: matrix.{source.value}: missing")
        for memory_class in MemoryClass:
            if memory_class not in row:
                line = _line_of(text, ["matrix", source.value])
                pair = f"matrix.{source.value}.{memory_class.value}"
                raise RulesetError(f"line {line}: {pair}: missing pair")
    for memory_class in MemoryClass:
        if memory_class not in document.trust.soft_score_min:
            line = _line_of(text, ["trust", "soft_score_min"])
            key = f"trust.soft_score_min.{memory_class.value}"
            raise RulesetError(f"line {line}: {key}: missing")


def _explained(text: str, message: str) -> str:
    found = _AT.fullmatch(message)
    what, path = (found["what"], found["path"] or "") if found else (message, "")
    keys = [key for key in path.replace("[...]", "").split(".") if key]
    unknown = _UNKNOWN_FIELD.search(what) or _BAD_WORD.search(what)
    word = unknown[1] if unknown else None
    if word in _SUCCESSORS:
        where = _line_of(text, [*keys, word])
        return f"line {where}: {'.'.join([*keys, word])}: {_SUCCESSORS[word]}"
    line = _line_of(text, keys, word)
    return f"line {line}: {'.'.join(keys) or 'ruleset'}: {what}"


def _line_of(text: str, keys: list[str], word: str | None = None) -> int:
    """The line of a key in the TOML text, or the best guess: the parser reports no positions."""
    best, best_rank = 1, 0
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.split("#", 1)[0].strip()
        if not stripped:
            continue
        if stripped.startswith("["):
            table = stripped.strip("[]").split(".")
        key = [] if stripped.startswith("[") else [stripped.split("=", 1)[0].strip()]
        rank = 2 * _in_order_len([*table, *key], keys) + int(word is not None and word in stripped)
        if rank > best_rank:
            best, best_rank = number, rank
    return best


def _in_order_len(here: list[str], keys: list[str]) -> int:
    """How many keys of a dotted path (`a.b.c`) occur in a line's own path, in the same order."""
    count = 0
    for part in here:
        if count < len(keys) and part == keys[count]:
            count += 1
    return count


# The answers of the matrix, from the one that permits least to the one that permits most.
_WIDTH: Final = (Cell.REFUSE, Cell.HOLD, Cell.TOKEN, Cell.CHECKED, Cell.ADMIT)


def wider_than(rules: Ruleset, shipped: Ruleset) -> tuple[str, ...]:
    """The keys by which `rules` permits more than `shipped` does, in the order of the file."""
    found = [
        f"matrix.{source.value}.{memory_class.value}"
        for source in SourceKind
        for memory_class in MemoryClass
        if _WIDTH.index(rules.cell(source, memory_class))
        > _WIDTH.index(shipped.cell(source, memory_class))
    ]
    mine, theirs = rules.budgets, shipped.budgets
    found += [
        f"budgets.{name}"
        for name in ("text_bytes_max", "metadata_bytes_max", "topic_writes_max")
        if getattr(mine, name) > getattr(theirs, name)
    ]
    if mine.writes_per_window_max * theirs.window_s > theirs.writes_per_window_max * mine.window_s:
        found.append("budgets.writes_per_window_max")
    scores, before = rules.trust.soft_score_min, shipped.trust.soft_score_min
    found += [
        f"trust.soft_score_min.{one.value}" for one in MemoryClass if scores[one] < before[one]
    ]
    if rules.trust.scoring.bad_weight < shipped.trust.scoring.bad_weight:
        found.append("trust.scoring.bad_weight")
    if rules.anchors.outrank_margin > shipped.anchors.outrank_margin:
        found.append("anchors.outrank_margin")
    found += [
        f"reads.{name}"
        for name in ("shown_of_ten", "shown_on_probation")
        if getattr(rules.reads, name) > getattr(shipped.reads, name)
    ]
    for name, words in shipped.classes.items():
        found += _weaker(f"classes.{name}", rules.classes.get(name), words)
    return tuple(found)


def _weaker(place: str, mine: ClassMap | None, shipped: ClassMap) -> list[str]:
    """The dialect's words that now map to a less powerful class than before, or to no class."""
    if mine is None:
        return []
    found = [f"{place}.default"] if mine.default.power < shipped.default.power else []
    if not set(shipped.metadata_keys) <= set(mine.metadata_keys):
        found.append(f"{place}.metadata_keys")
    now = mine.names
    found += [
        f"{place}.names.{word}"
        for word, memory_class in shipped.names.items()
        if word in now and now[word].power < memory_class.power
    ]
    return found
