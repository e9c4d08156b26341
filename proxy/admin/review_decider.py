"""Releases and denies held candidates, with telemetry, and signs links to the page for deciding."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from policy.bounded import Bounded
from policy.model import CandidateId, MemoryClass, PrincipalId
from policy.verdict import Reason
from proxy.intercept.verdict_events import VerdictPlace, decided_event
from proxy.seams.environment import Environment
from proxy.seams.observations import Way, way_of
from proxy.settings.values import Address
from proxy.withhold.withholding import Withholding
from storage.audit import VerdictLeaf
from storage.ground.errors import UnknownCandidate
from storage.interfaces import MemoryReader, MemoryWriter
from storage.values import Decision, Denial, HeldCandidate, Outcome
from telemetry.events import TraceContext
from telemetry.propagation import recorded_parts

REVIEW = "review"
EXPIRY = "expiry"


class ReviewVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A person's verdict on a candidate, and its effect on what the proposing agent is shown."""

    outcome: Outcome
    # Ids of candidates denied earlier with the same text as the released candidate; this text is no
    # longer withheld.
    lifted: tuple[str, ...]
    # Whether the text is withheld from the agent that proposed it from now on.
    withheld: bool
    # Who writes the text if the candidate was admitted.
    way: Way
    # The principal that proposed the text; "" if the principal is unknown.
    principal_id: str


DECIDED_MAX: Final = 4_096


def decision_words(verdict: VerdictLeaf) -> str:
    """The end of a sentence for a person who comes after a decision: what, by whom and when."""
    if verdict.decision is Decision.HOLD:
        return ""
    at = f"{datetime.fromtimestamp(verdict.at_ms / 1_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if verdict.reason is Reason.HOLD_EXPIRED:
        return f": it expired undecided at {at}"
    word = "let in" if verdict.decision is Decision.ADMIT else "denied or refused"
    return f": {word} by {verdict.approved_by} at {at}"


class ReviewDecider(msgspec.Struct, frozen=True, kw_only=True):
    """Releases and denies held candidates, on the event loop.

    Each verdict is recorded for telemetry here, because no other code records a person's verdict as
    a span, a count or a log line.
    """

    reader: MemoryReader
    writer: MemoryWriter
    surroundings: Environment
    # The part that takes refused texts out of model requests; None where no model front is
    # configured.
    withholding: Withholding | None = None
    # By group, the candidate that was decided last since the start; leaves contain no group.
    decided: Bounded[str, CandidateId] = msgspec.field(
        default_factory=lambda: Bounded[str, CandidateId](DECIDED_MAX)
    )

    async def release(self, candidate_id: CandidateId, by: PrincipalId, way: str) -> ReviewVerdict:
        """Release a held candidate: the gate judges it again, with this person's approval.

        Raises:
            UnknownCandidate: No held candidate has this id.
            StorageError: The candidate could not be decided.
        """
        held, started_ns = self._before(candidate_id)
        outcome = await self.writer.release(candidate_id, by)
        self.surroundings.releases.announce()
        return self._ruled(held, self._told(held, outcome, way, started_ns))

    async def deny(self, candidate_id: CandidateId, by: PrincipalId, way: str) -> ReviewVerdict:
        """Deny a held candidate; its content is destroyed.

        Raises:
            UnknownCandidate: No held candidate has this id.
            StorageError: The candidate could not be decided.
        """
        held, started_ns = self._before(candidate_id)
        outcome = await self.writer.deny(candidate_id, by)
        return self._ruled(held, self._told(held, outcome, way, started_ns))

    def _keep(self, held: HeldCandidate | None) -> None:
        if held is not None:
            self.decided[held.group] = held.candidate_id

    def _ruled(self, held: HeldCandidate | None, outcome: Outcome) -> ReviewVerdict:
        self._keep(held)
        candidate = None if held is None else held.candidate
        way = way_of("" if candidate is None else candidate.target)
        principal_id = "" if held is None else held.principal_id
        withholding = self.withholding
        lifted: tuple[str, ...] = ()
        withheld = False
        if withholding is not None:
            lifted = withholding.heard(outcome)
            withheld = outcome.candidate_id in withholding.refused()
        return ReviewVerdict(
            outcome=outcome, lifted=lifted, withheld=withheld, way=way, principal_id=principal_id
        )

    def _before(self, candidate_id: CandidateId) -> tuple[HeldCandidate | None, int]:
        # The candidate's texts are read before the decision, because a decided candidate can no
        # longer be decrypted.
        return self.reader.held_candidate(candidate_id), self.surroundings.clock_ns()

    async def deny_many(
        self, candidate_ids: Sequence[CandidateId], by: PrincipalId, way: str, denial: Denial
    ) -> dict[CandidateId, bool]:
        """Deny as many held candidates as one transaction has time for.

        Returns a mapping of each candidate that was reached to whether it was held. Candidates that
        are missing in it were not reached: pass them again.

        Raises:
            StorageError: No candidate could be decided, or the key of a candidate's content could
                not be erased.
        """
        before = await asyncio.to_thread(
            lambda: {one: self.reader.held_candidate(one) for one in candidate_ids}
        )
        started_ns = self.surroundings.clock_ns()
        decided = await self.writer.deny_many(candidate_ids, by, denial)
        for candidate_id, outcome in decided.items():
            if outcome is None:
                continue
            self._told(before[candidate_id], outcome, way, started_ns)
            self._keep(before[candidate_id])
            if self.withholding is not None:
                self.withholding.heard(outcome, in_part=denial.struck is not None)
        return {candidate_id: outcome is not None for candidate_id, outcome in decided.items()}

    def expired(self, held: HeldCandidate, outcome: Outcome) -> None:
        """Record for telemetry that a held candidate expired undecided. Any thread."""
        self._told(held, outcome, EXPIRY, self.surroundings.clock_ns())

    def _told(
        self, held: HeldCandidate | None, outcome: Outcome, way: str, started_ns: int
    ) -> Outcome:
        if held is not None:
            out = self.surroundings
            trace_id, caller = recorded_parts(held.trace_id)
            span = VerdictPlace(
                # The decision is recorded in the trace of the original write, so that a reader of
                # that trace sees the outcome.
                context=TraceContext(
                    trace_id=trace_id or out.random_hex(16),
                    span_id=out.random_hex(8),
                    caller=caller,
                ),
                dialect=way,
                started_ns=started_ns,
                ended_ns=out.clock_ns(),
                epoch=self.reader.status().epoch,
            )
            out.record(decided_event(held, outcome, span))
        return outcome


LINK_S: Final = 900
_SIGNED_AS: Final = b"mnemogate confirmation v1\n"
_SIGNATURE_LEN: Final = 64
_CODE_LEN_MAX: Final = 512
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - what is not to be shown


class Confirmation(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The signed content of the code in a link to the page on which a person decides."""

    # The id of a candidate (its class is in `memory_class`), or the id of a group.
    subject: str
    memory_class: MemoryClass | None
    nonce: str
    expires_at_ms: int


class BadLink(Exception):  # noqa: N818 - what the link is
    """The error for a code that was not signed here for this candidate or group, or has expired.

    `detail` is a fixed text.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class ConfirmLinks:
    """Makes links to the pages on which people decide, and checks their codes. Event loop only."""

    def __init__(
        self,
        seed: bytes,
        held: Callable[[CandidateId], HeldCandidate | None],
        surroundings: Environment,
    ) -> None:
        """`seed` is the 32-byte Ed25519 seed with which promotion tokens are signed too."""
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self._held = held
        self._out = surroundings

    def serve_at(self, address: Address | None, *, tls: bool, page_url: str | None) -> None:
        """Set the address of the page; `address` is None if no page is served.

        If people reach the listener by another address, `page_url` is that address.
        """
        self._out.page.base = page_url
        if address is not None and page_url is None:
            host = _ANYWHERE.get(address.host, address.host)
            host = f"[{host}]" if ":" in host and not host.startswith("[") else host
            self._out.page.base = f"{'https' if tls else 'http'}://{host}:{address.port}"

    def url_of(self, candidate_id: CandidateId) -> str | None:
        """The link to a held candidate's page; None if it is not held, or no page is served."""
        page = self._out.page.of(candidate_id)
        return None if page is None or self._held(candidate_id) is None else page

    def link_of(self, candidate_id: CandidateId) -> str | None:
        """The link to a held candidate's page with a code: its holder can decide without a key."""
        page = self._out.page.of(candidate_id)
        held = None if page is None else self._held(candidate_id)
        if held is None:
            return None
        return f"{page}?code={self.code_for(candidate_id, held.memory_class)}"

    def code_for(self, subject: str, memory_class: MemoryClass | None = None) -> str:
        """A new signed code for the decision on a candidate of this class, or on a group."""
        confirmation = Confirmation(
            subject,
            memory_class,
            self._out.random_hex(8),
            self._out.now_ms() + LINK_S * 1_000,
        )
        payload = msgspec.msgpack.encode(confirmation)
        signature = self._key.sign(_SIGNED_AS + payload)
        return base64.urlsafe_b64encode(signature + payload).decode().rstrip("=")

    def open(self, code: str, candidate_id: CandidateId) -> None:
        """Accept the code of a link to this held candidate.

        Raises:
            BadLink: The code is not of a link to this candidate, or has expired.
            UnknownCandidate: No held candidate has this id.
        """
        held = self._held(candidate_id)
        if held is None:
            raise UnknownCandidate
        self.check(code, candidate_id, held.memory_class)

    def check(self, code: str, subject: str, memory_class: MemoryClass | None = None) -> None:
        """Accept a code that was signed here, has not expired, and is for this `subject` and class.

        Raises:
            BadLink: The code does not meet one of these conditions.
        """
        if len(code) > _CODE_LEN_MAX:
            raise BadLink("This link is not one of ours.")
        try:
            raw = base64.b64decode(code + "=" * (-len(code) % 4), altchars=b"-_", validate=True)
            signature, payload = raw[:_SIGNATURE_LEN], raw[_SIGNATURE_LEN:]
            self._key.public_key().verify(signature, _SIGNED_AS + payload)
            confirmation = msgspec.msgpack.decode(payload, type=Confirmation)
        except (binascii.Error, ValueError, InvalidSignature, msgspec.MsgspecError):
            raise BadLink("This link is not one of ours.") from None
        if confirmation.expires_at_ms <= self._out.now_ms():
            raise BadLink("This link has expired. Use the operator's key, or mnemogate review.")
        if (confirmation.subject, confirmation.memory_class) != (subject, memory_class):
            raise BadLink("This link is for another candidate.")
