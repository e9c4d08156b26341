"""Separates what a person typed from what an agent's program inserted into the person's turn.

The rules for this are data. An inserted text is called a splice.
"""

from __future__ import annotations

import enum
import tomllib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from policy.model import SourceKind, meet

_RULES: Final = Path(__file__).with_name("splices.toml")


class Inside(enum.Enum):
    """Whose text a splice is, as the matching rule says."""

    AGENT_SELF_EDIT = "agent_self_edit"
    USER_INPUT = "user_input"
    TOOL_RESULT = "tool_result"
    UNKNOWN = "unknown"
    RECALL = "recall"
    INHERITED = "inherited"

    @property
    def label(self) -> SourceKind:
        """The highest label that the inserted text may have.

        For recalled memories and inherited summaries it is `unknown` here, because only the caller
        knows their own labels.
        """
        if self in {Inside.RECALL, Inside.INHERITED}:
            return SourceKind.UNKNOWN
        return SourceKind(self.value)


class _Within(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    has: str
    label: Inside


class _Span(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agent: str
    opens: str
    closes: str
    label: Inside
    beside_results: bool = False
    within: tuple[_Within, ...] = ()
    host_lines: tuple[str, ...] = ()


class _Preface(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agent: str
    begins: str
    # Whether all text from this mark to the end of the message is inserted.
    whole: bool = False
    label: Inside
    beside_results: bool = False


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All rules about splices."""

    span: tuple[_Span, ...]
    preface: tuple[_Preface, ...]


class Piece(NamedTuple):
    """A part of one string. `inside` is None where no rule matches: somebody typed it."""

    start: int
    end: int
    inside: Inside | None
    host_lines: tuple[str, ...] = ()
    # Whether a piece of this kind may stand beside tool results in one message.
    beside_results: bool = False


@cache
def shipped_rules() -> Rules:
    """The rules about splices that come with this version."""
    return msgspec.convert(tomllib.loads(_RULES.read_text("utf-8")), Rules)


def told_between(text: str, rules: Rules) -> SourceKind:
    """The highest label for a text that the agent's program puts between the turns.

    The same splices occur there as in user turns, with or without tags.
    """
    lowest = SourceKind.AGENT_SELF_EDIT
    for piece in pieces_of(text, rules):
        if piece.inside is not None:
            lowest = meet(lowest, piece.inside.label)
    for rule in rules.span:
        if rule.label is Inside.AGENT_SELF_EDIT:
            lowest = meet(lowest, _label(text, rule).label)
    return lowest


def pieces_of(text: str, rules: Rules) -> tuple[Piece, ...]:
    """The parts of a user turn's string, in order and complete."""
    begun = text.lstrip()
    for preface in rules.preface:
        if begun.startswith(preface.begins) and (
            not preface.whole or begun.rstrip() == preface.begins
        ):
            whole = Piece(0, len(text), preface.label, beside_results=preface.beside_results)
            return (whole,)
    found: list[Piece] = []
    for rule in rules.span:
        piece = _piece(text, rule)
        if piece is not None:
            found.append(piece)
    if not found:
        return (Piece(0, len(text), None),) if text else ()
    return tuple(_between(text, _apart(sorted(found, key=lambda piece: piece[:2]))))


def _piece(text: str, rule: _Span) -> Piece | None:
    start = text.find(rule.opens)
    closing = text.rfind(rule.closes)
    if start < 0 and closing < 0:
        return None
    if start < 0 or closing < start:
        # The closing mark is missing, so nobody knows where the inserted text ends, and all of it
        # counts as unknown.
        if start < 0:
            return Piece(0, closing + len(rule.closes), Inside.UNKNOWN)
        return Piece(0 if closing >= 0 else start, len(text), Inside.UNKNOWN)
    first_closing = text.find(rule.closes)
    end = closing + len(rule.closes)
    if first_closing < start:
        return Piece(0, end, Inside.UNKNOWN)
    return Piece(start, end, _label(text[start:end], rule), rule.host_lines, rule.beside_results)


def _label(inside: str, rule: _Span) -> Inside:
    label = rule.label
    for within in rule.within:
        if within.has in inside and within.label.label.trust < label.label.trust:
            label = within.label
    return label


def _apart(found: list[Piece]) -> list[Piece]:
    """Cut overlapping spans so that none overlap; where two overlapped, the lower label counts."""
    apart: list[Piece] = []
    for piece in found:
        if apart and piece.start < apart[-1].end:
            last = apart[-1]
            low = meet(_most(last), _most(piece))
            inside = last.inside if low is _most(last) else piece.inside
            end = max(last.end, piece.end)
            beside = last.beside_results and piece.beside_results
            lines = (*last.host_lines, *piece.host_lines)
            apart[-1] = Piece(last.start, end, inside, lines, beside)
        else:
            apart.append(piece)
    return apart


def _most(piece: Piece) -> SourceKind:
    return SourceKind.USER_INPUT if piece.inside is None else piece.inside.label


def _between(text: str, found: list[Piece]) -> list[Piece]:
    pieces: list[Piece] = []
    at = 0
    for piece in found:
        start = piece.start
        if text[at:start].strip():
            pieces.append(Piece(at, start, None))
        else:
            start = at  # white space between two parts counts to the second one
        pieces.append(piece._replace(start=start))
        at = piece.end
    if text[at:].strip():
        pieces.append(Piece(at, len(text), None))
    elif at < len(text):
        pieces[-1] = pieces[-1]._replace(end=len(text))
    return pieces
