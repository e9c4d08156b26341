"""The search for refused texts in one request, whose results are recorded.

A text that was withheld once stays withheld: it is recognised by the id of its call, or by its own
digest. So the same request gives the same bytes, also when the refused text's hashes were dropped
for room, and after a restart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, pairwise
from typing import Final, NamedTuple

from policy.model import MemoryClass
from policy.text.readings import readings_of
from policy.verdict import Reason
from policy.withheld.flow import Flow
from policy.withheld.refused_texts import PlaceSearch, Sight
from policy.withheld.words import SHORT_LEN_MIN, WordHasher, packed
from proxy.dialects.model.replies_withheld import Flows
from proxy.seams.observations import NOTICE, WITHDRAWN, withheld_notice
from proxy.withhold.convictions import HiddenVersion
from proxy.withhold.state import (
    BLOCK,
    RESULT,
    TEXT,
    NoticeParts,
    Record,
    WithheldEntry,
    WithheldRecord,
    WithheldTexts,
)

# A unique call id has a long row of letters or digits. Other ids are a server's counters, `call_0`
# or `functions.fetch:0`, which recur in the next conversation.
_RANDOM: Final = re.compile(r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{10,}")
_COUNTED: Final = re.compile(r"functions\..*:[0-9]+", re.DOTALL)
_PLAIN_LEN_MAX: Final = 256
# A content block that is left out has no notice in its place.
_NOTHING: Final = NoticeParts("reject", Reason.GATE_UNAVAILABLE, MemoryClass.L4)
_CODES: Final = "|".join(re.escape(reason.value) for reason in Reason)
_MARK: Final = re.compile(rf"Not (?:stored|stored yet|deleted yet|done) \((?:{_CODES})[,)]")
_WAITS: Final = re.compile(rf"Not stored yet \((?:{_CODES})[,)]")
# This mark stands for a notice, so that the words before and after the notice do not join.
_APART: Final = " mnemogate0notice "
_LINES: Final = "lines"
_PARAGRAPH: Final = "\n\n"


class Conversation:
    """The conversation of a request, with the words of its person and of the agent's program."""

    def __init__(
        self,
        sessions: frozenset[str] = frozenset(),
        typed: Callable[[], Iterable[str]] = tuple,
        own: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """`sessions` are its ids; `typed` returns the person's words.

        `typed` is called only where some text waits for a person. `own` returns what the agent's
        program says above the turns: refused words in it may be shown in the whole conversation.
        """
        self.sessions = sessions
        self._typed = typed
        self._own = own
        self._words: tuple[bytes, ...] | None = None
        self._opened: tuple[int, tuple[bytes, ...]] = (-1, ())

    def words(self, printer: WordHasher) -> tuple[bytes, ...]:
        """The typed words as hashes; they are compared only with texts that wait for a person."""
        if self._words is None:
            self._words = tuple(packed(printer.numbers(text)) for text in self._typed())
        return self._words

    def opened(self, kept: WithheldTexts, printer: WordHasher) -> tuple[bytes, ...]:
        """The refused stretches that the program's own words contain."""
        now = kept.withheld.generation
        if self._opened[0] != now:
            found: dict[bytes, None] = {}
            for text in self._own() if kept.told else ():
                name = printer.digest(text)
                at, stretches = kept.stood.get(name, (-1, ()))
                if at != now:
                    numbers = printer.numbers(text)
                    spans = kept.withheld.anywhere(numbers)
                    stretches = tuple(packed(numbers[one.start : one.end]) for one in spans)
                    kept.stood[name] = (now, stretches)
                found.update(dict.fromkeys(stretches))
            self._opened = now, tuple(found)
        return self._opened[1]


NOWHERE: Final = Conversation()


class _Found(NamedTuple):
    told: NoticeParts
    candidate_id: str
    # The refused text's key in the search; None if its hashes were dropped for lack of room.
    key: int | None


class _Shared:
    """What the searches in the different parts of one request have in common."""

    def __init__(self) -> None:
        self.fresh_count = 0
        self.records: list[Record] = []
        # The two places where texts are searched: the model's own words, and all other text.
        self.looking: dict[bool, PlaceSearch] = {}
        # The key under which a text is remembered as having nothing to withhold; made when first
        # needed.
        self.places: dict[bool, bytes] = {}


class RequestWithholding:
    """Searches one request's texts, and gives the notices in place of refused ones.

    Event loop only (`proxy.dialects.model.withheld.Asks`).
    """

    def __init__(
        self,
        kept: WithheldTexts,
        printer: WordHasher,
        conversation: Conversation = NOWHERE,
        *,
        noun: str = "text",
        by_model: bool = False,
        shared: _Shared | None = None,
    ) -> None:
        self._kept = kept
        self._printer = printer
        self._conversation = conversation
        self._noun = noun
        self._shared = shared or _Shared()
        looking = self._shared.looking.get(by_model)
        if looking is None:
            sight = Sight(conversation.sessions, by_model)
            looking = PlaceSearch(
                kept.withheld,
                sight,
                lambda: conversation.words(printer),
                lambda: conversation.opened(kept, printer),
            )
            self._shared.looking[by_model] = looking
        self.looking, self._sight = looking, looking.sight

    def of_the(self, noun: str, *, by_model: bool = False) -> RequestWithholding:
        """A search in the same request for another kind of text.

        `by_model` searches the model's own words.
        """
        return RequestWithholding(
            self._kept,
            self._printer,
            self._conversation,
            noun=noun,
            by_model=by_model,
            shared=self._shared,
        )

    @property
    def fresh_count(self) -> int:
        """How many texts were withheld now that were not before (`Asks.fresh_count`)."""
        return self._shared.fresh_count

    @property
    def records(self) -> list[Record]:
        """The records to be written before the request is forwarded."""
        return self._shared.records

    # ---- searching texts for refused ones --------------------------------------------------------

    def of(self, text: str) -> str | None:
        """The text to be sent instead of the given one; None if nothing refused is in it."""
        found = self._found(text)
        return None if found is None else self._notice(found)

    def spared(self, text: str) -> str:
        """The text with a notice in place of each sentence that convicted a memory."""
        kept = self._kept
        if not kept.convicted and not kept.spared:
            return text
        left = self.without_convicted(text)
        name = self._printer.digest("spared", text)
        if (left is text) == (name in kept.spared):
            # The text is not the one that was sent before, so that later signed thoughts, which are
            # bound to the text before them, do not fit any more.
            self._shared.fresh_count += 1
            if left is text:
                del kept.spared[name]
            else:
                kept.spared[name] = None
        return left

    def without_convicted(self, text: str) -> str:
        """The result of `spared`, without a record: for words that no model has read yet."""
        return self._kept.convicted.spared(text, self._withdrawn)

    def _withdrawn(self, one: HiddenVersion) -> str:
        return withheld_notice(
            self._noun, WITHDRAWN, Reason.GATE_UNAVAILABLE, one.candidate_id, whole=False
        )

    def _found(self, text: str) -> _Found | None:
        kept = self._kept
        if len(text) < SHORT_LEN_MIN or not (kept.withheld.any_in(self._sight) or kept.texts):
            return None
        name = self._printer.digest(text)
        known = self._known(kept.texts.get(name))
        if known is not None and known.key is None:
            # The refused text's hashes were dropped, or it belongs to another conversation. A text
            # that was withheld once stays withheld all the same.
            return known
        clean = name + self._place()
        if kept.clean.get(clean) == kept.withheld.generation:
            return None
        key = self._key_in(text)
        if key is None:
            kept.clean[clean] = kept.withheld.generation
            # Showing this text again would change the text to which later signed thoughts are
            # bound.
            self._shared.fresh_count += kept.uncovered.pop(name, 0)
            return None
        if known is None:
            self._stick(TEXT, name, key)
        return self._of_key(key) if known is None else known._replace(key=key)

    def _place(self) -> bytes:
        """A digest of this conversation and of the kind of words that are searched in it."""
        sight, places = self._sight, self._shared.places
        place = places.get(sight.by_model)
        if place is None:
            own = self._conversation.opened(self._kept, self._printer)
            named = sorted((*sight.sessions, *map(bytes.hex, own)))
            place = self._printer.digest(*named, str(sight.by_model))
            places[sight.by_model] = place
        return place

    def _key_in(self, text: str) -> int | None:
        """The key of a refused text that the given text contains in any reading."""
        for reading in readings_of(NOTICE.sub(_APART, text)):
            spans = self.looking.spans(self._printer.numbers(reading))
            if spans:
                return min(span.key for span in spans)
        return None

    def carries(self, text: str) -> bool:
        """Whether a text contains withheld words; nothing is recorded."""
        return self._key_in(text) is not None

    def carriers(self, parts: Sequence[str]) -> frozenset[int]:
        """The indexes of those parts of a text that share words with any refused text.

        Texts that wait for a person, and texts refused in other conversations, count as well.
        """
        numbers = [self._printer.numbers(one) for one in parts]
        spans = self._kept.withheld.anywhere([*chain.from_iterable(numbers)])
        ends = [0, *accumulate(map(len, numbers))]
        return frozenset(
            at
            for at, (start, end) in enumerate(pairwise(ends))
            if any(span.start < end and start < span.end for span in spans)
        )

    def notice_of(self, key: int) -> str:
        """The notice in place of a withheld stretch of the refused text with this key."""
        return self._notice(self._of_key(key))

    def _known(self, entry: WithheldEntry | None) -> _Found | None:
        """The record of a text that was withheld at this place before; None if there is none.

        The key of the refused text comes with the record, where that text is still known.
        """
        if entry is None or (entry.session and entry.session not in self._sight.sessions):
            return None
        lives = entry.key is not None and self._kept.withheld.knows(entry.key)
        return _Found(entry.told, entry.candidate_id, entry.key if lives else None)

    def _of_key(self, key: int) -> _Found:
        return _Found(self._kept.told[key], self._kept.candidate_of(key), key)

    def _notice(self, found: _Found, *, whole: bool = False) -> str:
        told = found.told
        return withheld_notice(
            self._noun, told.decision, told.reason, found.candidate_id, whole=whole
        )

    # ---- searching results and calls -------------------------------------------------------------

    def of_result(self, call_id: str, text: str) -> str | None:
        """The notice in place of a result that is withheld as a whole.

        None for any other result.
        """
        kept = self._kept
        own = _RANDOM.search(call_id) is not None and _COUNTED.fullmatch(call_id) is None
        name = self._printer.digest("call", call_id)
        known = self._known(kept.results.get(name)) if own else None
        if known is None:
            known = self._blanked(text)
            if known is not None and own and known.key is not None:
                self._stick(RESULT, name, known.key)
        return None if known is None else self._notice(known, whole=True)

    def _blanked(self, text: str) -> _Found | None:
        kept = self._kept
        name = self._printer.digest("result", text)
        known = self._known(kept.texts.get(name))
        clean = name + self._place()
        if known is not None or kept.clean.get(clean) == kept.withheld.generation:
            return known
        key = self._most_of(text) if kept.withheld.any_in(self._sight) else None
        if key is None:
            kept.clean[clean] = kept.withheld.generation
            self._shared.fresh_count += kept.uncovered.pop(name, 0)
            return None
        self._stick(TEXT, name, key)
        return self._of_key(key)

    def _most_of(self, text: str) -> int | None:
        withheld, numbers_of = self._kept.withheld, self._printer.numbers
        for reading in readings_of(NOTICE.sub(_APART, text)):
            key = withheld.mostly_in(numbers_of(reading), self.looking)
            if key is not None:
                return key
        plain = len(text) <= _PLAIN_LEN_MAX
        return withheld.whole(numbers_of(text), self.looking) if plain else None

    def of_call(self, text: str) -> str | None:
        """The notice in place of a call that contains a whole refused text; None for any other."""
        for reading in readings_of(NOTICE.sub(_APART, text)):
            key = self._kept.withheld.said_in(self._printer.numbers(reading), self.looking)
            if key is not None:
                return self._notice(self._of_key(key), whole=True)
        return None

    # ---- searching parts of a text ---------------------------------------------------------------

    def of_sentences(self, sentences: Sequence[str]) -> list[str | None]:
        """The replacement of each sentence of one text; None for a sentence that stays.

        A refused stretch may span several sentences.
        """
        return self._of_parts("sentences", sentences)

    def of_lines(self, lines: Sequence[str]) -> list[str | None]:
        """The replacement of each line of a text; None for a line that stays.

        Lines beside a removed line are removed as well if they are pieces of the same refused text.
        """
        return self._of_parts(_LINES, lines)

    def _of_parts(self, kind: str, parts: Sequence[str]) -> list[str | None]:
        name = self._printer.digest(kind, *parts)
        known = self._known(self._kept.texts.get(name))
        if known is not None and known.key is None:
            there = self._kept.texts[name].parts
            return [self._notice(known) if at in there else None for at in range(len(parts))]
        numbers = [self._printer.numbers(NOTICE.sub(_APART, one)) for one in parts]
        found = [self._found(one) for one in parts]
        end = 0
        spans = self.looking.spans([*chain.from_iterable(numbers)])
        for at, words in enumerate(numbers):
            start, end = end, end + len(words)
            inside = [span.key for span in spans if span.start < end and start < span.end]
            if inside and found[at] is None:
                found[at] = self._of_key(min(inside))
        if kind == _LINES:
            self._take_rest(numbers, found)
        gone = tuple(at for at, one in enumerate(found) if one is not None)
        if known is None and gone:
            key = next((one.key for one in found if one is not None and one.key is not None), None)
            if key is not None:
                self._stick(TEXT, name, key, gone)
        return [None if one is None else self._notice(one) for one in found]

    def _take_rest(self, numbers: list[tuple[int, ...]], found: list[_Found | None]) -> None:
        """Remove lines next to a removed one that are pieces of the same refused text."""
        lines = [at for at, words in enumerate(numbers) if words or found[at] is not None]
        for ordered in (lines, lines[::-1]):
            last: _Found | None = None
            for at in ordered:
                key = None if last is None else last.key
                rest = key is not None and self._kept.withheld.is_rest(numbers[at], key)
                if found[at] is None and rest:
                    found[at] = last
                last = found[at]

    # ---- leaving out signed thoughts -------------------------------------------------------------

    def bears(self, text: str) -> bool:
        """Whether words were taken out of this text earlier, when it was sent to the agent."""
        return NOTICE.search(text) is not None or _MARK.search(text) is not None

    def waits(self, text: str) -> bool:
        """Whether the text has the notice that a memory waits for a person, and a memory does."""
        return self._kept.withheld.holds and _WAITS.search(text) is not None

    def unbinds(self, name: str) -> bool:
        """Whether a signed block was left out of an earlier request."""
        return self._printer.digest("block", name) in self._kept.blocks

    def unbind(self, name: str) -> None:
        """Leave a signed block out of this and all later requests."""
        digest = self._printer.digest("block", name)
        if digest not in self._kept.blocks:
            self._write(WithheldRecord(self._kept.principal, BLOCK, digest, _NOTHING))

    def _stick(self, kind: int, name: bytes, key: int, parts: tuple[int, ...] = ()) -> None:
        self._shared.fresh_count += 1
        kept = self._kept
        told, candidate_id = kept.told[key], kept.candidate_of(key)
        session = kept.withheld.terms(key).session
        self._write(WithheldRecord(kept.principal, kind, name, told, candidate_id, parts, session))

    def _write(self, record: WithheldRecord) -> None:
        self._kept.apply(record)
        self._shared.records.append(record)


class ReplyWithholding:
    """Searches replies for refused texts (`proxy.dialects.model.replies_withheld.Withholds`)."""

    def __init__(
        self, kept: WithheldTexts, printer: WordHasher, conversation: Conversation
    ) -> None:
        self._kept = kept
        self._printer = printer
        self._asking = RequestWithholding(kept, printer, conversation, noun="reply", by_model=True)
        self._sight = Sight(conversation.sessions, by_model=True)

    @property
    def active(self) -> bool:
        """Whether any text is withheld at this moment."""
        return bool(self._kept.convicted) or self._kept.withheld.any_in(self._sight)

    def flow(self) -> Flows:
        """Make a filter for one text of a reply that begins now."""
        asking = self._asking
        flow = Flow(self._printer, asking.looking, asking.notice_of)
        return _Paragraphs(flow, asking.without_convicted) if self._kept.convicted else flow

    def carries(self, text: str) -> bool:
        """Whether a text contains withheld words."""
        return self._asking.without_convicted(text) is not text or self._asking.carries(text)


class _Paragraphs:
    """A filter in which each paragraph waits for its end, and is then `changed` whole.

    A sentence is recognised only by all of its words, so no word may be shown before the last one.
    """

    def __init__(self, flow: Flow, changed: Callable[[str], str]) -> None:
        self._flow = flow
        self._changed = changed
        self._rest = ""

    @property
    def holds(self) -> bool:
        """Whether a part of the text waits."""
        return bool(self._rest) or self._flow.holds

    def feed(self, text: str) -> str:
        """Add the next part of the text; return the part that may be forwarded now."""
        ended, gap, self._rest = (self._rest + text).rpartition(_PARAGRAPH)
        return self._flow.feed(self._changed(ended + gap))

    def end(self) -> str:
        """Return the rest of the text, at its end."""
        rest, self._rest = self._rest, ""
        return self._flow.feed(self._changed(rest)) + self._flow.end()
