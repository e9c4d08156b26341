"""Who said each sentence first to one principal's agent: its program or its person, or another.

A sentence of the program (the host) is not withheld if no other said the sentence before; otherwise
a steered model could have a rule of the host withheld by proposing to remember the rule. The table
is bounded: the least recently used sentence is forgotten, and then has no first speaker.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from policy.bounded import Bounded
from policy.withheld.words import packed, unpacked
from proxy.dialects.model.transcript import (
    ContextText,
    ModelReply,
    ModelRequest,
    Turn,
    Voice,
    Where,
)
from proxy.dialects.model.withheld import LeftUnchanged
from proxy.seams.by_identity import ByIdentity, ByPast, past_of
from proxy.seams.slices import RunsAside
from proxy.withhold.state import STUCK_MAX, FirstSpeakerRecord
from proxy.withhold.voices import HostSentence, SentencePrinter, TurnWords, UserString

Refused = Callable[[Sequence[str]], frozenset[int]]


Durable: TypeAlias = "asyncio.Future[None]"
"""Done once records are on disk; awaited under `asyncio.shield`, because several callers wait."""
OWN, OTHER, MODEL = 0, 1, 2
"""Marks of sentences: first said by host or person, by others, by a model."""
SENTENCES_MAX: Final = 120_000
"""The most sentences of one principal; about 12 MB."""
PRINCIPALS_MAX: Final = 64
TEXTS_MAX: Final = 4_096
"""The most system texts and descriptions of tools whose sentences are cached."""


class UncutParts(NamedTuple):
    """The parts of a request that were not cut into sentences yet."""

    turns: tuple[Turn, ...]
    texts: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of characters in all these parts."""
        said = sum(len(one.text) for turn in self.turns for one in turn.said)
        return said + sum(map(len, self.texts))

    def read(self, listener: SentencePrinter) -> UnnotedWords:
        """Cut these parts into sentences; return the prints of the sentences. Pure; any thread."""
        turns = zip(self.turns, map(listener.turn, self.turns), strict=True)
        return UnnotedWords(
            {id(turn): words for turn, words in turns},
            dict(zip(self.texts, map(listener.host, self.texts), strict=True)),
        )


class UnnotedWords(NamedTuple):
    """The words of a request's new parts: of turns, keyed by their identity, and of host texts."""

    turns: dict[int, TurnWords]
    texts: dict[str, tuple[HostSentence, ...]]


class FirstSpeakers:
    """The first speakers of one principal's sentences. Event loop only."""

    def __init__(self, listener: SentencePrinter) -> None:
        self._listener = listener
        # Whether any sentence was forgotten.
        self.forgot = False
        # The mark of each sentence. Once there are many, the least recently used one comes first.
        self._marks: dict[int, int] = {}
        self._fresh: dict[int, int] = {}
        self._turns: ByIdentity[Turn, TurnWords] = ByIdentity()
        self._pasts: ByPast[Turn, tuple[TurnWords, ...]] = ByPast()
        self._texts: OrderedDict[int, tuple[HostSentence, ...]] = OrderedDict()
        self._served = Bounded[int, None](STUCK_MAX)

    def restore(self, record: FirstSpeakerRecord) -> None:
        """Restore sentences from a record."""
        for one, mark in zip(unpacked(record.prints), record.marks, strict=True):
            self._note(one, mark)
        self._fresh.clear()
        self.forgot = self.forgot or not record.prints or len(self._marks) >= SENTENCES_MAX

    def everything(self) -> tuple[bytes, bytes]:
        """All sentences and their marks, for a snapshot."""
        return packed(tuple(self._marks)), bytes(self._marks.values())

    def take(self) -> tuple[bytes, bytes] | None:
        """Take the sentences that were recorded since the last call; None if there are none."""
        fresh, self._fresh = self._fresh, {}
        return (packed(tuple(fresh)), bytes(fresh.values())) if fresh else None

    # ---- recording who says what -----------------------------------------------------------------

    @property
    def _crowded(self) -> bool:
        return len(self._marks) > SENTENCES_MAX // 2

    def _note(self, one: int, mark: int) -> None:
        there = self._marks.get(one)
        if there is None:
            self._fresh[one] = mark
            self._marks[one] = mark
            if len(self._marks) > SENTENCES_MAX:
                del self._marks[next(iter(self._marks))]
                self.forgot = True
        elif self._crowded:
            del self._marks[one]
            self._marks[one] = there

    def note(self, prints: Iterable[int], mark: int = OTHER) -> None:
        """Record the first speaker of sentences: by default one other than host and person."""
        for one in prints:
            self._note(one, mark)

    def unserved(self, texts: Sequence[str]) -> list[str]:
        """Return the texts that were not given before, or all if some may have been forgotten."""
        fresh: list[str] = []
        crowded = self._crowded
        # An agent reads its memory again and again, so all texts together have a print as well.
        whole = self._listener.print("\0".join([*map(str, map(len, texts)), "", *texts]))
        if whole in self._served and not crowded:
            return fresh
        self._served[whole] = None
        for text in texts:
            name = self._listener.print(text)
            if text and (crowded or name not in self._served):
                fresh.append(text)
                self._served[name] = None
        return fresh

    def unread(self, request: ModelRequest) -> UncutParts:
        """The parts of a request that were not cut into sentences yet."""
        heard, _ = self._pasts.longest(request.turns, ())
        fresh = request.turns[heard:]
        turns = zip(fresh, self._turns.each(fresh), strict=True)
        texts = (said.text for said in _beside(request))
        return UncutParts(
            tuple(turn for turn, words in turns if words is None),
            tuple(text for text in texts if self._listener.print(text) not in self._texts),
        )

    def hear(self, request: ModelRequest, fresh: UnnotedWords, refused: Refused) -> RequestWords:
        """Record the new words of a request (`fresh`); return the words of the whole request.

        Texts above the turns count as said before the turns of a new conversation, and after the
        new turns of a conversation that continues. `refused` returns the indexes of the sentences
        that share words with a refused text.
        """
        users = (user for one in fresh.turns.values() for user in one.users)
        goes_on = len(fresh.turns) < len(request.turns) or any(
            user is not None and user.name in self._marks for user in users
        )
        if goes_on:
            self._turns_of(request, fresh.turns, refused)
        for text, parts in fresh.texts.items():
            self._host(text, parts, refused)
            self._texts[self._listener.print(text)] = _bare(parts)
        if not goes_on:
            self._turns_of(request, fresh.turns, refused)
        above = tuple([self._text(said.text) for said in _beside(request)])
        while len(self._texts) > TEXTS_MAX:
            self._texts.popitem(last=False)
        heard, before = self._pasts.longest(request.turns, ())
        after = self._turns.each(request.turns[heard:])
        read = (*before, *[one for one in after if one is not None])
        past = past_of(request.turns)
        if past is not None and heard < len(past.values):
            self._pasts[past] = read[: len(past.values)]
        if self._crowded:
            # Recording the sentences again marks them as recently used.
            inside = (parts for one in read for parts in _hosts_in(one))
            self.note(one for parts in (*above, *inside) for part in parts for one in part.prints)
            self.note(user.name for one in read for user in one.users if user is not None)
        return RequestWords(self, request, above, read)

    def _text(self, text: str) -> tuple[HostSentence, ...]:
        # Other requests may have displaced the text from the cache in the meantime.
        known = self._texts.get(self._listener.print(text))
        return self._listener.host(text) if known is None else known

    def _turns_of(
        self, request: ModelRequest, fresh: dict[int, TurnWords], refused: Refused
    ) -> None:
        """Record the words in the turns of a request that were not read before."""
        heard, before = self._pasts.longest(request.turns, ())
        begins = not any(words.by_model for words in before)
        for turn in request.turns[heard:]:
            words = self._turns.get(turn)
            if words is None:
                words = fresh[id(turn)]
                for user in words.users:
                    if user is not None:
                        self._user(user, begins=begins)
                self.note(words.models, MODEL)
                self.note(words.others)
                for said, user, host in zip(turn.said, words.users, words.hosts, strict=True):
                    for parts in (host, *(() if user is None else user.reminders)):
                        self._host(said.text, parts, refused)
                self._turns[turn] = _worn(words)
            begins = begins and not words.by_model

    def _user(self, user: UserString, *, begins: bool) -> None:
        if user.name not in self._marks:
            # Where a program sums up a conversation and begins anew with the summary, that turn has
            # more sentences of a model than new ones.
            marks = [self._marks.get(one) for one in user.prints]
            sums_up = begins and marks.count(MODEL) > marks.count(None)
            self._note(user.name, MODEL if sums_up else OWN)
        self.note(user.prints, OTHER if self.sums_up(user) else OWN)

    def _host(self, text: str, parts: tuple[HostSentence, ...], refused: Refused) -> None:
        """Record the host's sentences in a text that was not read before."""
        marks = self._marks
        if all(one in marks for part in parts for one in part.prints):
            return
        carrying = frozenset[int]()
        if self.forgot:
            # Some first speakers are forgotten, so a refused sentence may not be the host's own.
            carrying = refused([text[part.start : part.end] for part in parts])
        flows: dict[int, bool] = {}
        for at, part in enumerate(parts):
            flow = id(part.flows)
            if flow not in flows:
                flows[flow] = any(marks.get(one, OWN) != OWN for one in part.flows)
            other = at in carrying or flows[flow]
            other = other or any(marks.get(one, OWN) != OWN for one in part.told)
            self.note(part.prints, OTHER if other else OWN)

    # ---- asking who said it first ----------------------------------------------------------------

    def sums_up(self, user: UserString) -> bool:
        """Whether a string of a user turn is a summary in place of earlier turns."""
        return self._marks.get(user.name) == MODEL

    def own(self, parts: tuple[HostSentence, ...]) -> tuple[list[tuple[int, int]], bool]:
        """The stretches of a text that the host said first, and whether they are the whole text."""
        found: list[tuple[int, int]] = []
        whole = True
        goes_on = False
        for part in parts:
            if all(self._marks.get(one) == OWN for one in part.prints):
                start = found.pop()[0] if goes_on else part.start
                found.append((start, part.end))
                goes_on = True
            else:
                whole = goes_on = False
        return found, whole


class AllSpeakers:
    """The first speakers of all principals. Event loop only."""

    def __init__(
        self,
        listener: SentencePrinter,
        pace: RunsAside,
        keep: Callable[[list[FirstSpeakerRecord]], Durable],
    ) -> None:
        """`keep` queues records for the log, and returns when they are durable."""
        self._listener = listener
        self._pace = pace
        self._keep = keep
        self._of: OrderedDict[str, FirstSpeakers] = OrderedDict()
        # The principals of which everything was forgotten.
        self._gone = Bounded[str, None](STUCK_MAX)

    def of(self, principal: str) -> FirstSpeakers:
        """The first speakers of one principal."""
        found = self._of.get(principal)
        if found is None:
            found = self._of[principal] = FirstSpeakers(self._listener)
            found.forgot = principal in self._gone
            if len(self._of) > PRINCIPALS_MAX:
                self._gone[self._of.popitem(last=False)[0]] = None
        self._of.move_to_end(principal)
        return found

    def forget(self, principal: str) -> None:
        """Forget all sentences of a principal; the next snapshot of the log lacks them."""
        self._of.pop(principal, None)
        self._gone[principal] = None

    def restore(self, record: FirstSpeakerRecord) -> None:
        """Restore sentences from a record."""
        self.of(record.principal).restore(record)

    def records(self) -> Iterator[FirstSpeakerRecord]:
        """The records from which the first speakers of all principals can be restored."""
        for principal in self._gone:
            yield FirstSpeakerRecord(principal, b"", b"")
        for principal, one in self._of.items():
            yield FirstSpeakerRecord(principal, *one.everything())

    def take(self, principal: str) -> list[FirstSpeakerRecord]:
        """Take the records of a principal's sentences that are new since the last call."""
        fresh = self.of(principal).take()
        return [] if fresh is None else [FirstSpeakerRecord(principal, *fresh)]

    async def entered(
        self, principal: str, request: ModelRequest, refused: Refused
    ) -> tuple[RequestWords, Durable]:
        """Record who says what in a model request (`FirstSpeakers.hear`).

        Return the request's words, and a future that is done when the record is durable. The caller
        may queue more records before it waits: all of them are written together.

        Raises:
            StorageError: The record could not be written.
        """
        speakers = self.of(principal)
        unread = speakers.unread(request)
        fresh = await self._pace.aside(principal, unread.size, unread.read, self._listener)
        return speakers.hear(request, fresh, refused), self._kept(principal)

    async def replied(self, principal: str, reply: ModelReply) -> Durable:
        """Record what a model says and calls; return a future that is done when it is durable.

        Raises:
            StorageError: The record could not be written.
        """
        size = sum(map(len, reply.said))
        words = await self._pace.aside(principal, size, self._listener.reply, reply)
        self.of(principal).note(words.models, MODEL)
        self.of(principal).note(words.others)
        return self._kept(principal)

    async def saw(self, principal: str, texts: Sequence[str]) -> None:
        """Record texts that an agent was shown outside of model requests, as another's words.

        Raises:
            StorageError: The record could not be written.
        """
        fresh = self.of(principal).unserved(texts)
        size = sum(map(len, fresh))
        found = await self._pace.aside(principal, size, self._listener.others, fresh)
        self.of(principal).note(found)
        await asyncio.shield(self._kept(principal))

    def served(self, principal: str, texts: Sequence[str]) -> None:
        """Record the texts of memories that are served, as another's words."""
        speakers = self.of(principal)
        fresh = speakers.unserved(texts)
        if fresh:
            speakers.note(self._listener.others(fresh))

    def _kept(self, principal: str) -> Durable:
        records = self.take(principal)
        if records:
            return self._keep(records)
        nothing: Durable = asyncio.get_running_loop().create_future()
        nothing.set_result(None)
        return nothing


class RequestWords:
    """The words of one request, with what withholding leaves unchanged because of who said it."""

    def __init__(
        self,
        speakers: FirstSpeakers,
        request: ModelRequest,
        above: tuple[tuple[HostSentence, ...], ...],
        turns: tuple[TurnWords, ...],
    ) -> None:
        """`above` are the sentences of system texts and tools, `turns` those of each turn."""
        self._speakers = speakers
        self._request = request
        self._above = above
        self._turns = turns

    def hosts(self) -> Iterator[str]:
        """The stretches above and between the turns that the host was the first to say."""
        for said, (stretches, _) in self._own_above():
            yield from (said.text[start:end] for start, end in stretches)
        for _, _, said, _, host in self._strings():
            stretches, _ = self._speakers.own(host)
            yield from (said.text[start:end] for start, end in stretches)

    def leave(self, clean: frozenset[int] = frozenset()) -> LeftUnchanged:
        """The strings that withholding leaves unchanged; turns in `clean` need no search."""
        typed: dict[Where, tuple[tuple[int, int], ...]] = {}
        trusted: list[Where] = []
        for said, (stretches, whole) in self._own_above():
            if whole:
                trusted.append(said.where)
            elif stretches:
                typed[said.where] = tuple(stretches)
        for at, place, said, user, host in self._strings():
            if at in clean:
                continue
            hers = () if user is None or self._speakers.sums_up(user) else user.hers
            spans = [*hers]
            for parts in (host, *(() if user is None else user.reminders)):
                spans += self._speakers.own(parts)[0]
            if said.voice is Voice.SYSTEM and self._speakers.own(host)[1]:
                trusted.append(place)
            elif spans:
                typed[place] = tuple(spans)
        stands = tuple(dict.fromkeys(self.hosts()))
        return LeftUnchanged(typed=typed, trusted=frozenset(trusted), stands=stands, clean=clean)

    def typed(self) -> Iterator[str]:
        """What the person says in her turns, outside of tags."""
        for _, _, said, user, _ in self._strings():
            if user is not None and not self._speakers.sums_up(user):
                yield from (said.text[start:end] for start, end in user.hers)

    def _own_above(self) -> Iterator[tuple[ContextText, tuple[list[tuple[int, int]], bool]]]:
        for said, parts in zip(_beside(self._request), self._above, strict=True):
            yield said, self._speakers.own(parts)

    def _strings(
        self,
    ) -> Iterator[tuple[int, Where, ContextText, UserString | None, tuple[HostSentence, ...]]]:
        prefix = self._request.prefix
        for at, (turn, words) in enumerate(zip(self._request.turns, self._turns, strict=True)):
            for said, user, host in zip(turn.said, words.users, words.hosts, strict=True):
                if user is not None or host:
                    # If the conversation is a bare string in the body, its place has no index.
                    yield at, (*prefix, at, *said.where) if prefix else said.where, said, user, host


def _beside(request: ModelRequest) -> list[ContextText]:
    """The host's texts beside the turns: system texts and the descriptions of tools."""
    return [*request.system, *(said for _, texts in request.catalogue for said in texts)]


def _hosts_in(words: TurnWords) -> Iterator[tuple[HostSentence, ...]]:
    yield from words.hosts
    for user in words.users:
        yield from () if user is None else user.reminders


def _bare(parts: tuple[HostSentence, ...]) -> tuple[HostSentence, ...]:
    return tuple([part._replace(told=(), flows=()) for part in parts])


def _worn(words: TurnWords) -> TurnWords:
    """The words of a turn without the prints that are needed only to record them."""
    users = tuple(
        user
        if user is None
        else user._replace(prints=(), reminders=tuple(map(_bare, user.reminders)))
        for user in words.users
    )
    hosts = tuple(map(_bare, words.hosts))
    return TurnWords(words.by_model, users, hosts)
