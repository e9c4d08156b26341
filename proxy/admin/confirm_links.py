"""Links that bring a person to a held candidate, and may let that person decide it.

The bare address asks for the operator's key. A link with a code is signed, and bound to the
candidate, its class, a nonce and an expiry. It is good for one decision: afterwards the candidate
is no longer held. Its holder may decide that one candidate, so it is made only for callers that
could decide without it, and goes to a person's own screen.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from policy.model import CandidateId, MemoryClass
from proxy.seams.environment import Environment
from proxy.seams.observations import CONFIRM
from proxy.settings.values import Address
from storage.values import HeldCandidate

LINK_S: Final = 900
_SIGNED_AS: Final = b"mnemogate confirmation v1\n"
_SIGNATURE_LEN: Final = 64
_CODE_LEN_MAX: Final = 512
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - what is not to be shown


class Confirmation(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The content of a link's code."""

    # The id of a candidate with its class, or that of a group.
    subject: str
    memory_class: MemoryClass | None
    nonce: str
    expires_at_ms: int


class BadLink(Exception):  # noqa: N818 - what the link is
    """The error for a code that was not made here for this candidate, or has expired.

    `detail` is a fixed text.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class ConfirmLinks:
    """Mints and reads links. Event loop only."""

    def __init__(
        self,
        seed: bytes,
        held: Callable[[CandidateId], HeldCandidate | None],
        surroundings: Environment,
    ) -> None:
        """`seed` is the 32-byte Ed25519 seed that promotion tokens are signed with."""
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self._held = held
        self._out = surroundings
        self._base: str | None = None

    def serve_at(self, address: Address | None, *, tls: bool, page_url: str | None) -> None:
        """Set the page's address; None: no page is served.

        If people reach the listener by another address, `page_url` is that address.
        """
        self._base = None
        if address is not None:
            host = _ANYWHERE.get(address.host, address.host)
            host = f"[{host}]" if ":" in host and not host.startswith("[") else host
            self._base = f"{'https' if tls else 'http'}://{host}:{address.port}"
        self._out.page.base = page_url or self._base

    def url_of(self, candidate_id: CandidateId) -> str | None:
        """The link to a held candidate's page; None where no page is served or nothing is held."""
        page = self._out.page.of(candidate_id)
        return None if page is None or self._held(candidate_id) is None else page

    def link_of(self, candidate_id: CandidateId) -> str | None:
        """The link to a held candidate's page with a code: its holder can decide without a key."""
        held = None if self._base is None else self._held(candidate_id)
        if held is None:
            return None
        code = self.code_for(candidate_id, held.memory_class)
        return f"{self._base}{CONFIRM}/{candidate_id}?code={code}"

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

    def check(self, code: str, subject: str, memory_class: MemoryClass | None = None) -> None:
        """Pass a code that is ours, in time, and for this group, or this candidate and class.

        Raises:
            BadLink: The code fails one of these tests.
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
