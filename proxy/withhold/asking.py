"""Asks about the texts of one request whether they carry what was refused, and keeps the answers.

Once a text was withheld it stays withheld: under the id of its call, and as the text it is. So the
same request gives the same bytes, also when the prints had to make room, and after a restart.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Final

from policy.model import MemoryClass
from policy.text.readings import readings_of
from policy.verdict import Reason
from policy.withheld.flow import Flow
from policy.withheld.words import SHORT_LEN_MIN
from proxy.seams.observations import observation_for
from proxy.withhold.state import BLOCK, RESULT, TEXT, Stuck, Told, put

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.withheld.words import Printer
    from proxy.withhold.state import Kept, Record

# An id of its own has letters or digits in a row that nobody else has. Others are counters of a
# server, `call_0` or `functions.fetch:0`, and come again in the next conversation.
_RANDOM: Final = re.compile(r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{10,}")
_COUNTED: Final = re.compile(r"functions\..*:[0-9]+", re.DOTALL)
_PLAIN_LEN_MAX: Final = 256
# Nobody is told anything in the place of a block that is left out.
_NOTHING: Final = Told("reject", Reason.GATE_UNAVAILABLE, MemoryClass.L4)
_CODES: Final = "|".join(re.escape(reason.value) for reason in Reason)
_MARK: Final = re.compile(rf"Not (?:stored|stored yet|deleted yet|done) \((?:{_CODES})[,)]")


def observed(told: Told) -> str:
    """The text that stands where something was withheld."""
    return observation_for(told.decision, told.reason, told.memory_class)


class Replies:
    """Implements `proxy.dialects.model.replies_withheld.Withholds`."""

    def __init__(self, kept: Kept, printer: Printer) -> None:
        self._kept = kept
        self._printer = printer

    @property
    def active(self) -> bool:
        """Whether anything is withheld at this moment."""
        return bool(self._kept.withheld)

    def flow(self) -> Flow:
        """A text that begins now."""
        told = self._kept.told
        return Flow(self._printer, self._kept.withheld, lambda key: observed(told[key]))

    def carries(self, text: str) -> bool:
        """Whether a text holds what is withheld."""
        return key_in(self._kept, self._printer, text) is not None


def key_in(kept: Kept, printer: Printer, text: str) -> int | None:
    """The key of a refused text that a text holds, under every spelling that is read."""
    for reading in readings_of(text):
        spans = kept.withheld.spans(printer.numbers(reading))
        if spans:
            return min(span.key for span in spans)
    return None


class Asking:
    """Implements `proxy.dialects.model.withheld.Asks` for one request. Event loop only."""

    def __init__(self, kept: Kept, printer: Printer) -> None:
        self._kept = kept
        self._printer = printer
        self.fresh_count = 0
        # What is to be written down before the request goes on.
        self.records: list[Record] = []

    def of(self, text: str) -> str | None:
        """What stands in the place of this text, or None where it carries nothing refused."""
        kept = self._kept
        if len(text) < SHORT_LEN_MIN or not (kept.withheld or kept.texts):
            return None
        name = self._printer.digest(text)
        known = kept.texts.get(name)
        if known is not None and (known.key is None or not kept.withheld.knows(known.key)):
            # Its print is gone, or was never ours: what was withheld stays so.
            return observed(known.told)
        if kept.clean.get(name) == kept.withheld.generation:
            return None
        key = key_in(kept, self._printer, text)
        if key is None:
            put(kept.clean, name, kept.withheld.generation)
            return None
        if known is None:
            told = kept.told[key]
            self._stick(TEXT, name, told, kept.candidate_of(key))
            return observed(told)
        return observed(known.told)

    def of_result(self, call_id: str, text: str) -> str | None:
        """The same for the result of a call."""
        kept = self._kept
        own = _RANDOM.search(call_id) is not None and _COUNTED.fullmatch(call_id) is None
        name = self._printer.digest("call", call_id)
        if own:
            told = kept.results.get(name)
            if told is not None:
                return observed(told)
        said = self.of(text)
        if said is None:
            plain = len(text) <= _PLAIN_LEN_MAX
            key = kept.withheld.whole(self._printer.numbers(text)) if plain else None
            if key is None:
                return None
            self._stick(TEXT, self._printer.digest(text), kept.told[key], kept.candidate_of(key))
        entry = kept.texts[self._printer.digest(text)]
        if own:
            self._stick(RESULT, name, entry.told)
        return observed(entry.told)

    def of_sentences(self, sentences: Sequence[str]) -> list[str | None]:
        """The same for the sentences of one text, which a refused stretch may run through."""
        kept = self._kept
        name = self._printer.digest("sentences", *sentences)
        known = kept.texts.get(name)
        if known is not None and (known.key is None or not kept.withheld.knows(known.key)):
            said = observed(known.told)
            return [said if at in known.parts else None for at in range(len(sentences))]
        answers = [self.of(one) for one in sentences]
        numbers = [self._printer.numbers(one) for one in sentences]
        spans = kept.withheld.spans([*chain.from_iterable(numbers)])
        end = 0
        for at, words in enumerate(numbers):
            start, end = end, end + len(words)
            inside = [span.key for span in spans if span.start < end and start < span.end]
            if inside and answers[at] is None:
                answers[at] = observed(kept.told[min(inside)])
        if known is None and spans:
            key = min(span.key for span in spans)
            parts = tuple(at for at, answer in enumerate(answers) if answer is not None)
            entry = Stuck(kept.principal, TEXT, name, kept.told[key], kept.candidate_of(key), parts)
            self._write(entry)
        return answers

    def bears(self, text: str) -> bool:
        """Whether something was taken out of this text before, on its way to the agent."""
        return _MARK.search(text) is not None

    def unbinds(self, name: str) -> bool:
        """Whether a signed block was left out before."""
        return self._printer.digest("block", name) in self._kept.blocks

    def unbind(self, name: str) -> None:
        """Leave a signed block out from now on."""
        digest = self._printer.digest("block", name)
        if digest not in self._kept.blocks:
            self._write(Stuck(self._kept.principal, BLOCK, digest, _NOTHING))

    def _stick(self, kind: int, name: bytes, told: Told, key_of: str = "") -> None:
        self._write(Stuck(self._kept.principal, kind, name, told, key_of))
        self.fresh_count += 1

    def _write(self, record: Stuck) -> None:
        self._kept.apply(record)
        self.records.append(record)
