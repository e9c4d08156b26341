"""The page on which a person reads held candidates, group by group, and decides. No script.

A candidate is shown only with the operator's key or a link made for the candidate, and reading
decides nothing. A browser asks for the key once (Basic, RFC 7617) and sends it to this page alone.
It would send a cookie to every port of the host, where an agent with a shell may listen. A request
that a foreign page makes a browser send lacks the candidate's code, and has a foreign `Origin`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from html import escape
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from policy.labels.floor import class_once_confirmed
from policy.labels.forwarded_call import call_of
from policy.model import Candidate, CandidateId, PrincipalId
from policy.text.skeleton import escaped, is_plain
from proxy.admin.queue import Queue
from proxy.admin.review_decider import PAGE, BadLink, ConfirmLinks
from proxy.admin.views import filed_under
from proxy.admin.wire.review_queue import LINES_SHOWN, Act, ActView, GroupView, LineView
from proxy.seams.faults import MalformedRequest, NotFound, NotOperator, Unauthenticated
from proxy.seams.observations import CLASS_WORDS, CONFIRM, COUNTS, FOLLOWS, NEXT, Way
from proxy.seams.operation import HttpReply, HttpRequest
from proxy.transport.auth import Authenticator, operator_of
from proxy.transport.exchange import RequestHead
from storage.features.upstream.upstream_state import UpstreamState
from storage.ground.errors import StorageError
from storage.interfaces import MemoryReader
from storage.values import HeldCandidate

ROUTE: Final = f"{CONFIRM}/{{}}"
SHOWN_MAX: Final = 20
LINK: Final = PrincipalId("confirm:link")
"""The principal recorded for a decision made with a link; no other principal has this name."""
FORM_BYTES_MAX: Final = 16_384
_FIELDS_MAX: Final = LINES_SHOWN + 8
_PATH: Final = re.compile(rf"{CONFIRM}(?:/(g[0-9a-f]{{14}}|[0-9a-f]{{4,32}}))?")
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
_ASKS_KEY: Final = (
    "Reload this page and give the operator's key as the password. Any name will do. "
    "Without a key: on the gate's machine, `mnemogate key list` names it, and `mnemogate key "
    "rotate KEY_ID` makes and shows a new one; or decide there with `mnemogate review`."
)
_GONE: Final = "Nothing waits here any more: it was decided, or the link was used before."
_YOURS_THEN: Final = "What you let in counts as your own words. Strike out what is not so."
_GONE_THEN: Final = "What you allow is removed. Strike out what stays."
_NONE_OF_IT: Final = "Remember none of it"
_STORED: Final = "Stored now, and changed or removed by this"
_READ: Final = "Proposed after other people's text had been read"
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_CSP: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = (
    ("Content-Security-Policy", _CSP),
    ("X-Frame-Options", "DENY"),
    # With the policy "no-referrer" a browser would send `Origin: null` with this page's form, which
    # any other page could send too.
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
    """Answers for `/confirm`, `/confirm/<group>` and `/confirm/<candidate>`. Event loop only."""

    confirming: ConfirmLinks
    reader: MemoryReader
    queue: Queue
    followed: UpstreamState
    authenticator: Authenticator

    def claims(self, path: str) -> bool:
        """Whether this page answers for the path."""
        return _PATH.fullmatch(path) is not None

    async def answer(self, incoming: RequestHead) -> HttpReply:
        """The requested page, or a page with the reason why it cannot be shown.

        Raises:
            MalformedRequest: The form is too large.
        """
        back = ""
        try:
            by = self._operator(incoming)
            # A visitor with a link and without the operator's key sees one candidate, and no link
            # to others.
            back = "" if by is None or incoming.head.path == CONFIRM else _BACK
            return await self._answer(incoming, by, back)
        except _Refused as refused:
            text = _said(refused.text) + back
            return _page(refused.status, "Not confirmed", text, refused.headers)
        except BadLink as bad:
            return _page(403, "Not confirmed", _said(bad.detail) + back)

    async def _answer(self, incoming: RequestHead, by: PrincipalId | None, back: str) -> HttpReply:
        head = incoming.head
        found = _PATH.fullmatch(head.path)
        if found is None or head.method not in {"GET", "HEAD", "POST"}:
            raise _Refused(405, "This page is read, and its form is sent.")
        subject = found[1]
        if by is not None and subject is not None:
            subject = self._group_of(subject)
        if head.method == "POST":
            return await self._decide(subject, by, incoming, back)
        codes = [value for name, value in head.query if name == "code"]
        if subject is not None and codes and by is None:
            self._check(codes[0], subject)
            body = await self._group(subject, codes[0])
            return _page(200, "Do you allow this?", _WARNING + body)
        if by is None:
            raise _Refused(401, _ASKS_KEY, _CHALLENGE)
        shown = await self._waiting(subject)
        return _page(200, "What waits for you", (shown or _said("Nothing waits.")) + back)

    def _operator(self, incoming: RequestHead) -> PrincipalId | None:
        """The operator whose key is in the request; None if the request has no key."""
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

    def _group_of(self, begins: str) -> str:
        """The group of the one held candidate whose id begins with `begins`; else `begins`."""
        found = {one.group for one in self.reader.held() if one.candidate_id.startswith(begins)}
        return found.pop() if len(found) == 1 else begins

    def _check(self, code: str, subject: str) -> None:
        """Check a link's code for a held candidate, or a form's code for a pending group."""
        known = {one.candidate_id: one.memory_class for one in self.reader.held()}
        waiting = {one.group for one in self.reader.held()} | known.keys()
        if subject not in waiting:
            raise _Refused(410, _GONE)
        self.confirming.check(code, subject, known.get(CandidateId(subject)))

    async def _waiting(self, group: str | None) -> str:
        """The forms of one group, or of all groups if None: `SHOWN_MAX` at most, newest first."""
        groups = [group]
        if group is None:
            held = sorted(self.reader.held(), key=lambda one: -one.held_at_ms)
            groups = [*dict.fromkeys(one.group for one in held)]
        bodies = [
            await self._group(one, self.confirming.code_for(one))
            for one in groups[:SHOWN_MAX]
            if one is not None
        ]
        more = len(groups) - SHOWN_MAX
        tail = _said(f"Waiting besides: {more}; mnemogate review list.") if more > 0 else ""
        return _WARNING + "<hr>".join(bodies) + tail if bodies else ""

    async def _decide(
        self, subject: str | None, by: PrincipalId | None, incoming: RequestHead, back: str
    ) -> HttpReply:
        if int(incoming.head.headers.get("content-length", "0") or "0") > FORM_BYTES_MAX:
            raise MalformedRequest("body: larger than the form", status=413)
        form = _form(await incoming.complete(FORM_BYTES_MAX))
        if subject is None:
            raise _Refused(422, "Nothing was decided.")
        # The code is required even with a key: a browser sends the key also with a foreign page's
        # form, which has no code.
        self._check(form.code, subject)
        decide = {"approve": self.queue.release, "deny": self.queue.deny}.get(form.decision)
        if decide is None:
            raise _Refused(422, "Nothing was decided.")
        try:
            done = await decide(subject, form.act, by or LINK, PAGE)
        except NotFound:
            raise _Refused(410, "What you were shown was decided meanwhile. Look again.") from None
        except StorageError:
            raise _Refused(503, "The store could not answer. Look at mnemogate review.") from None
        told = "".join(map(_said, _told(done)))
        rest = "" if by is None or not self.reader.held() else await self._waiting(None)
        if rest:
            return _page(200, "Done. The next", told + rest + back)
        return _page(200, "Done", told + _said("You may close this page.") + back)

    async def _group(self, subject: str, code: str) -> str:
        """The form of a group, with its held texts by session and the buttons that decide."""
        try:
            group = await self.queue.group(subject)
        except NotFound:
            raise _Refused(410, _GONE) from None
        parts = await asyncio.to_thread(self._sections, group)
        more = _said(f"Lines that wait after these: {group.more}.") if group.more else ""
        rows = [("For", group.place), ("Asked by", group.principal), ("Tenant", group.tenant)]
        removes = not any(line.comes for line in group.lines)
        no, yes = ("Keep all of it", "Remove it") if removes else (_NONE_OF_IT, "Let it in")
        return (
            f"{_facts(rows)}{_said(_GONE_THEN if removes else _YOURS_THEN)}"
            f'<form method="post" action="{CONFIRM}/{escape(subject)}" autocomplete="off">'
            f'<input type="hidden" name="code" value="{escape(code)}">'
            f'<input type="hidden" name="shown" value="{group.shown}">{parts}{more}'
            f'<button class="no" name="decision" value="deny">{no}</button>'
            f'<button class="yes" name="decision" value="approve">{yes}</button></form>'
        )

    def _sections(self, group: GroupView) -> str:
        """The texts of a group by session; last those proposed after foreign text was read.

        Any thread.
        """
        made: dict[tuple[bool, str], list[str]] = {}
        for line in group.lines:
            made.setdefault((line.after_reading, line.sessions[0]), []).append(self._line(line))
        read = False
        found: list[str] = []
        for (after_reading, session), lines in sorted(made.items(), key=lambda one: one[0][0]):
            if after_reading and not read:
                found.append(f"<h2>{_READ}</h2>")
                read = True
            name = f"Conversation {session[:8]}" if session else "No conversation is known"
            found.append(f"<h3>{_seen(name)}</h3>{''.join(lines)}")
        return "".join(found)

    def _line(self, line: LineView) -> str:
        held = self.reader.held_candidate(CandidateId(line.candidates[0]))
        strike = (
            f'<label><input type="checkbox" name="strike" value="{line.id}"> strike out</label>'
        )
        goes = "" if line.comes else "<p>This goes:</p>"
        said = f"<pre>{_seen(line.text)}</pre>"
        if held is not None and held.candidate is not None:
            said = self._whole(held, held.candidate) if line.whole else said + self._why(held)
        now = "" if line.stored is None else f"<h4>{_STORED}</h4><pre>{_seen(line.stored)}</pre>"
        return f"{goes}{now}{said}{strike}"

    def _why(self, held: HeldCandidate) -> str:
        # Of the reason's text only the first sentence is for a person. The other sentences address
        # the agent.
        return _facts(
            [("Waits because", f"{NEXT[held.reason].split('. ')[0]} ({held.reason.value})")]
        )

    def _whole(self, held: HeldCandidate, candidate: Candidate) -> str:
        """The whole content of a candidate that is not split into lines, and its provenance."""
        call = call_of(candidate)
        becomes = class_once_confirmed(candidate, held.memory_class, held.basis)
        first = [
            ("Would be", f"{becomes.value} ({CLASS_WORDS[becomes]})"),
            ("Change", candidate.change.value),
            ("Filed under", filed_under(candidate)),
        ]
        rows = [("Source", f"{held.source.value} ({held.basis.value})"), ("For", candidate.target)]
        decided = self.followed.decided(held.candidate_id)
        culprit = None if decided is None else decided.verdict.culprit
        if culprit is not None:
            of = f"{culprit.server}, tool {culprit.tool}" if culprit.server else culprit.tool
            found = f"a {culprit.kind.value} of {of}, call {culprit.call_id}"
            rows.append(("Its text was seen in", found))
        if call is None:
            # A deletion has no text, and an empty box would look like an empty text.
            texts: tuple[str, ...] = () if candidate.text is None else (candidate.text,)
            rest = candidate.metadata_json or ""
        else:
            texts, rest = call.pieces, call.arguments
            rows += [("Tool", call.tool), ("About", call.key)]
        pieces = "".join(f"<pre>{_seen(text)}</pre>" for text in texts)
        along = "Sent along" if call is None else 'Sent along ("#0" is the first text above)'
        arguments = f"<h4>{along}</h4><pre>{_seen(rest)}</pre>" if rest else ""
        return (
            f"{pieces}{arguments}{_facts(first)}{self._why(held)}"
            f"<details><summary>Where it comes from</summary>{_facts(rows)}</details>"
        )


class _Form(NamedTuple):
    code: str
    decision: str
    act: Act


def _told(done: ActView) -> list[str]:
    """The sentences that report the outcome of an act to the person who decided."""
    told = [f"{count} allowed: {FOLLOWS[Way(way)]}." for way, count in done.ways.items()]
    if done.denied:
        told.append(f"{len(done.denied)} denied, and not asked again. It {COUNTS}.")
    if done.refused and not done.denied:
        told.append(
            f"{done.refused} cannot be remembered all the same: another check refused them."
        )
    if done.waiting:
        told.append(f"{done.waiting} that came later still wait.")
    return told or ["Somebody else has decided it meanwhile."]


def _facts(rows: list[tuple[str, str]]) -> str:
    told = (f"<dt>{escape(name)}</dt><dd>{_seen(value)}</dd>" for name, value in rows if value)
    return f"<dl>{''.join(told)}</dl>"


def _said(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _form(request: HttpRequest) -> _Form:
    body = request.body
    if len(body) > FORM_BYTES_MAX:
        raise MalformedRequest("body: larger than the form", status=413)
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS_MAX)
        form = dict(pairs)
        strike = [value for name, value in pairs if name == "strike"]
        asked = {"shown": form.get("shown", "0" * 32), "strike": strike}
        act = msgspec.convert(asked, Act)
    except ValueError:
        raise _Refused(422, "This is not the form of this page.") from None
    if len(form) + max(0, len(strike) - 1) != len(pairs):
        raise _Refused(422, "This is not the form of this page.")
    return _Form(form.get("code", ""), form.get("decision", ""), act)


def _seen(text: str) -> str:
    """The text as HTML, with invisible and look-alike characters visibly escaped."""
    return "".join(
        escape(char) if is_plain(char) else f"<mark>{escaped(char)}</mark>" for char in text
    )


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
