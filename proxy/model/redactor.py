"""Removes withheld texts from headers, and from bodies that are no conversation.

If nothing is withheld from a principal, headers and bodies are forwarded byte for byte.
"""

from __future__ import annotations

from typing import Final

from policy.model import Principal
from proxy.dialects.model.bodies import (
    UnsearchedError,
    WithheldError,
    kept_headers,
    sifted,
    target_carries,
)
from proxy.dialects.strict_json.tolerant import Json
from proxy.model.ledger_coupling import LedgerCoupling
from proxy.model.upstream_model import shown_headers
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import HttpRequest
from proxy.transport.upstream import UpstreamReply

_KIND: Final = "content-type"
_ANY_KIND: Final = "application/octet-stream"
_CARRIES: Final = "withheld: {} carries a text that was refused as a memory"
_UNSEARCHED: Final = (
    "withheld: {} cannot be searched for texts that were refused as a memory; "
    "where there are such texts, only JSON and plain text in UTF-8 pass"
)
_TARGET: Final = "the path or query of this request"
_REQUEST: Final = "the body of this request"
_ANSWER: Final = "the answer to this request"


class Redactor:
    """Removes withheld texts from one principal's requests and answers.

    Event loop only.
    """

    def __init__(self, coupling: LedgerCoupling, principal: Principal) -> None:
        self._coupling = coupling
        self._principal = principal

    async def settled(self) -> None:
        """Wait until the principal's candidates are decided."""
        await self._coupling.settled(self._principal)

    @property
    def active(self) -> bool:
        """Whether any text is withheld from the principal."""
        return self._coupling.withholds(self._principal)

    def carries(self, text: str) -> bool:
        """Whether a text contains something withheld from the principal."""
        return self._coupling.carries(self._principal, text)

    def sieved(self, value: Json) -> Json:
        """A JSON value without the texts that are withheld from the principal."""
        return self._coupling.sieved(self._principal, value)

    def check_target(self, head: HttpRequest, path: str) -> None:
        """Refuse a path or query that contains something withheld: neither can be edited.

        Raises:
            MalformedRequest: The path or the query contains something withheld.
        """
        if self.active and target_carries(path, head.query, self):
            raise MalformedRequest(_CARRIES.format(_TARGET), status=403)

    def headers(self, headers: dict[str, str]) -> dict[str, str]:
        """The headers of a request or an answer, except those that contain something withheld."""
        return kept_headers(headers, self) if self.active else headers

    def request(self, raw: bytes, content_type: str) -> bytes:
        """The body of a request that asks no model, as it may be forwarded.

        Raises:
            MalformedRequest: The body contains something withheld, or cannot be searched.
        """
        return self._body(raw, content_type, _REQUEST)

    def answer(self, raw: bytes, content_type: str) -> bytes:
        """The body of an answer that is no conversation, as it may be forwarded.

        Raises:
            MalformedRequest: The body contains something withheld, or cannot be searched.
        """
        return self._body(raw, content_type, _ANSWER)

    def no_tokens(self) -> None:
        """Refuse a prompt of token numbers if any text is withheld from the principal.

        Raises:
            MalformedRequest: A text is withheld, and the numbers may spell it.
        """
        if self.active:
            raise MalformedRequest(_UNSEARCHED.format(_REQUEST), status=403)

    def kind_of(self, reply: UpstreamReply, default: str = _ANY_KIND) -> str:
        """An answer's content type; `default` if there is none, or it contains a withheld text."""
        kind = reply.headers.get(_KIND, default)
        return default if _KIND not in self.headers({_KIND: kind}) else kind

    def headers_of(self, reply: UpstreamReply) -> tuple[tuple[str, str], ...]:
        """The headers of the model API's answer that the agent gets, without withheld texts."""
        return tuple(self.headers(dict(shown_headers(reply))).items())

    def _body(self, raw: bytes, content_type: str, what: str) -> bytes:
        if not self.active:
            return raw
        try:
            return sifted(raw, content_type, self)
        except WithheldError:
            raise MalformedRequest(_CARRIES.format(what), status=403) from None
        except UnsearchedError:
            raise MalformedRequest(_UNSEARCHED.format(what), status=403) from None
