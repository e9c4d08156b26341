"""The page on which a person reads a held candidate and decides it. No script, nothing remembered.

Nobody sees a candidate without the operator's key or a link that was made for it. There is no
cookie, so a foreign page has nothing to ride on; a reading decides nothing.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import msgspec

from policy.labels.floor import class_once_confirmed
from policy.labels.forwarded_call import call_of
from policy.model import CandidateId, PrincipalId
from proxy.admin.confirm_links import CONFIRM, BadLink
from proxy.admin.persons_word import PAGE
from proxy.seams.faults import MalformedRequest, NotOperator, Unauthenticated
from proxy.seams.observations import NEXT, whose_words
from proxy.seams.operation import HttpReply, HttpRequest
from proxy.transport.auth import operator_of
from storage.errors import StorageError, UnknownCandidate
from storage.values import Decision

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admin.confirm_links import Confirming
    from proxy.admin.persons_word import Deciding
    from proxy.transport.auth import Authenticator
    from proxy.transport.exchange import Incoming
    from storage.interfaces import Followed, MemoryReader
    from storage.values import HeldCandidate

ROUTE: Final = f"{CONFIRM}/{{}}"
LINK: Final = PrincipalId("confirm:link")
"""Approves on behalf of whoever had the link; no principal can be called so."""
FORM_BYTES_MAX: Final = 4_096
_PATH: Final = re.compile(rf"{CONFIRM}/([0-9a-f]{{32}})")
_HIDDEN: Final = frozenset({"Cf", "Cc", "Co", "Cn", "Zl", "Zp"})
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;"
    "color:#1b1f24;background:#fff}h1{font-size:1.3rem}pre{white-space:pre-wrap;overflow-wrap:"
    "anywhere;background:#f4f5f7;border:1px solid #d5d9df;border-radius:6px;padding:.8rem}"
    "dt{font-weight:600}dd{margin:0 0 .5rem;overflow-wrap:anywhere}mark{background:#ffd7d7}"
    "button,input{font:inherit;padding:.5rem 1rem;margin:.5rem .5rem 0 0;border-radius:6px;"
    "border:1px solid #8a929c}.no{background:#1f5fbf;color:#fff}.yes{background:#fff}"
    "@media(prefers-color-scheme:dark){body{background:#14171b;color:#e8eaed}pre{background:"
    "#1e2329;border-color:#39414b}mark{background:#7a2b2b;color:#fff}.yes{background:#222}"
    ".yes,input{color:inherit}input{background:#1e2329}}"
)
_YOURS_THEN: Final = "If you let it be remembered, all of it counts as your own words."
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_CSP: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = (
    ("Content-Security-Policy", _CSP),
    ("X-Frame-Options", "DENY"),
    # With "no-referrer" a browser hides where a form comes from, and it could be anybody's.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)


class _Refused(Exception):  # noqa: N818 - an answer
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class ConfirmPage(msgspec.Struct, frozen=True, kw_only=True):
    """Answers requests for `/confirm/<candidate id>`. Event loop only."""

    confirming: Confirming
    reader: MemoryReader
    deciding: Deciding
    followed: Followed
    had_read: Callable[..., tuple[str, ...] | None]
    authenticator: Authenticator

    def claims(self, path: str) -> bool:
        """Whether this page answers for the path."""
        return _PATH.fullmatch(path) is not None

    async def answer(self, incoming: Incoming) -> HttpReply:
        """The page, or a page that says why not.

        Raises:
            MalformedRequest: The form is too large.
        """
        try:
            return await self._answer(incoming)
        except _Refused as refused:
            return _page(refused.status, "Not confirmed", f"<p>{escape(refused.text)}</p>")
        except BadLink as bad:
            return _page(403, "Not confirmed", f"<p>{escape(bad.detail)}</p>")
        except Unauthenticated as failure:
            text = (
                "Too many attempts. Wait a minute." if failure.throttled else "That key is wrong."
            )
            return _page(429 if failure.throttled else 403, "Not confirmed", f"<p>{text}</p>")
        except NotOperator:
            return _page(403, "Not confirmed", "<p>That key is not an operator's.</p>")

    async def _answer(self, incoming: Incoming) -> HttpReply:
        head = incoming.head
        found = _PATH.fullmatch(head.path)
        if found is None or head.method not in {"GET", "HEAD", "POST"}:
            raise _Refused(405, "This page is read, and its form is sent.")
        candidate_id = CandidateId(found[1])
        if head.method != "POST":
            codes = [value for name, value in head.query if name == "code"]
            if not codes:
                return _page(200, "A memory waits for you", _key_form())
            return self._shown(self._held(candidate_id), codes[0])
        if int(head.headers.get("content-length", "0") or "0") > FORM_BYTES_MAX:
            raise MalformedRequest("body: larger than the form", status=413)
        form = _form(await incoming.complete(FORM_BYTES_MAX))
        return await self._decide(candidate_id, form, incoming)

    def _held(self, candidate_id: CandidateId) -> HeldCandidate:
        held = self.reader.held_candidate(candidate_id)
        if held is None or held.candidate is None:
            raise _Refused(
                410, "Nothing waits here any more: it was decided, or the link was used before."
            )
        return held

    def _shown(self, held: HeldCandidate, code: str) -> HttpReply:
        self.confirming.check(code, held)
        return _page(200, "Shall this be remembered?", self._body(held, code))

    async def _decide(
        self, candidate_id: CandidateId, form: dict[str, str], incoming: Incoming
    ) -> HttpReply:
        by = LINK
        key = form.get("key")
        if key is not None:
            # Before anything else is said of the candidate.
            by = operator_of(self.authenticator.require(key, incoming)).principal_id
        held = self._held(candidate_id)
        if key is not None and form.get("decision") == "show":
            return self._shown(held, self.confirming.code_for(held))
        if key is None:
            self.confirming.check(form.get("code", ""), held)
        match form.get("decision"):
            case "approve":
                decide = self.deciding.release
            case "deny":
                decide = self.deciding.deny
            case _:
                raise _Refused(422, "Nothing was decided.")
        try:
            outcome = await decide(candidate_id, by, PAGE)
        except UnknownCandidate:
            raise _Refused(410, "Somebody else has decided it meanwhile.") from None
        except StorageError:
            raise _Refused(503, "The store could not answer. Look at mnemogate review.") from None
        if outcome.decision is Decision.ADMIT:
            text = f"It is remembered as {outcome.memory_class.value}."
        elif form["decision"] == "deny":
            text = "It is not remembered, and its text is destroyed."
        else:
            reason = outcome.reason.value if outcome.reason else "unknown"
            text = f"It cannot be remembered all the same ({reason}); its text is destroyed."
        return _page(200, "Done", f"<p>{escape(text)}</p><p>You may close this page.</p>")

    def _body(self, held: HeldCandidate, code: str) -> str:
        candidate = held.candidate
        if candidate is None:
            raise _Refused(410, "Its text is gone.")
        call = call_of(candidate)
        becomes = class_once_confirmed(candidate, held.memory_class, held.basis).value
        rows = [
            ("Would be", f"{becomes} ({_CLASSES[becomes]})"),
            ("Change", candidate.change.value),
            ("Source", f"{held.source.value} ({held.basis.value})"),
            ("Asked by", held.principal_id),
            # The first sentence says why; the others are for the agent.
            ("Held because", f"{NEXT[held.reason].split('. ')[0]} ({held.reason.value})"),
            ("For", candidate.target),
        ]
        decided = self.followed.decided(held.candidate_id)
        culprit = None if decided is None else decided.verdict.culprit
        if culprit is not None:
            named = f"{culprit.server}, tool {culprit.tool}, call {culprit.call_id}"
            rows.append(("Its text was seen in", f"a {culprit.kind.value} of {named}"))
        if call is None:
            texts: tuple[str, ...] = (candidate.text or "",)
            rest = candidate.metadata_json or ""
        else:
            texts, rest = call.pieces, call.arguments
            rows += [("Tool", call.tool), ("About", call.key)]
        facts = "".join(f"<dt>{escape(name)}</dt><dd>{_seen(value)}</dd>" for name, value in rows)
        pieces = "".join(f"<pre>{_seen(text)}</pre>" for text in texts)
        arguments = f"<h2>Sent along</h2><pre>{_seen(rest)}</pre>" if rest else ""
        said = (candidate.text, candidate.metadata_json)
        words = whose_words(held.source, self.had_read(held.candidate_id, *said))
        whose = "" if words is None else f"<p>{_seen(words)} {_YOURS_THEN}</p>"
        return (
            "<p>Somebody else's text may stand here. Nothing in it is an instruction to you.</p>"
            f"{whose}{pieces}<dl>{facts}</dl>{arguments}"
            f'<form method="post" action="{CONFIRM}/{held.candidate_id}" autocomplete="off">'
            f'<input type="hidden" name="code" value="{escape(code)}">'
            '<button class="no" name="decision" value="deny">Do not remember</button>'
            '<button class="yes" name="decision" value="approve">Remember it</button></form>'
        )


_CLASSES: Final = {
    "L1": "policy: it steers what the agent does",
    "L2": "identity, preference or procedure",
    "L3": "knowledge",
    "L4": "an episode",
}


def _key_form() -> str:
    return (
        "<p>Show it with the operator's key.</p>"
        '<form method="post" autocomplete="off"><input type="hidden" name="decision" value="show">'
        '<input type="password" name="key" aria-label="Operator key" autocomplete="off" required'
        " autofocus>"
        '<button class="no">Show</button></form>'
    )


def _form(request: HttpRequest) -> dict[str, str]:
    body = request.body
    if len(body) > FORM_BYTES_MAX:
        raise MalformedRequest("body: larger than the form", status=413)
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=8)
    except ValueError:
        raise _Refused(422, "This is not the form of this page.") from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise _Refused(422, "This is not the form of this page.")
    return form


def _seen(text: str) -> str:
    """The text for a person's eyes: escaped, and what would not show is made to."""
    return "".join(_shown(char) for char in text)


def _shown(char: str) -> str:
    if char in "\n\t" or char.isascii():
        return escape(char)
    if unicodedata.category(char) in _HIDDEN:
        return f"<mark>U+{ord(char):04X}</mark>"
    return char


def _page(status: int, title: str, body: str) -> HttpReply:
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><meta name="robots" content="noindex">'
        f"<title>Mnemogate: {title}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{title}</h1>{body}</body></html>"
    )
    return HttpReply(
        status=status,
        body=text.encode("utf-8", "replace"),
        content_type="text/html; charset=utf-8",
        headers=_HEADERS,
    )
