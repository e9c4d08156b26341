"""The front of the console: finds page and visitor, and sends what the page's handler shows."""

from __future__ import annotations

import asyncio
import importlib.resources
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Final
from urllib.parse import parse_qsl, quote

import msgspec
from markupsafe import Markup

from policy.bounded import Bounded
from policy.model import OperatorScope, Principal
from proxy.admin.operator_call import Handler
from proxy.admin.wire.provenance import VerdictsQuery
from proxy.admin.wire.route import AnyRoute
from proxy.console.drawing import Drawing, duration
from proxy.console.now import EVENTS, Feed
from proxy.console.page import Page, PageCall, Shown
from proxy.console.registry import PAGES
from proxy.console.visitors import NO_PAGE, Refused, Visitor, Visitors
from proxy.dialects.described import query_as
from proxy.dialects.problem import refusal_headers
from proxy.seams.access import access_of
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest, MethodNotAllowed
from proxy.seams.operation import HttpReply, HttpRequest, Refusal, segment_of
from proxy.transport.auth import check_scope
from proxy.transport.exchange import AnsweredReply, RequestHead
from proxy.transport.responses import AnswerFailure, attempt

FORM_BYTES_MAX: Final = 16_384
_FIELDS_MAX: Final = 256
_DONE_MAX: Final = 64
DONE: Final = "/done/{}"
SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-out"
_STATIC: Final = {
    "/static/console.css": ("console.css", "text/css; charset=utf-8"),
    "/static/now.js": ("now.js", "text/javascript; charset=utf-8"),
    "/static/icon.svg": ("icon.svg", "image/svg+xml"),
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("X-Frame-Options", "DENY"),
    # With the policy "no-referrer" a browser would send `Origin: null` with this page's form, which
    # any other page could send too.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
_OWN: Final = frozenset({"/", SIGN_IN, SIGN_OUT, EVENTS, *_STATIC})


def console_routes() -> frozenset[str]:
    """Every route of the console that telemetry may name."""
    return _OWN | {DONE} | {page.counted_as for page in PAGES}


class Console:
    """Answers requests for pages. Event loop only."""

    def __init__(
        self,
        handlers: Mapping[AnyRoute, Handler],
        visitors: Visitors,
        surroundings: Environment,
        halt: Callable[[], None],
    ) -> None:
        self._handlers = handlers
        self._visitors = visitors
        self._out = surroundings
        self._halt = halt
        self._drawing = Drawing()
        # What acts left to be read, by the random id in the address; each for one operator.
        self._done = Bounded[str, tuple[str, Shown]](_DONE_MAX)
        self.routes = console_routes()

    def route_of(self, path: str) -> str | None:
        """The route of a path that the console answers; None for any other path."""
        if path in _OWN:
            return path
        if path.startswith("/done/"):
            return DONE
        return next((page.counted_as for page in PAGES if page.match(path) is not None), None)

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        """The page that is asked for, or a page with the reason why it is not shown."""
        route = self.route_of(incoming.head.path) or ""
        who = [""]
        done = await attempt(self._answer(incoming, who), self._halt)
        error_type = ""
        if isinstance(done, AnswerFailure):
            error_type = done.error_type
            refusal = done.refusal
            done = AnsweredReply(
                reply=self._refused(
                    incoming.head, Refused(refusal.status, _sentence(refusal.detail))
                ),
                route=route,
            )
        changes = not error_type and incoming.head.method == "POST"
        return msgspec.structs.replace(
            done, route=route, principal=who[0], error_type=error_type, done=changes
        )

    def nowhere(self, head: HttpRequest, refusal: Refusal) -> HttpReply:
        """The refusal of a request that is not for a page, as a page that leads to the first."""
        return self._refused(head, Refused(refusal.status, NO_PAGE, refusal_headers(refusal)))

    async def _answer(self, incoming: RequestHead, who: list[str]) -> AnsweredReply:
        head = incoming.head
        try:
            if head.path == EVENTS:
                return await self._events(incoming, who)
            reply = self._own(head) or await self._served(incoming, who)
        except Refused as refused:
            reply = self._refused(head, refused)
        return AnsweredReply(reply=reply, route="")

    def _own(self, head: HttpRequest) -> HttpReply | None:
        """The answer to a request for a file, or for the root, which need no visitor."""
        if head.method not in {"GET", "HEAD"}:
            return None
        if head.path == "/":
            return self._moved(head, "/now")
        if head.path in _STATIC:
            name, kind = _STATIC[head.path]
            return HttpReply(status=200, body=_file(name), content_type=kind, headers=_HEADERS)
        return None

    async def _served(self, incoming: RequestHead, who: list[str]) -> HttpReply:
        head = incoming.head
        if head.path in {SIGN_IN, SIGN_OUT}:
            return await self._sign(incoming)
        page, argument = _page_of(head)
        candidate_id = argument if page is not None and page.linked else ""
        form: dict[str, list[str]] = {}
        if head.method == "POST":
            self._visitors.check_form(head)
            if candidate_id and "authorization" not in head.headers:
                # The holder of a link has no credential but the code in the form.
                form = await _form(incoming)
        codes = form.get("code", [""] if head.method == "POST" else [])
        codes = codes or [value for name, value in head.query if name == "code"]
        visitor = self._visitors.of(incoming, candidate_id, codes[0] if codes else None)
        if visitor is None:
            return self._moved(head, f"{SIGN_IN}?next={quote(head.path)}")
        who[0] = visitor.by.principal_id
        incoming.enter(visitor.by)
        if page is None:
            return await self._read_done(head, visitor)
        check_scope(visitor.by, page.least)
        if head.method == "POST":
            form = form or await _form(incoming)
            self._visitors.check_code(form.pop("code", [""])[0], head.path, visitor)
        if page.destroys:
            key = form.pop("key", [""])[0]
            if access_of(self._visitors.holder(key, incoming)) is not access_of(visitor.by):
                raise Refused(403, "That is not the key that opened this console.")
        shown = await page.handler(self._call(incoming, visitor, argument, form))
        if head.method == "POST" and not visitor.code:
            act = self._out.random_hex(16)
            self._done[act] = (visitor.by.principal_id, shown)
            return self._moved(head, f"/done/{act}")
        # Verdicts wait for the event loop, and a long page takes a thread tenths of a second.
        return await asyncio.to_thread(self._drawn, head, shown, visitor)

    async def _read_done(self, head: HttpRequest, visitor: Visitor) -> HttpReply:
        by, shown = self._done.get(head.path.removeprefix("/done/"), ("", None))
        if shown is None or by != visitor.by.principal_id:
            raise Refused(404, "There is nothing here, or it is not kept any longer.")
        return await asyncio.to_thread(self._drawn, head, shown, visitor)

    async def _sign(self, incoming: RequestHead) -> HttpReply:
        head = incoming.head
        visitors = self._visitors
        if not visitors.has_sessions(head):
            raise Refused(404, "There is nothing to sign in to here: the browser asks for the key.")
        onward = dict(head.query).get("next", "/now")
        if self.route_of(onward) is None:
            onward = "/now"
        if head.method != "POST":
            return self._drawn(head, Shown("sign_in.html", {"onward": onward}), None)
        visitors.check_form(head)
        if head.path == SIGN_OUT:
            return self._moved(head, SIGN_IN, visitors.sign_out(head))
        key = (await _form(incoming)).get("key", [""])[0]
        return self._moved(head, onward, visitors.sign_in(key, incoming))

    async def _events(self, incoming: RequestHead, who: list[str]) -> AnsweredReply:
        visitor = self._visitors.of(incoming, "", None)
        if visitor is None:
            raise Refused(401, "Sign in first.")
        who[0] = visitor.by.principal_id
        incoming.enter(visitor.by)
        since = query_as(incoming.head.query, VerdictsQuery).since
        last = incoming.head.headers.get("last-event-id", "")
        feed = Feed(
            self._call(incoming, visitor, "", {}),
            int(last) if last.isdecimal() else since,
            self._out.wait,
        )
        session = visitor.session
        lives = partial(self._visitors.lives, session) if session else lambda: True
        reply = HttpReply(status=200, content_type="text/event-stream", headers=_HEADERS)
        return AnsweredReply(reply=reply, route=EVENTS, pieces=feed.ticks(lives))

    def _call(
        self, incoming: RequestHead, visitor: Visitor, argument: str, form: dict[str, list[str]]
    ) -> PageCall:
        return PageCall(
            by=visitor.by,
            argument=segment_of(argument),
            query={name: value for name, value in incoming.head.query if name != "code"},
            form=form,
            now_ms=self._out.now_ms(),
            trace=incoming.trace,
            handlers=self._handlers,
            linked=bool(visitor.code),
        )

    def _moved(self, head: HttpRequest, path: str, *more: tuple[str, str]) -> HttpReply:
        to = ("Location", self._visitors.root(head) + path)
        return HttpReply(status=303, content_type="text/plain", headers=(*_HEADERS, to, *more))

    def _refused(self, head: HttpRequest, refused: Refused) -> HttpReply:
        shown = Shown("refused.html", {"text": refused.text}, refused.status)
        reply = self._drawn(head, shown, None)
        return msgspec.structs.replace(reply, headers=(*reply.headers, *refused.headers))

    def _drawn(self, head: HttpRequest, shown: Shown, visitor: Visitor | None) -> HttpReply:
        root, now_ms = self._visitors.root(head), self._out.now_ms()
        # The holder of a link is shown no way to other pages.
        by = None if visitor is None or visitor.code else visitor.by
        nav = [page for page in PAGES if page.nav and _may(by, page.least)]

        def url(path: str) -> str:
            return root + path

        def age(at_ms: int) -> str:
            return duration(now_ms - at_ms)

        def token(path: str) -> Markup:
            code = "" if visitor is None else self._visitors.code(path, visitor)
            return Markup('<input type="hidden" name="code" value="{}">').format(code)

        values: dict[str, object] = {
            **shown.values,
            "age": age,
            "here": head.path,
            "may_review": _may(by, OperatorScope.REVIEW),
            "may_operate": _may(by, OperatorScope.OPERATE),
            "now_ms": now_ms,
            "nav": nav,
            "session": visitor.session if visitor else "",
            "token": token,
            "url": url,
            "who": by.principal_id if by else "",
        }
        return HttpReply(
            status=shown.status,
            body=self._drawing.page(shown.template, values),
            content_type="text/html; charset=utf-8",
            headers=_HEADERS,
        )


def _sentence(detail: str) -> str:
    return f"{detail[:1].upper()}{detail[1:].removesuffix('.')}."


def _may(by: Principal | None, least: OperatorScope) -> bool:
    return by is not None and by.may.includes(least)


def _page_of(head: HttpRequest) -> tuple[Page | None, str]:
    """The page of a request with its variable segment; None for what an act has left.

    Raises:
        MethodNotAllowed: The page takes other methods.
    """
    method = "GET" if head.method == "HEAD" else head.method
    if head.path.startswith("/done/") and method == "GET":
        return None, ""
    matching = [(page, page.match(head.path)) for page in PAGES]
    found = [(page, argument) for page, argument in matching if argument is not None]
    for page, argument in found:
        if page.method == method:
            return page, argument
    raise MethodNotAllowed(tuple(page.method for page, _ in found))


async def _form(incoming: RequestHead) -> dict[str, list[str]]:
    if int(incoming.head.headers.get("content-length", "0") or "0") > FORM_BYTES_MAX:
        raise MalformedRequest("body: larger than the form", status=413)
    body = (await incoming.complete(FORM_BYTES_MAX)).body
    form: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_FIELDS_MAX,
        )
    except ValueError:
        raise Refused(422, "This is not the form of this page.") from None
    for name, value in pairs:
        form.setdefault(name, []).append(value)
    return form


@cache
def _file(name: str) -> bytes:
    return importlib.resources.files("proxy.console").joinpath("static", name).read_bytes()
