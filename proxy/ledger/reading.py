"""Reads what is new in a request: the label of each string, and what the ledger keeps of it. Pure.

The role `user` does not prove that a person typed a text. These were not typed: text that a splice
rule explains (an agent's program inserted it), text that others said before, and text that stands
beside tool results.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from policy.labels.endorsement import endorsed_by
from policy.labels.who_writes import UserTurns
from policy.model import Origin, SourceKind, meet
from policy.text.repeating import flowing
from proxy.dialects.model.transcript import ModelCall, Said, Turn, Voice
from proxy.ledger.printing import TAIL, Printer
from proxy.ledger.records import Entry, Row, Typed
from proxy.ledger.sentences import packed
from proxy.ledger.splices import Inside, Piece, pieces_of, told_between
from proxy.ledger.texts import (
    across,
    echoed_in,
    in_order,
    paragraphs,
    strings_in,
    strings_of,
)
from proxy.ledger.turn_values import (
    LabelledSpan,
    Read,
    RecalledSpan,
    Text,
    Told,
    TurnGround,
    TurnRead,
    TurnSum,
)
from proxy.seams.observations import is_observation, is_unjudged
from proxy.seams.slices import apart, resting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from proxy.ledger.splices import Rules
    from proxy.ledger.state import Book, CallMade

_LIST: Final = re.compile(r"[-*\u2022] ")
_NAME_LEN_MAX: Final = 128
_GIVEN_LEN_MAX: Final = 65_536
_OWN: Final = frozenset({None, SourceKind.AGENT_SELF_EDIT})
_HOSTS: Final = SourceKind.AGENT_SELF_EDIT


class Reader(Printer):
    """Reads turns for one ledger, with the ledger's key and rules."""

    def __init__(self, key: bytes, rules: Rules) -> None:
        super().__init__(key)
        self._rules = rules
        # Fixed texts of servers' answers, from the maps in use.
        self.says: frozenset[str] = frozenset()
        # Returns the name of the memory file that a call reads or edits; two calls with the same
        # name surely concern one file. None for other calls, and where the file is not sure.
        self.file_of: Callable[[ModelCall], str | None] = lambda _: None

    def turn(self, turn: Turn, ground: TurnGround) -> Read:
        """Read one turn of a conversation; returns its label and the spans of its strings."""
        found = TurnSum(turn.speaker)
        beside = any(said.voice is Voice.TOOL or said.call_id for said in turn.said)
        for said in resting(turn.said):
            match said.voice:
                case _ if said.sealed:
                    self._sealed(said, found)
                case Voice.TOOL:
                    self._result(said, ground, found)
                case Voice.MODEL:
                    self._model(said, ground, found)
                case Voice.USER:
                    self._user(said, ground, found, beside=beside)
                case Voice.SYSTEM | Voice.CATALOGUE:
                    self._host(said, ground, found)
                case Voice.UNPLACED:
                    self._unplaced(said, found)
        for call in turn.calls:
            label = self._call(call, ground)
            row = Row(
                "call",
                SourceKind.UNKNOWN if label is None else label,
                0,
                "unseen" if label is None else "",
                server=_name(call.server),
                tool=_name(call.name),
                call_id=_name(call.call_id),
            )
            made = ground.book.calls.get(self.print(call.call_id))
            own = made is not None and made.session == ground.session.session
            self._repeated(row, ground, found, own=own)
        self._across(ground, found)
        return self.read(found, ground)

    def read(self, found: TurnSum, ground: TurnGround) -> Read:
        """The summary of a turn, as the ledger keeps it."""
        lowest = found.lowest
        typed: tuple[Typed, ...] = ()
        by_person = False
        if found.typed:
            whole = self._whole(found, ground)
            by_person = bool(whole) and ground.user_turns is UserTurns.PERSON
            typed = (
                Typed(
                    parts=packed(self.parts("\n\n".join(found.typed))),
                    whole=packed(whole),
                    by_person=ground.user_turns is UserTurns.PERSON,
                    speaker=self.named("speaker", found.speaker) if found.speaker else 0,
                ),
            )
        entry = Entry(
            session=ground.session.session,
            digest=ground.digest,
            at_ms=ground.now_ms,
            label=lowest,
            root=ground.root,
            rows=tuple(found.rows),
            typed=typed,
            foreign=tuple((trust, packed(ones)) for trust, ones in found.foreign.items()),
            shared=tuple((trust, packed(ones)) for trust, ones in found.shared.items()),
            tenant=ground.book.sentences.tenant,
            own=packed(found.own),
            host=packed(found.host),
            answers=packed((*found.answers, *ground.given_up)),
        )
        return Read(
            entry,
            TurnRead(lowest, tuple(found.spans), tuple(found.recalled), by_person),
            tuple(found.texts),
        )

    def _whole(self, found: TurnSum, ground: TurnGround) -> list[int]:
        """The whole texts that a turn endorses: its own text, if nobody said a part of it before.

        The decision is made once, when the turn first comes: a later repetition by others changes
        nothing.
        """
        if found.mixed or len(found.typed) > 1:
            return []
        whole = endorsed_by(found.typed[0], ground.user_turns)
        if not whole:
            return []
        others = (*found.foreign.values(), *found.shared.values(), found.host)
        here = {one for heard in others for one in heard}
        source = ground.book.sentences.source
        for one in (one for said in (found.typed[0], *whole) for one in self.by_others(said)):
            if one in here or source(one) is not None:
                return []
        # The text may have been part of a longer sentence that somebody else said.
        if any(
            kept.origin.kind.trust < SourceKind.USER_INPUT.trust
            for kept in ground.ring.verbatim(found.typed[0])
        ):
            return []
        return [self.print(one) for one in whole]

    def _shows(self, text: str, origin: Origin, found: TurnSum) -> None:
        """Note words of another speaker than the person, to recognise them in any reading."""
        found.heard(self.elsewhere(text), origin.kind)
        found.texts.append(Text(text, origin))

    def _sealed(self, said: Said, found: TurnSum) -> None:
        """Note a content block that the model can read and this code cannot.

        Such a block never counts as a person's own words, whoever sent it.
        """
        by_tool = said.voice in {Voice.TOOL, Voice.USER}
        label = SourceKind.TOOL_RESULT if by_tool else SourceKind.UNKNOWN
        call_id = _name(said.call_id)
        found.row(Row("sealed", label, 0, "sealed", call_id=call_id))
        found.texts.append(Text("", Origin(kind=label, call_id=call_id or None), sealed=True))
        found.spans.append(())

    # ---- reading tools and their results ---------------------------------------------------------

    def _result(self, said: Said, ground: TurnGround, found: TurnSum) -> None:
        key = self.print(said.call_id) if said.call_id else 0
        call = ground.book.calls.get(key)
        relayed = ground.book.relayed.get(key)
        label, why = SourceKind.TOOL_RESULT, ""
        if relayed is not None and relayed.label.trust < label.trust:
            label, why = relayed.label, "relayed"
        # The gate, or an echo, answers each call once: more answers would let their sender spell.
        if said.call_id not in found.by_gate and (
            self.is_given(said.text, ground.book, key, call)
            or self.is_echo([call] if call else [], (said.text,))
        ):
            found.by_gate.add(said.call_id)
            label = _nobodys(ground)
            self._echoed(said, call, label, found)
            return
        below = None if call is None else ground.book.below(call)
        if below is not None and below.trust < label.trust:
            label, why = below, "below"
        told = self.elsewhere(*strings_of(said.text))
        inside = self.served_in(self.once.sentences(said.text), ground.book)
        known = [*told.short, *told.long, *inside]
        _brings(known, ground.book, found, 0, len(said.text))
        label, why = _recalled(known, ground.book, label) or (label, why)
        server = relayed.server if relayed else call.row.server if call else ""
        tool = relayed.tool if relayed else call.row.tool if call else ""
        row = Row("tool", label, len(said.text), why, server, tool, _name(said.call_id))
        if call is not None and not why:
            row = msgspec.structs.replace(row, file=call.row.file)
        last = found.rows[-1] if found.rows else None
        if last is not None and last.channel == "tool" and last.call_id == row.call_id:
            low = meet(last.label, label)
            found.rows[-1] = msgspec.structs.replace(row, label=low, len=last.len + row.len)
            found.lowest = meet(found.lowest, low)
        else:
            found.row(row)
        found.heard(told, label)
        if key:
            found.answers.append(key)
        origin = Origin(
            kind=label,
            server=server or None,
            tool=tool or None,
            call_id=_name(said.call_id) or None,
        )
        found.texts.append(Text(said.text, origin))
        found.spans.append((LabelledSpan(0, len(said.text), label),))

    def _across(self, ground: TurnGround, found: TurnSum) -> None:
        """Note sentences that run from one block of a result into the next."""
        blocks: dict[str | None, list[Text]] = {}
        for one in found.texts:
            by_others = one.origin.kind.trust <= SourceKind.TOOL_RESULT.trust
            if by_others and not (one.by_model or one.sealed):
                blocks.setdefault(one.origin.call_id, []).append(one)
        for call_id, texts in blocks.items():
            said = across([one.text for one in texts])
            if said:
                told = self.elsewhere(*said)
                label = min((one.origin.kind for one in texts), key=lambda one: one.trust)
                recalled = _recalled((*told.short, *told.long), ground.book, label)
                if recalled:
                    label, why = recalled
                    found.row(Row("tool", label, 0, why, call_id=_name(call_id)))
                found.heard(told, label)

    def _echoed(self, said: Said, call: CallMade | None, label: SourceKind, found: TurnSum) -> None:
        """Whether a tool's result only repeats the model or our notices.

        Then it lowers no label.
        """
        server, tool = (call.row.server, call.row.tool) if call else ("", "")
        found.row(Row("tool", label, len(said.text), "echo", server, tool, _name(said.call_id)))
        if said.call_id:
            found.answers.append(self.print(said.call_id))
        found.spans.append((LabelledSpan(0, len(said.text), label),))

    def is_given(self, text: str, book: Book, key: int = 0, call: CallMade | None = None) -> bool:
        """Whether the gate itself gave this principal's agent the text as the answer of this call.

        Then it is nobody's words. True for a text that it gave, for all the lines that it gave in
        their order, and for a fixed observation about a call that it judged, or refused unjudged.
        """
        # White space can spell, too: a line's end is all that a host may add.
        said = text.removesuffix("\n")
        if len(said) > _GIVEN_LEN_MAX:
            return False
        fixed = is_observation(said) and (not key or (call is not None and call.used))
        if fixed or is_unjudged(said) or (key, self.print(said)) in book.gave:
            return True
        lines = said.split("\n")
        given = [one for answered, one in book.gave if answered == key] if lines[1:] else []
        return bool(key and given) and given == [self.print(one) for one in lines]

    def is_echo(self, calls: Iterable[CallMade], texts: Iterable[str]) -> bool:
        """Whether an answer contains only strings of one call and fixed texts of the server's map.

        In each text the strings come in the call's order, each as often at most. A call whose words
        came to the tool in some other way may be answered with anything.
        """
        left = [call for call in calls if call.mapped]
        said = False
        for text in texts if left else ():
            strings = echoed_in(text, self.says)
            if strings is None:
                return False
            said = True
            prints = [self.print(one) for one in resting(strings)]
            left = [call for call in left if in_order(prints, call.spelled)]
        # No text at all, as in a picture, cannot be known to be an echo.
        return said and bool(left)

    # ---- reading the model's turns ---------------------------------------------------------------

    def _model(self, said: Said, ground: TurnGround, found: TurnSum) -> None:
        parts = self.parts(said.text)
        label = self._said(said.text, parts, ground)
        why = ""
        if label is None:
            # The ledger saw neither the reply with these words nor the context they were said in.
            label, why = SourceKind.UNKNOWN, "unseen"
            found.heard(self.elsewhere(said.text), label)
        found.texts.append(Text(said.text, Origin(kind=label), by_model=not why))
        own = all(one in ground.session.spoken for one in parts)
        self._repeated(Row("model", label, len(said.text), why), ground, found, own=own)
        found.spans.append((LabelledSpan(0, len(said.text), label),))

    def _repeated(self, row: Row, ground: TurnGround, found: TurnSum, *, own: bool) -> None:
        """Note a turn of the model, or one of its calls, that a request repeats as history.

        The operator's list shows the words once, in the turn in which they were said. A repetition
        is listed only if its label is below the session's taint; for words that this session did
        not say (`own` is false), below the taint without what memory files brought in.
        """
        taint = ground.session.taint
        here = taint if own or taint is None else ground.session.brought.get(0, taint)
        if row.why or here is None or row.label.trust < here.trust:
            found.row(row)
        found.lowest = meet(found.lowest, row.label)

    def knows(self, turn: Turn, ground: TurnGround) -> bool:
        """Whether the ledger saw all words and calls of a model's turn when the model made them."""
        return all(
            said.voice is not Voice.MODEL
            or self._said(said.text, self.parts(said.text), ground) is not None
            for said in turn.said
        ) and all(self._call(call, ground) is not None for call in turn.calls)

    def _said(self, text: str, parts: list[int], ground: TurnGround) -> SourceKind | None:
        """The label of words in the model's voice, which are the gate's where a call was refused.

        None if the ledger saw neither of them say the words.
        """
        spoken = self._spoken(parts, ground)
        return _nobodys(ground) if spoken is None and self.is_given(text, ground.book) else spoken

    def _spoken(self, parts: list[int], ground: TurnGround) -> SourceKind | None:
        """The label of words that the model said before.

        None if the ledger did not see the model say these words.
        """
        label = SourceKind.MODEL_INFERENCE
        for one in parts:
            said = ground.session.spoken.get(one)
            if said is None:
                said = ground.book.sentences.source(one)
            if said is None:
                return None
            label = meet(label, said)
        return label

    def _call(self, made: ModelCall, ground: TurnGround) -> SourceKind | None:
        """The label of a call that the model made before.

        None if the ledger did not see the call.
        """
        key = self.print(made.call_id)
        call = ground.book.calls.get(key)
        if call is not None and call.row.arguments == self.arguments(made.arguments):
            session = ground.book.sessions.get(call.session)
            taint = None if session is None else session.taint
            return SourceKind.UNKNOWN if taint is None else meet(SourceKind.MODEL_INFERENCE, taint)
        parts = [one for text in strings_in(made.arguments) for one in self.parts(text)]
        if not parts and call is None and key not in ground.book.ambiguous:
            return None
        # The agent's program may have rewritten the arguments; the strings in them must have been
        # said.
        return self._spoken(parts, ground)

    # ---- reading people's turns, and what programs insert into them ------------------------------

    def _user(self, said: Said, ground: TurnGround, found: TurnSum, *, beside: bool) -> None:
        spans: list[LabelledSpan] = []
        for piece in pieces_of(said.text, self._rules):
            text = said.text[piece.start : piece.end]
            whole = piece.start == 0 and piece.end == len(said.text)
            if ground.book.recalls:
                _brings(self.somebodys(text), ground.book, found, piece.start, piece.end)
            if beside and not (whole and piece.beside_results):
                label, channel, why = SourceKind.UNKNOWN, "unplaced", "beside_results"
                self._shows(text, Origin(kind=label), found)
            elif piece.inside is None:
                found.mixed |= not whole
                spans += self._typed(text, piece.start, ground, found)
                continue
            else:
                label, channel, why = self._spliced(piece, text, ground, found)
            if channel:
                found.row(Row(channel, label, len(text), why))
            spans.append(LabelledSpan(piece.start, piece.end, label))
        found.spans.append(tuple(spans))

    def _typed(
        self, text: str, at: int, ground: TurnGround, found: TurnSum
    ) -> Iterator[LabelledSpan]:
        """Read a person's text paragraph by paragraph, because one paragraph may be pasted."""
        by_her = ground.most is SourceKind.USER_INPUT and not ground.lost
        most = SourceKind.UNKNOWN if ground.lost else ground.most
        if by_her:
            found.typed.append(text)
        for start, end in resting(paragraphs(text)):
            part = text[start:end]
            label, why = self._from_elsewhere(part, ground, most)
            if not by_her:
                why = why or ("lost" if ground.lost else "under_a_call")
            elif label is SourceKind.USER_INPUT:
                hers = self.parts(part)
                told = (one for one, _ in self.told(self.once.sentences(part)))
                found.own += (*hers, *(one ^ TAIL for one in hers), *told)
            else:
                found.mixed = True
            channel = "user" if label is SourceKind.USER_INPUT else "spliced"
            found.row(Row(channel, label, len(part), why))
            found.texts.append(Text(part, Origin(kind=label)))
            yield LabelledSpan(at + start, at + end, label, typed=not ground.by_model)

    def _from_elsewhere(
        self, text: str, ground: TurnGround, most: SourceKind
    ) -> tuple[SourceKind, str]:
        label, why, parts = most, "", self.somebodys(text)
        flows = self.somebodys(apart(flowing, text)) if "\n" in text.strip() else []
        led_in = self.led_in(text, ground.book)
        here = *parts, *flows, *(one ^ TAIL for one in (*parts, *flows)), *led_in
        label, why = _said_before(here, ground.book, label, why)
        own = bool(parts) and all(ground.book.sentences.is_own(one) for one in parts)
        if label.trust > SourceKind.TOOL_RESULT.trust and not own:
            for kept in ground.ring.copied(text):
                if kept.origin.kind.trust < label.trust:
                    label, why = kept.origin.kind, "copied"
        return label, why

    def _spliced(
        self, piece: Piece, text: str, ground: TurnGround, found: TurnSum
    ) -> tuple[SourceKind, str, str]:
        if piece.inside is Inside.RECALL:
            return self._recall(piece, text, ground, found), "", ""
        if piece.inside is Inside.INHERITED:
            most, why = meet(SourceKind.MODEL_INFERENCE, ground.inherited), "summary"
        else:
            most, why = piece.inside.label if piece.inside else SourceKind.UNKNOWN, "rule"
        if ground.lost:
            most, why = SourceKind.UNKNOWN, "lost"
        label, found_why = self._from_elsewhere(text, ground, most)
        if label is SourceKind.AGENT_SELF_EDIT:
            found.host += self.parts(text)
            return label, "host", why
        self._shows(text, Origin(kind=label), found)
        return label, "spliced", found_why or why

    def _recall(self, piece: Piece, text: str, ground: TurnGround, found: TurnSum) -> SourceKind:
        """Read the place where an agent inserts recalled memories.

        A recalled memory has its own label; other text in the same place counts as unknown.
        """
        lowest = SourceKind.AGENT_SELF_EDIT
        memories: dict[str, SourceKind] = {}
        source = ground.book.sentences.source
        for line in resting(text.split("\n")):
            bare, parts = line.strip(), self.parts(line)
            its_own = bare.startswith(("<", *piece.host_lines)) and not _LIST.match(bare)
            # A line of a memory's text may begin like a line of the agent's program. The code below
            # tells the two apart, because it knows which memories were served.
            if its_own and all(source(one) in _OWN for one in parts):
                continue
            for one in parts:
                recalled = ground.book.recalls.get(one)
                label, memory_id = recalled or (SourceKind.UNKNOWN, "")
                memories[memory_id] = meet(memories.get(memory_id, label), label)
                lowest = meet(lowest, label)
                found.heard(Told((one,)), label)
        for memory_id, label in memories.items() or {"": SourceKind.AGENT_SELF_EDIT}.items():
            why = "" if memory_id or not memories else "not_recalled"
            found.row(Row("recall", label, len(text), why, memory_id=memory_id))
        found.texts.append(Text(text, Origin(kind=lowest)))
        return lowest

    # ---- reading texts of the agent's own program ------------------------------------------------

    def _host(self, said: Said, ground: TurnGround, found: TurnSum) -> None:
        parts = self.parts(said.text)
        label, why = SourceKind.AGENT_SELF_EDIT, ""
        if ground.begun:
            # The agent's program puts changed files and answers of hooks into a turn, but others
            # wrote them.
            label = told_between(said.text, self._rules)
        if label is not SourceKind.AGENT_SELF_EDIT:
            why = "rule"
            found.heard(self.elsewhere(said.text), label)
        here = *parts, *self.led_in(said.text, ground.book)
        if ground.book.recalls:
            _brings(self.somebodys(said.text), ground.book, found, 0, len(said.text))
        label, why = _said_before(here, ground.book, label, why)
        if ground.settled and said.voice is Voice.SYSTEM:
            new = self._not_standing(said.text, ground)
            if new:
                found.heard(self.elsewhere(*new), SourceKind.UNKNOWN)
                label, why = SourceKind.UNKNOWN, "system_changed"
        if label is SourceKind.AGENT_SELF_EDIT:
            found.host += (*parts, *self.standing(self.once.sentences(said.text), ground.model))
        else:
            found.texts.append(Text(said.text, Origin(kind=label)))
        channel = "system" if said.voice is Voice.SYSTEM else "catalogue"
        if said.call_id:
            found.answers.append(self.print(said.call_id))
        found.row(Row(channel, label, len(said.text), why))
        found.spans.append((LabelledSpan(0, len(said.text), label),))

    def described(
        self, said: Iterable[Said], ground: TurnGround, *, settled: bool
    ) -> tuple[SourceKind, list[int]]:
        """The label of a tool's description, and the fingerprints to recognise it by.

        If `settled`, a sentence that is not known yet makes the label `unknown`.
        """
        label, host = _HOSTS, list[int]()
        texts = [one.text for one in said]
        for at, text in enumerate((*texts, *across(texts))):
            sentences = self.once.sentences(text)
            prints = [*map(self.print, sentences)]
            host += (*prints, *self.standing(sentences, ground.model))
            here = *prints, *self.led_in(text, ground.book)
            label, _ = _said_before(here, ground.book, label)
            if settled and at < len(texts) and any(self._unknown_of(sentences, ground)):
                label = SourceKind.UNKNOWN
        return label, host if label is _HOSTS else []

    def _not_standing(self, text: str, ground: TurnGround) -> list[str]:
        """The unknown sentences in a later text of the agent's program.

        A sentence is unknown if nobody said it before and no splice rule covers it.
        """
        pieces = pieces_of(text, self._rules)
        own = Inside.AGENT_SELF_EDIT
        left = (text[one.start : one.end] for one in pieces if one.inside is not own)
        said = [one for part in left for one in self.once.sentences(part)]
        return [*self._unknown_of(said, ground)]

    def _unknown_of(self, sentences: Iterable[str], ground: TurnGround) -> Iterator[str]:
        """The sentences that nobody said before, whatever numbers stand in them."""
        source = ground.book.sentences.source
        for one in resting(sentences):
            (stands,) = self.standing((one,), ground.model)
            if source(self.print(one)) is None and source(stands) is not _HOSTS:
                yield one

    def _unplaced(self, said: Said, found: TurnSum) -> None:
        label = SourceKind.UNKNOWN
        self._shows(said.text, Origin(kind=label), found)
        found.row(Row("unplaced", label, len(said.text), "unplaced"))
        found.spans.append((LabelledSpan(0, len(said.text), label),))


def _said_before(
    prints: Iterable[int], book: Book, label: SourceKind, why: str = ""
) -> tuple[SourceKind, str]:
    """A text's label, lowered to that of whoever said its sentences first, and why."""
    for one in resting(prints):
        source = book.sentences.source(one)
        if source is not None and source.trust < label.trust:
            label, why = source, "said_before"
    return label, why


def _brings(prints: Iterable[int], book: Book, found: TurnSum, start: int, end: int) -> None:
    """Note each served memory of which a sentence stands in this part of the string.

    Memories with the same sentence are one: the one that was served last.
    """
    for one in resting(prints):
        there = book.recalls.get(one)
        if there is not None:
            found.recalled[RecalledSpan(len(found.spans), start, end, there[1])] = None


def _recalled(
    prints: Iterable[int], book: Book, label: SourceKind
) -> tuple[SourceKind, str] | None:
    """The lowest label of served memories with one of the sentences.

    None if it does not lower the given label.
    """
    found = [there[0] for one in resting(prints) if (there := book.recalls.get(one))]
    lowest = min(found, key=lambda one: one.trust, default=label)
    return (lowest, "recalled") if lowest.trust < label.trust else None


def _name(name: str | None) -> str:
    return (name or "")[:_NAME_LEN_MAX]


def _nobodys(ground: TurnGround) -> SourceKind:
    """The label of a text that adds nothing of its own to a session: the session's label."""
    return meet(SourceKind.MODEL_INFERENCE, ground.session.taint or SourceKind.UNKNOWN)
