"""What one turn of a conversation brings into a session: rows, foreign texts, recalled memories.

Only the structure of a request decides what counts as foreign: results of tools, sealed parts, and
blocks of unknown kinds. The words of a text decide nothing. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from policy.labels.derive import HOST
from policy.model import MemoryId, Origin, SourceKind
from proxy.dialects.model.transcript import ContextText, ModelCall, Turn, Voice
from proxy.dialects.strict_json.in_text import read_container
from proxy.ledger.fingerprinter import Fingerprinter, paragraphs, strings_in
from proxy.ledger.records import SegmentRow
from proxy.ledger.state import Book, Session, SessionCall
from proxy.seams.slices import resting

HOSTS_MAX: Final = 8
"""How many hosts of one call are named at most; a call that reads more hosts is rare."""
_LEN_MAX: Final = 2_048
# A scheme, two slashes, a user name at most, then the host (RFC 3986, 3.2).
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://(?:[^\s/?#@]{0,256}@)?([^\s/?#@:\"'<>]+)")


def hosts_in(strings: Iterable[str]) -> tuple[str, ...]:
    """The hosts of the URLs in a call's strings, each as `//name`, the first ones first.

    A string of more than `_LEN_MAX` characters is skipped: it is a text that the call writes, not
    an address that the call reads.
    """
    return tuple(islice(dict.fromkeys(_hosts(strings)), HOSTS_MAX))


def _hosts(strings: Iterable[str]) -> Iterator[str]:
    for text in strings:
        for found in _URL.finditer(text) if len(text) <= _LEN_MAX else ():
            yield HOST + found[1].rstrip(".").casefold()


NAME_LEN_MAX: Final = 128
_CHANNELS: Final = {
    Voice.SYSTEM: "system",
    Voice.CATALOGUE: "catalogue",
    Voice.USER: "user",
    Voice.MODEL: "model",
    Voice.TOOL: "tool",
    Voice.UNPLACED: "unplaced",
}


class RecalledSpan(NamedTuple):
    """A part of a string of a turn that contains a memory which was served before."""

    said: int  # the place of the string among the turn's strings
    start: int
    end: int
    memory_id: MemoryId


class Text(NamedTuple):
    """A text to be indexed, so that later copies of it are found."""

    text: str
    origin: Origin


class TurnRead(NamedTuple):
    """What a turn brings into a session.

    `reads` names the tools and hosts whose foreign texts the turn brings; None where it brings no
    foreign text.
    """

    rows: tuple[SegmentRow, ...]
    reads: frozenset[str] | None
    texts: tuple[Text, ...]
    recalled: tuple[RecalledSpan, ...]
    answers: tuple[int, ...]


class TurnReader(Fingerprinter):
    """Reads turns for one ledger, with the ledger's key."""

    def turn(
        self,
        turn: Turn,
        book: Book,
        session: str,
        calls: Mapping[str, ModelCall],
        *,
        reads_foreign: bool,
    ) -> TurnRead:
        """Read one turn of a session. `calls` maps ids to the calls of the request's history.

        `reads_foreign`: a setting of the operator, by which user turns contain others' texts.
        """
        rows: list[SegmentRow] = []
        reads: set[str] | None = None
        texts: list[Text] = []
        recalled: dict[RecalledSpan, None] = {}
        answers: dict[int, None] = {}
        for at, said in enumerate(resting(turn.said)):
            row, foreign = self._row(said, book, session, calls, reads_foreign=reads_foreign)
            if said.call_id:
                answers[self.print(said.call_id)] = None
            if foreign:
                name = origin_name(row.server, row.tool)
                reads = set[str]() if reads is None else reads
                reads.update((name,) if name else ())
                made = calls.get(said.call_id or "") if said.voice is Voice.TOOL else None
                hosts = () if made is None else hosts_in(strings_in(made.arguments))
                reads.update(hosts)
                if said.text:
                    texts.append(Text(said.text, origin_of(row, *hosts)))
            spans = [RecalledSpan(at, *span) for span in self._recalled(said, book)]
            recalled.update(dict.fromkeys(spans))
            rows += (
                SegmentRow("recall", one.end - one.start, memory_id=one.memory_id) for one in spans
            )
            rows.append(row)
        rows += (_call_row(call) for call in turn.calls)
        return TurnRead(
            tuple(rows),
            None if reads is None else frozenset(reads),
            tuple(texts),
            tuple(recalled),
            tuple(answers),
        )

    def _row(
        self,
        said: ContextText,
        book: Book,
        session: str,
        calls: Mapping[str, ModelCall],
        *,
        reads_foreign: bool,
    ) -> tuple[SegmentRow, bool]:
        """The row of one string, and whether it is foreign."""
        channel = "sealed" if said.sealed else _CHANNELS[said.voice]
        call = None if said.call_id is None else calls.get(said.call_id)
        memory = call is not None and self._keeps_memory(call, book, session)
        foreign = (
            said.sealed
            or said.voice is Voice.UNPLACED
            or (said.voice is Voice.USER and reads_foreign)
            # A result of a tool that keeps memory shows what the gate admitted: nothing foreign.
            or (said.voice is Voice.TOOL and not memory)
        )
        row = SegmentRow(
            channel,
            len(said.text),
            reads=foreign,
            server="" if call is None else name_of(call.server),
            tool="" if call is None else name_of(call.name),
            call_id=name_of(said.call_id),
        )
        return row, foreign

    def _keeps_memory(self, call: ModelCall, book: Book, session: str) -> bool:
        """Whether a result under this call's id is one of a tool that keeps memory.

        Hosts repeat ids, and nothing shows which of a session's calls under one id a result
        answers. So all calls of the session under this id must be calls of such tools.
        """
        made = self.seen(call, book)
        return made is not None and all(
            one.row.recalls
            for one in book.calls[made.row.key]
            if one is made or one.session == session
        )

    def _recalled(self, said: ContextText, book: Book) -> Iterator[tuple[int, int, MemoryId]]:
        if not book.recalls or said.voice is Voice.MODEL:
            return
        # A replay leaves out a tool's answer as a whole, and any other text by its paragraphs.
        whole = said.voice is Voice.TOOL
        for start, end in ((0, len(said.text)),) if whole else paragraphs(said.text):
            text = said.text[start:end]
            # In JSON without blanks a sentence joins the names around it, so strings are read too.
            texts = (text, *strings_in(read_container(text)))
            found = (one for part in texts for one in self.served_in(part, book.recalls))
            for memory_id in dict.fromkeys(book.recalls[one] for one in found):
                yield start, end, memory_id

    def seen(self, call: ModelCall, book: Book) -> SessionCall | None:
        """The stored call for a call in a request; None if no model was seen to make the call."""
        return book.call(self.print(call.call_id), self.arguments(call.arguments))

    def saw_reply(self, turn: Turn, session: Session, book: Book) -> bool:
        """Whether the ledger saw all words and calls of a model's turn when the model made them."""
        words = (one for one in turn.said if one.voice is Voice.MODEL)
        said = all(one in session.spoken for text in words for one in self.parts(text.text))
        return said and all(self._was_made(call, session, book) for call in turn.calls)

    def _was_made(self, call: ModelCall, session: Session, book: Book) -> bool:
        if self.seen(call, book) is not None:
            return True
        # The agent's program may have rewritten the arguments; their strings must have been said.
        parts = [one for text in strings_in(call.arguments) for one in self.parts(text)]
        return bool(parts) and all(one in session.spoken for one in parts)


def origin_name(server: str, tool: str) -> str:
    """The name of a tool as an origin: `server/tool`, or the one of both that is known."""
    return "/".join(one for one in (server, tool) if one)


def origin_of(row: SegmentRow, *hosts: str) -> Origin:
    """The origin of the text that a row describes: a tool's result, or an unknown source.

    `hosts` are those of the call; the first one is the text's resource.
    """
    return Origin(
        kind=SourceKind.TOOL_RESULT if row.channel == "tool" else SourceKind.UNKNOWN,
        server=row.server or None,
        tool=row.tool or None,
        call_id=row.call_id or None,
        resource=next(iter(hosts), None),
    )


def name_of(name: str | None) -> str:
    """A name cut to the length that a record stores; "" for None."""
    return (name or "")[:NAME_LEN_MAX]


def _call_row(call: ModelCall) -> SegmentRow:
    return SegmentRow(
        "call",
        0,
        server=name_of(call.server),
        tool=name_of(call.name),
        call_id=name_of(call.call_id),
    )
