"""The codes with which persons answer questions, and prints of those questions.

Codes that may still decide are in memory alone, so a restart ends them. The log of the session
ledger keeps keyed prints of each question, its codes and its answers, so that they can be taken out
of later requests. It contains no text and no code.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from policy.text.readings import readings_of
from proxy.dialects.model.confirm.block import answers_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policy.model import CandidateId, PrincipalId

_LOG: Final = logging.getLogger("mnemogate.confirm")
OPEN_MS: Final = 15 * 60_000
WRONG_MAX: Final = 3
EVERY_TURNS: Final = 10
GIVEN_MAX: Final = 1_000
"""Questions of one principal, and answers, that are still taken out; the newest count."""
SESSIONS_MAX: Final = 4_096
_PRINT_LEN: Final = 16
_APART: Final = re.compile(r"[^0-9A-Za-z]+")

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class GaveOut(msgspec.Struct, frozen=True, array_like=True):
    """The record of a question: prints of its text and codes, and the candidates it was about."""

    principal: str
    block: bytes
    codes: tuple[bytes, ...]
    candidates: tuple[str, ...]
    session: str


class TookAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The record of an answer: the print of the turn of a person that answered a question."""

    principal: str
    turn: bytes


class OfferedOnly(msgspec.Struct, frozen=True, array_like=True):
    """The record of whether a whole conversation offered only tools of the operator's list."""

    session: str
    listed: bool


ConfirmRecord = GaveOut | TookAnswer | OfferedOnly
TAGS: Final[dict[int, type[ConfirmRecord]]] = {80: GaveOut, 81: TookAnswer, 82: OfferedOnly}
_TAG_OF: Final = {kind: bytes([tag]) for tag, kind in TAGS.items()}
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODERS: Final = {tag: msgspec.msgpack.Decoder(kind) for tag, kind in TAGS.items()}


class OpenCode(NamedTuple):
    """A code with which a person may still decide.

    `stands` is the version of the memory that its candidate would change.
    """

    code: str
    candidate_id: CandidateId
    block: bytes
    session: str
    until_ms: int
    stands: int = 0


class _OfPrincipal:
    """The questions that persons of one principal were asked, and their answers."""

    def __init__(self) -> None:
        self.given: OrderedDict[bytes, GaveOut] = OrderedDict()
        self.answered: OrderedDict[bytes, None] = OrderedDict()
        self.open: dict[str, OpenCode] = {}
        self.claimed: OrderedDict[str, None] = OrderedDict()
        self.wrong: dict[bytes, int] = {}
        # For each answer of a person, by its keyed print, the result of the answer.
        self.told: OrderedDict[bytes, str] = OrderedDict()


class Codes:
    """Hands out codes and checks them. Event loop only.

    Implements `proxy.ledger.sessions.Keeps`.
    """

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.blake2b(b"confirm", key=key, digest_size=32).digest()
        self._kept: dict[str, _OfPrincipal] = {}
        self._offered: OrderedDict[str, bool] = OrderedDict()
        # For each session, the turns of a person since the last question.
        self._turns: OrderedDict[str, int] = OrderedDict()
        self._asked: set[str] = set()

    # ---- records for the log ---------------------------------------------------------------------

    def restore(self, record: bytes) -> None:
        """Apply one stored record. Records have to come in the order of writing."""
        decoder = _DECODERS.get(record[0]) if record else None
        if decoder is not None:
            self._apply(decoder.decode(record[1:]))

    def snapshot(self) -> Iterator[bytes]:
        """The records that a compacted log keeps instead of all that were written."""
        for principal, kept in self._kept.items():
            yield from map(_encoded, kept.given.values())
            yield from (_encoded(TookAnswer(principal, turn)) for turn in kept.answered)
        yield from (_encoded(OfferedOnly(*one)) for one in self._offered.items())

    def _do(self, record: ConfirmRecord) -> bytes:
        self._apply(record)
        return _encoded(record)

    def _apply(self, record: ConfirmRecord) -> None:
        match record:
            case GaveOut():
                _put(self._of(record.principal).given, record.block, record, GIVEN_MAX)
                _put(self._turns, record.session, 0, SESSIONS_MAX)
                self._asked.update(record.candidates)
            case TookAnswer():
                _put(self._of(record.principal).answered, record.turn, None, GIVEN_MAX)
            case OfferedOnly():
                _put(self._offered, record.session, record.listed, SESSIONS_MAX)

    def _of(self, principal: str) -> _OfPrincipal:
        return self._kept.setdefault(principal, _OfPrincipal())

    def _print(self, *parts: bytes | str) -> bytes:
        raw = [one if isinstance(one, bytes) else one.encode("utf-8", "replace") for one in parts]
        data = msgspec.msgpack.encode(raw)
        return hashlib.blake2b(data, key=self._key, digest_size=_PRINT_LEN).digest()

    # ---- what is known of conversations ----------------------------------------------------------

    def offered(self, session: str, *, listed: bool, first: bool) -> list[bytes]:
        """Note whether a request offered only tools of the operator's list; returns new records.

        A conversation whose beginning was not seen counts as one that offered other tools.
        """
        known = self._offered.get(session)
        stands = listed and (first if known is None else known)
        return [] if known is stands else [self._do(OfferedOnly(session, stands))]

    def only_listed(self, session: str) -> bool:
        """Whether this conversation never offered a tool that the operator had not listed."""
        return self._offered.get(session, False)

    def may_ask(self, session: str) -> bool:
        """Count a turn of a person that ends now; returns whether it may get a question."""
        turns = self._turns.get(session)
        if turns is None:
            return True
        _put(self._turns, session, turns + 1, SESSIONS_MAX)
        return turns + 1 >= EVERY_TURNS

    def was_asked(self, candidate_id: str) -> bool:
        """Whether a person was asked about this candidate."""
        return candidate_id in self._asked

    # ---- questions to persons, and their answers -------------------------------------------------

    def known(self, principal: PrincipalId) -> Known | None:
        """An object that recognises the questions this principal's persons were asked.

        None if none.
        """
        kept = self._kept.get(principal)
        return Known(self, principal) if kept is not None and kept.given else None

    def give_out(
        self, principal: PrincipalId, session: str, text: str, codes: Iterable[OpenCode]
    ) -> list[bytes]:
        """Note a question whose codes may decide from now on; returns records to be stored.

        The records are stored before the question is sent.
        """
        kept, block = self._of(principal), self._print("block", principal, text)
        opened = [one._replace(block=block) for one in codes]
        kept.open.update((one.code, one) for one in opened)
        prints = tuple(self._print("code", principal, one.code) for one in opened)
        candidates = tuple(str(one.candidate_id) for one in opened)
        return [self._do(GaveOut(principal, block, prints, candidates, session))]

    def take(self, principal: PrincipalId, turn: bytes) -> list[bytes]:
        """Note that this turn answered a question; returns records to be stored.

        The turn is taken out of requests from now on.
        """
        kept = self._of(principal)
        return [] if turn in kept.answered else [self._do(TookAnswer(principal, turn))]

    def claim(
        self, principal: PrincipalId, codes: Iterable[str], session: str, now_ms: int
    ) -> tuple[OpenCode, ...]:
        """Use up a person's codes, each for one decision.

        Returns (), and uses up no code, if any of them may not decide in this session now.
        """
        kept = self._of(principal)
        found = [kept.open.get(one) for one in codes]
        claimed = tuple(
            one
            for one in found
            if one is not None and one.session == session and now_ms < one.until_ms
        )
        if len(claimed) != len(found):
            return ()
        for one in claimed:
            del kept.open[one.code]
            _put(kept.claimed, one.code, None, GIVEN_MAX)
        return claimed

    def may_wait(
        self, principal: PrincipalId, block: bytes, codes: Iterable[str]
    ) -> tuple[str, ...]:
        """Those candidates of a question that may still wait; () if its codes were used already."""
        kept = self._of(principal)
        given = kept.given.get(block)
        decided = given is None or any(one in kept.claimed for one in codes)
        return () if decided or given is None else given.candidates

    def wrong(self, principal: PrincipalId, block: bytes) -> None:
        """Note a wrong answer to a question; the third one ends the question's codes."""
        kept = self._of(principal)
        kept.wrong[block] = kept.wrong.get(block, 0) + 1
        _LOG.warning("a wrong answer to a question", extra={"fields": {"principal": principal}})
        if kept.wrong[block] >= WRONG_MAX:
            self.void(principal, block, "wrong_answers")

    def void(self, principal: PrincipalId, block: bytes | None, why: str) -> None:
        """End the codes of one question, or of all questions of the principal."""
        kept = self._of(principal)
        gone = [one for one in kept.open.values() if block in {None, one.block}]
        for one in gone:
            del kept.open[one.code]
            fields = {"principal": principal, "candidate": one.candidate_id, "why": why}
            _LOG.warning("a code was voided", extra={"fields": fields})

    def waits(self, principal: PrincipalId, now_ms: int) -> bool:
        """Whether any code of this principal may still decide."""
        kept = self._kept.get(principal)
        if kept is None or not kept.open:
            return False
        for one in [one for one in kept.open.values() if one.until_ms <= now_ms]:
            del kept.open[one.code]
        return bool(kept.open)

    def void_if_in(
        self, principal: PrincipalId, texts: Iterable[str], why: str, session: str | None = None
    ) -> None:
        """End each code that stands in one of the given texts, in any reading of the text.

        Args:
            principal: The principal whose codes are ended.
            texts: Texts that somebody other than the person said or sent.
            why: The reason, for the log.
            session: Only codes of this session; None: of any.
        """
        kept = self._of(principal)
        for text in texts:
            looked_for = [one for one in kept.open.values() if session in {None, one.session}]
            if not looked_for:
                return
            plain = [
                made.upper()
                for reading in readings_of(text)
                for made in (reading, _APART.sub("", reading))
            ]
            for one in looked_for:
                if one.code in kept.open and any(one.code in made for made in plain):
                    self.void(principal, one.block, why)

    def told(self, principal: PrincipalId, turn: bytes) -> str | None:
        """The result of an answer of a person; None if that answer was not seen before."""
        return self._of(principal).told.get(turn)

    def tell(self, principal: PrincipalId, turn: bytes, told: str) -> None:
        """Keep the result of a person's answer, because the same request may come again."""
        _put(self._of(principal).told, turn, told, GIVEN_MAX)

    def print_of(self, principal: PrincipalId, block: bytes, turn: str) -> bytes:
        """The print of a person's turn that follows a question."""
        return self._print("turn", principal, block, " ".join(turn.split()).upper())

    # ---- lookups for `Known` ---------------------------------------------------------------------

    def block_of(self, principal: PrincipalId, text: str) -> bytes | None:
        """The keyed print of the question with this text; None if it was never asked."""
        block = self._print("block", principal, text)
        return block if block in self._of(principal).given else None

    def are_of(self, principal: PrincipalId, block: bytes | None, codes: Iterable[str]) -> bool:
        """Whether all codes of a turn belong to the given question.

        For None, to any one question.
        """
        kept = self._of(principal)
        if block is None:
            found = {one for given in kept.given.values() for one in given.codes}
        else:
            given = kept.given.get(block)
            found = set[bytes]() if given is None else set(given.codes)
        return all(self._print("code", principal, one) in found for one in codes)


class Known:
    """Implements `proxy.dialects.model.confirm.history.Ours` for one principal."""

    def __init__(self, codes: Codes, principal: PrincipalId) -> None:
        self._codes = codes
        self._principal = principal

    def block(self, text: str) -> bytes | None:
        """The keyed print of the question with this text; None if no such question was put."""
        return self._codes.block_of(self._principal, text)

    def answers(self, block: bytes | None, turn: str) -> bool:
        """Whether all codes in a turn belong to the given question, or for None to any question."""
        found = [one.code for one in answers_in(turn)]
        return bool(found) and self._codes.are_of(self._principal, block, found)


def _encoded(record: ConfirmRecord) -> bytes:
    return _TAG_OF[type(record)] + _ENCODER.encode(record)


def _put(kept: OrderedDict[_Key, _Value], key: _Key, value: _Value, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
