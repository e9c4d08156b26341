"""The page on which a person reads what waits in a conversation, and decides it. No script.

Nobody sees a candidate without the operator's key or a link that was made for it, and reading
decides nothing. A browser asks for the key once (Basic, RFC 7617) and keeps it for this page alone:
a cookie it would hand to every port of the host, where an agent with a shell may listen. A request
that a foreign page makes a browser send lacks the candidate's code, and has a foreign `Origin`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import msgspec

from policy.labels.floor import class_once_confirmed
from policy.labels.forwarded_call import call_of
from policy.model import CandidateId, PrincipalId
from policy.text.visible import is_hidden, named
from proxy.admin.confirm_links import BadLink
from proxy.admin.persons_word import PAGE
from proxy.admin.views import filed_under
from proxy.seams.delivery import COUNTS, FOLLOWS
from proxy.seams.faults import MalformedRequest, NotOperator, Unauthenticated
from proxy.seams.observations import CLASS_WORDS, CONFIRM, NEXT, whose_words
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
SHOWN_MAX: Final = 50
LINK: Final = PrincipalId("confirm:link")
"""Approves on behalf of whoever had the link; no principal can be called so."""
FORM_BYTES_MAX: Final = 4_096
_PATH: Final = re.compile(rf"{CONFIRM}(?:/([0-9a-f]{{4,32}}))?")
_CHALLENGE: Final = (
    ("WWW-Authenticate", 'Basic realm="Mnemogate: the operator key as the password"'),
)
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;"
    "color:#1b1f24;background:#fff}h1{font-size:1.3rem}pre{white-space:pre-wrap;overflow-wrap:"
    "anywhere;background:#f4f5f7;border:1px solid #d5d9df;border-radius:6px;padding:.8rem}"
    "h2{font-size:1rem}dl{display:grid;grid-template-columns:auto 1fr;gap:.2rem .8rem}"
    "dt{font-weight:600}dd{margin:0;overflow-wrap:anywhere}hr{margin:1.5rem 0}"
    "summary{padding:.4rem 0}mark{background:#ffd7d7}"
    "button,input{font:inherit;padding:.5rem 1rem;margin:.5rem .5rem 0 0;border-radius:6px;"
    "border:1px solid #8a929c}.no{background:#1f5fbf;color:#fff}.yes{background:#fff}"
    "@media(prefers-color-scheme:dark){body{background:#14171b;color:#e8eaed}pre{background:"
    "#1e2329;border-color:#39414b}mark{background:#7a2b2b;color:#fff}.yes{background:#222}"
    ".yes,input{color:inherit}input{background:#1e2329}}"
)
_WARNING: Final = (
    "<p>Somebody else's text may stand here. Nothing in it is an instruction to you.</p>"
)
_BACK: Final = f'<p><a href="{CONFIRM}">All that waits</a></p>'
_GONE: Final = "Nothing waits here any more: it was decided, or the link was used before."
_YOURS_THEN: Final = "If you let it be remembered, all of it counts as your own words."
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_CSP: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = (
    ("Content-Security-Policy", _CSP),
    ("X-Frame-Options", "DENY"),
    # With the policy "no-referrer" a browser sends `Origin: null` with its forms, and any page
    # could send that.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)


class _Refused(Exception):  # noqa: N818 - an answer
    def __init__(self, status: int, text: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers


class ConfirmPage(msgspec.Struct, frozen=True, kw_only=True):
    """Answers for `/confirm` and `/confirm/<candidate id>`. Event loop only.

    `beside` returns the held candidates of the same conversation.
    """

    confirming: Confirming
    reader: MemoryReader
    deciding: Deciding
    followed: Followed
    had_read: Callable[..., tuple[str, ...] | None]
    beside: Callable[[CandidateId], frozenset[str]]
    authenticator: Authenticator

    def claims(self, path: str) -> bool:
        """Whether this page answers for the path."""
        return _PATH.fullmatch(path) is not None

    async def answer(self, incoming: Incoming) -> HttpReply:
        """The requested page, or a page that says why it cannot be shown.

        Raises:
            MalformedRequest: The form is too large.
        """
        back = ""
        try:
            by = self._operator(incoming)
            # A visitor with a link and without the operator's key sees one candidate, and no way to
            # others.
            back = "" if by is None or incoming.head.path == CONFIRM else _BACK
            return await self._answer(incoming, by, back)
        except _Refused as refused:
            text = _said(refused.text) + back
            return _page(refused.status, "Not confirmed", text, refused.headers)
        except BadLink as bad:
            return _page(403, "Not confirmed", _said(bad.detail) + back)

    async def _answer(self, incoming: Incoming, by: PrincipalId | None, back: str) -> HttpReply:
        head = incoming.head
        found = _PATH.fullmatch(head.path)
        if found is None or head.method not in {"GET", "HEAD", "POST"}:
            raise _Refused(405, "This page is read, and its form is sent.")
        candidate_id = CandidateId(found[1]) if found[1] else None
        if by is not None and candidate_id is not None:
            candidate_id = self._whole(candidate_id)
        if head.method == "POST":
            return await self._decide(candidate_id, by, incoming, back)
        codes = [value for name, value in head.query if name == "code"]
        if candidate_id is not None and codes and by is None:
            held = self._held(candidate_id)
            self.confirming.check(codes[0], held)
            return _page(200, "Shall this be remembered?", _WARNING + self._body(held, codes[0]))
        if by is None:
            text = "Reload this page and give the operator's key as the password. Any name will do."
            raise _Refused(401, text, _CHALLENGE)
        shown = await self._waiting(candidate_id)
        if not shown and candidate_id is not None:
            raise _Refused(410, _GONE)
        return _page(200, "What waits for you", (shown or _said("Nothing waits.")) + back)

    def _operator(self, incoming: Incoming) -> PrincipalId | None:
        """The operator whose key came with the request; None without a key."""
        header = incoming.head.headers.get("authorization")
        if header is None:
            return None
        scheme, _, credential = header.partition(" ")
        try:
            said = base64.b64decode(credential.strip(" "), validate=True).decode()
            key = said.partition(":")[2] if scheme.lower() == "basic" else ""
            return operator_of(self.authenticator.require(key, incoming)).principal_id
        except Unauthenticated as failure:
            if failure.throttled:
                raise _Refused(429, "Too many attempts. Wait a minute.") from None
            raise _Refused(401, "That key is wrong.", _CHALLENGE) from None
        except NotOperator:
            raise _Refused(401, "That key is not an operator's.", _CHALLENGE) from None
        except ValueError:
            raise _Refused(401, "That is no key.", _CHALLENGE) from None

    def _whole(self, begins: CandidateId) -> CandidateId:
        """The single waiting candidate whose id begins so, for an operator who typed a short id."""
        known = [one.candidate_id for one in self.reader.held()]
        found = [one for one in known if one.startswith(begins)]
        return found[0] if len(found) == 1 else begins

    def _held(self, candidate_id: CandidateId) -> HeldCandidate:
        held = self.reader.held_candidate(candidate_id)
        if held is None or held.candidate is None:
            raise _Refused(410, _GONE)
        return held

    async def _waiting(self, asked: CandidateId | None) -> str:
        """The held candidates of a conversation, or all: the newest of each target first."""
        wanted = None if asked is None else self.beside(asked) | {asked}
        all_held = sorted(self.reader.held(), key=lambda one: -one.held_at_ms)
        chosen = [one for one in all_held if wanted is None or one.candidate_id in wanted]
        by_target: dict[str, list[HeldCandidate]] = {}
        for one in await asyncio.to_thread(self._read, chosen[:SHOWN_MAX]):
            by_target.setdefault(_target_of(one), []).append(one)
        groups = sorted(
            by_target.values(), key=lambda group: all(one.candidate_id != asked for one in group)
        )
        bodies = [
            self._body(one, self.confirming.code_for(one), newer=place > 0)
            for group in groups
            for place, one in enumerate(group)
        ]
        more = len(chosen) - SHOWN_MAX
        tail = _said(f"{more} more wait: mnemogate review list.") if more > 0 else ""
        return _WARNING + "<hr>".join(bodies) + tail if bodies else ""

    def _read(self, chosen: list[HeldCandidate]) -> list[HeldCandidate]:
        """The held candidates with their texts, without those decided since the listing.

        Any thread.
        """
        read = (self.reader.held_candidate(one.candidate_id) for one in chosen)
        return [one for one in read if one is not None and one.candidate is not None]

    async def _decide(
        self,
        candidate_id: CandidateId | None,
        by: PrincipalId | None,
        incoming: Incoming,
        back: str,
    ) -> HttpReply:
        if int(incoming.head.headers.get("content-length", "0") or "0") > FORM_BYTES_MAX:
            raise MalformedRequest("body: larger than the form", status=413)
        form = _form(await incoming.complete(FORM_BYTES_MAX))
        if candidate_id is None:
            raise _Refused(422, "Nothing was decided.")
        # The code is needed even with a key, because a form that a foreign page sends has no code.
        self.confirming.check(form.get("code", ""), self._held(candidate_id))
        match form.get("decision"):
            case "approve":
                decide = self.deciding.release
            case "deny":
                decide = self.deciding.deny
            case _:
                raise _Refused(422, "Nothing was decided.")
        try:
            ruled = await decide(candidate_id, by or LINK, PAGE)
        except UnknownCandidate:
            raise _Refused(410, "Somebody else has decided it meanwhile.") from None
        except StorageError:
            raise _Refused(503, "The store could not answer. Look at mnemogate review.") from None
        outcome = ruled.outcome
        if outcome.decision is Decision.ADMIT:
            text = f"Allowed as {outcome.memory_class.value}: {FOLLOWS[ruled.way]}."
        elif form["decision"] == "deny":
            text = f"It is not remembered, and its text is destroyed. It {COUNTS}."
        else:
            reason = outcome.reason.value if outcome.reason else "unknown"
            text = f"It cannot be remembered all the same ({reason}); its text is destroyed."
        rest = "" if by is None else await self._waiting(candidate_id)
        if rest:
            return _page(200, "Done. The next", _said(text) + rest + back)
        return _page(200, "Done", _said(text) + _said("You may close this page.") + back)

    def _body(self, held: HeldCandidate, code: str, *, newer: bool = False) -> str:
        candidate = held.candidate
        if candidate is None:
            raise _Refused(410, "Its text is gone.")
        call = call_of(candidate)
        becomes = class_once_confirmed(candidate, held.memory_class, held.basis)
        first = [
            ("Would be", f"{becomes.value} ({CLASS_WORDS[becomes]})"),
            # The first sentence of the text gives the reason. The other sentences address the
            # agent, so they are left out.
            ("Waits because", f"{NEXT[held.reason].split('. ')[0]} ({held.reason.value})"),
            ("Change", candidate.change.value),
        ]
        filed = filed_under(candidate)
        if filed:
            first.append(("Filed under", filed))
        if newer:
            first.append(("Replaced by", "the one above, which asks for the same place later"))
        rows = [
            ("Source", f"{held.source.value} ({held.basis.value})"),
            ("Asked by", held.principal_id),
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
        pieces = "".join(f"<pre>{_seen(text)}</pre>" for text in texts)
        along = "Sent along" if call is None else 'Sent along ("#0" is the first text above)'
        arguments = f"<h2>{along}</h2><pre>{_seen(rest)}</pre>" if rest else ""
        said = (candidate.text, candidate.metadata_json)
        words = whose_words(held.source, self.had_read(held.candidate_id, *said))
        whose = "" if words is None else f"<p>{_seen(words)} {_YOURS_THEN}</p>"
        return (
            f"{whose}{pieces}{arguments}{_facts(first)}"
            f'<form method="post" action="{CONFIRM}/{held.candidate_id}" autocomplete="off">'
            f'<input type="hidden" name="code" value="{escape(code)}">'
            '<button class="no" name="decision" value="deny">Do not remember</button>'
            '<button class="yes" name="decision" value="approve">Remember it</button></form>'
            f"<details><summary>Where it comes from</summary>{_facts(rows)}</details>"
        )


def _facts(rows: list[tuple[str, str]]) -> str:
    told = (f"<dt>{escape(name)}</dt><dd>{_seen(value)}</dd>" for name, value in rows if value)
    return f"<dl>{''.join(told)}</dl>"


def _target_of(held: HeldCandidate) -> str:
    """The target of a change, such as a path; a new memory has only its own id."""
    candidate = held.candidate
    call = None if candidate is None else call_of(candidate)
    place = (candidate and candidate.memory_id) or (call and call.key) or held.candidate_id
    return f"{held.tenant}\n{'' if candidate is None else candidate.target}\n{place}"


def _said(text: str) -> str:
    return f"<p>{escape(text)}</p>"


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
    """The text for display: escaped, with invisible characters made visible."""
    return "".join(_shown(char) for char in text)


def _shown(char: str) -> str:
    if char in "\n\t" or char.isascii():
        return escape(char)
    return f"<mark>{named(char)}</mark>" if is_hidden(char) else char


def _page(
    status: int, title: str, body: str, headers: tuple[tuple[str, str], ...] = ()
) -> HttpReply:
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
        headers=(*_HEADERS, *headers),
    )
