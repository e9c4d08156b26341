"""Serves model APIs below `/<name>/`, each with one upstream. The front decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from proxy.dialects.model.api import COMPLETIONS, GEMINI, RESPONSES, ModelApi, of_program
from proxy.dialects.model.errors import no_previous, no_threads, refused, status_of_turn
from proxy.dialects.model.gemini.contents import model_in, plain, whole_path
from proxy.dialects.model.openai.completions import spells_tokens
from proxy.dialects.model.reading import object_of
from proxy.dialects.strict_json.tolerant import Json, write_body
from proxy.model.array_stream import KIND, ArrayPieces
from proxy.model.extraction import Extraction
from proxy.model.histories import PREVIOUS, Histories, Room, RoomHolder
from proxy.model.ledger_coupling import LedgerCoupling
from proxy.model.memory_seam import PrincipalRequest
from proxy.model.model_exchange import ModelExchange, Wire
from proxy.model.model_replays import meant
from proxy.model.pass_through import passed
from proxy.model.reading_cache import ReadingCache
from proxy.model.redactor import Redactor
from proxy.model.reply_healer import HealedReply
from proxy.model.routes import (
    AdmittedPrincipal,
    Purpose,
    admit,
    answers_nothing,
    check_path,
    events_target,
    is_known,
    purpose_of,
    target_of,
)
from proxy.model.stored_replies import StoredReplyEditor
from proxy.model.upstream_model import TOTAL_S, UpstreamModel
from proxy.seams.access import at_least
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest, NotFound
from proxy.seams.operation import HttpReply, Refusal
from proxy.settings.model import Api, ModelPurpose
from proxy.transport.auth import Authenticator
from proxy.transport.exchange import REFUSED_ROUTE, AnsweredReply, Pieces, RequestHead
from proxy.transport.responses import AnswerFailure, attempt, refuse
from proxy.transport.stop import Stop
from telemetry.events import ModelServed

ROUTES: Final = frozenset(
    {
        *("model.messages", "model.chat", "model.responses", "model.completions", "model.other"),
        *("model.gemini", "model.refused", REFUSED_ROUTE),
    }
)
_NAMED: Final = {
    "anthropic": "model.messages",
    "chat": "model.chat",
    "responses": "model.responses",
    "completions": "model.completions",
    "gemini": "model.gemini",
}
# Usual path prefixes of model APIs. The refusal of a request below one without a table names the
# table to add.
USUAL: Final = ("anthropic", "gemini", "openai")
_HOSTED: Final = (
    "unknown_write: this route would write memory, or hold a conversation, where no one judges it"
)
_UNKNOWN: Final = (
    "unknown_write: nobody here can judge what this route brings; an operator may list its path in "
    "`passing` of the [[model]] table, and what it brings is then judged by nobody"
)
_UNREAD: Final = (
    "unknown_write: what a model answers here is stored by a memory backend, and nobody could "
    "judge the answer of this route"
)
_WHOLE_ONLY: Final = "stream: what a memory backend stores is judged whole; ask without it"
# With one of these headers, the size of a body is known only once the body was read.
_SIZE_UNKNOWN: Final = frozenset({"content-encoding", "transfer-encoding"})


class ModelFront:
    """Serves every configured model API. Event loop only."""

    name = "data"
    routes = ROUTES

    def __init__(
        self,
        *,
        behind: Mapping[str, UpstreamModel],
        authenticator: Authenticator,
        coupling: LedgerCoupling | None,
        extraction: Extraction,
        halt: Callable[[], None],
        surroundings: Environment,
        healing: Callable[[], HealedReply] | None = None,
    ) -> None:
        """`coupling` is None where no model API is served.

        `healing` is called for each reply, and its result checks the reply before the agent gets
        it; None: replies are not checked.
        """
        self._healing = healing
        self._behind = behind
        # The first segments of paths that belong to this front: a configured or a usual name.
        self.names = frozenset({*behind, *USUAL})
        self._authenticator = authenticator
        self._coupling = coupling
        self._extraction = extraction
        self._halt = halt
        self._surroundings = surroundings
        self._histories = Histories()
        self._room = Room()
        self._recurring = ReadingCache()

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        """The answer to a request; failures have the form of the requested model API."""
        progress = _Progress()
        name = _first(incoming.head.path)
        behind = self._behind.get(name)
        form = name if behind is None else behind.settings.api.value
        done = await attempt(self._serve(behind, incoming, progress), self._halt)
        if isinstance(done, AnswerFailure):
            refusal = done.refusal
            rest = incoming.head.path[len(name) + 1 :]
            purpose, api = purpose_of(incoming.head.method, rest)
            if purpose is Purpose.TURN and api is not None:
                status = status_of_turn(refusal.status, api.name)
                refusal = msgspec.structs.replace(refusal, status=status)
            return AnsweredReply(
                reply=refused(refusal, incoming.answering, form),
                route="model.refused",
                principal=progress.principal,
                error_type=done.error_type,
            )
        reply, pieces = done
        return AnsweredReply(
            reply=reply, route=progress.route, principal=progress.principal, pieces=pieces
        )

    async def _serve(
        self, behind: UpstreamModel | None, incoming: RequestHead, progress: _Progress
    ) -> tuple[HttpReply, Pieces | None]:
        if behind is None or self._coupling is None:
            name = _first(incoming.head.path)
            raise NotFound(f'no model API is served here: write a [[model]] table "{name}"')
        settings = behind.settings
        admitted = admit(incoming.head, incoming, self._authenticator, settings.headers)
        principal = at_least(admitted.principal, settings.reads)
        admitted = msgspec.structs.replace(admitted, principal=principal)
        progress.principal = principal.principal_id
        incoming.enter(principal)
        if settings.principals is not None and principal.principal_id not in settings.principals:
            raise NotFound
        rest = incoming.head.path[len(settings.name) + 1 :]
        check_path(rest)
        purpose, api = purpose_of(incoming.head.method, rest)
        if purpose is Purpose.HOSTED:
            raise MalformedRequest(_HOSTED, status=403)
        if not is_known(incoming.head.method, purpose, rest, settings.passing):
            raise MalformedRequest(_UNKNOWN, status=403)
        extracts = settings.purpose is ModelPurpose.EXTRACTION
        answers = api in (COMPLETIONS, GEMINI) or not answers_nothing(
            incoming.head.method, purpose, rest
        )
        if extracts and answers:
            raise MalformedRequest(_UNREAD, status=403)
        declared = incoming.head.headers.get("content-length", "")
        size = int(declared) if declared.isdecimal() else 0
        if not _SIZE_UNKNOWN.isdisjoint(incoming.head.headers):
            size = settings.request_bytes_max
        keep = self._room.take(min(size, settings.request_bytes_max))
        served = _Served(
            behind=behind,
            coupling=self._coupling,
            incoming=incoming,
            admitted=admitted,
            rest=rest,
            keep=keep,
        )
        pieces: Pieces | None = None
        try:
            reply, pieces = await self._within(served, purpose, api, progress)
        finally:
            if pieces is None:
                keep(0)
        return reply, None if pieces is None else RoomHolder(pieces, keep)

    async def _within(
        self, served: _Served, purpose: Purpose, api: ModelApi | None, progress: _Progress
    ) -> tuple[HttpReply, Pieces | None]:
        """The answer to one request; if the client leaves first, the call upstream is cancelled."""
        stop = Stop(TOTAL_S)
        gone = served.incoming.welcome.gone
        gone.tell(stop)
        try:
            async with stop:
                body = await served.body()
                principal = served.admitted.principal
                clearing = Redactor(served.coupling, principal)
                await clearing.settled()
                clearing.check_target(served.incoming.head, served.rest)
                if api is not None:
                    progress.route = _NAMED[api.name]
                    asks = purpose is Purpose.TURN
                    return await self._turn(served, api, body if asks else None)
                return await self._passed(served, clearing, body)
        except TimeoutError:
            return served.refused(refuse(504, "upstream: no answer in time")), None
        finally:
            gone.forget(stop)

    async def _passed(
        self, served: _Served, clearing: Redactor, body: bytes
    ) -> tuple[HttpReply, Pieces | None]:
        """The answer to a request that calls no model, such as one for a stored reply.

        Tool calls of a model in the answer are judged all the same.
        """
        coupling, principal = served.coupling, served.admitted.principal
        started_ns = self._surroundings.clock_ns()

        def asked(api: ModelApi) -> PrincipalRequest:
            return PrincipalRequest(
                principal=principal,
                api=api,
                body={},
                trace=served.incoming.trace,
                maps=served.behind.settings.tool_maps,
            )

        fetched = StoredReplyEditor(coupling, self._halt, asked)
        reply, pieces = await passed(
            served.behind,
            served.wire(),
            body,
            clearing=clearing,
            clean=coupling.passing(principal),
            fetched=fetched,
        )
        if fetched.deciding.calls:
            # The verdicts on these calls are below the request's span.
            self._surroundings.record(
                ModelServed(
                    context=served.incoming.trace,
                    provider=served.behind.settings.api.value,
                    api="",
                    model="",
                    status=reply.status,
                    streamed=False,
                    started_ns=started_ns,
                    ended_ns=self._surroundings.clock_ns(),
                    sent_ns=0,
                    first_ns=0,
                    principal=principal.principal_id,
                    tenant=principal.tenant,
                    session="",
                    askings=0,
                    calls=fetched.deciding.calls,
                    refused=fetched.deciding.refused,
                    withheld=False,
                )
            )
        return reply, pieces

    async def _turn(
        self, served: _Served, api: ModelApi, raw: bytes | None
    ) -> tuple[HttpReply, Pieces | None]:
        principal = served.admitted.principal
        body = {} if raw is None else self._recurring.body(principal.principal_id, raw)
        if api is GEMINI:
            body = plain(body)
        if object_of(body.get("thread")):
            return no_threads(served.incoming.answering), None
        whole = body
        if api is COMPLETIONS and spells_tokens(body):
            Redactor(served.coupling, principal).no_tokens()
        settings = served.behind.settings
        extracts = settings.purpose is ModelPurpose.EXTRACTION
        answers = None if extracts else settings.tool_maps.of_answer(body)
        unread = extracts or (answers is not None and api is not RESPONSES)
        if unread and body.get("stream") is True:
            raise MalformedRequest(_WHOLE_ONLY, status=400)
        if api is RESPONSES:
            if body.get("conversation") is not None:
                return no_previous("conversation"), None
            found = self._histories.whole(principal.principal_id, body)
            if found is None:
                return no_previous(PREVIOUS), None
            whole = found
        asked = PrincipalRequest(
            principal=principal,
            api=of_program(api) if extracts or answers is not None else api,
            body=whole,
            trace=served.incoming.trace,
            upstream=settings.name,
            target=whole_path(target_of(served.incoming.head, served.rest)),
            headers=meant(served.admitted.headers),
            maps=settings.tool_maps,
            extracts=extracts,
            answers=answers,
            reads_foreign=settings.reads_foreign,
            readings=self._recurring,
        )
        started_ns = self._surroundings.clock_ns()

        def ended(turn: ModelExchange) -> None:
            self._keep(turn, body, len(raw or b""))
            self._record(turn, served.behind.settings.api, started_ns)

        turn = ModelExchange(
            asked,
            served.wire(asks=raw is not None),
            coupling=served.coupling,
            extraction=self._extraction,
            halt=self._halt,
            clock_ns=self._surroundings.clock_ns,
            ended=ended,
            healed=None if self._healing is None else self._healing(),
        )
        reply, pieces = await turn.answer()
        if pieces is None or served.events is None:
            return reply, pieces
        return msgspec.structs.replace(reply, content_type=KIND), ArrayPieces(pieces)

    def _keep(self, turn: ModelExchange, body: dict[str, Json], size: int) -> None:
        """Store a response, so that a later request may continue it, unless `store` is false."""
        if turn.reply_id and turn.output and body.get("store") is not False:
            size += len(write_body({"output": [*turn.output]}))
            principal_id = turn.asked.principal.principal_id
            self._histories.keep(principal_id, turn.reply_id, body, turn.output, size)

    def _record(self, turn: ModelExchange, api: Api, started_ns: int) -> None:
        model = turn.asked.body.get("model") or model_in(turn.wire.target)
        self._surroundings.record(
            ModelServed(
                context=turn.asked.trace,
                provider=api.value,
                api=turn.api.name,
                model=model if isinstance(model, str) else "",
                status=turn.status,
                streamed=turn.streamed,
                started_ns=started_ns,
                ended_ns=self._surroundings.clock_ns(),
                sent_ns=turn.sent_ns,
                first_ns=turn.first_ns,
                principal=turn.asked.principal.principal_id,
                tenant=turn.asked.principal.tenant,
                session=turn.session,
                reply_memories=turn.memory_count,
                askings=turn.askings,
                calls=turn.deciding.calls,
                refused=turn.deciding.refused,
                withheld=turn.withheld,
            )
        )


class _Progress(msgspec.Struct):
    """The facts known so far about one request, for telemetry."""

    principal: str = ""
    route: str = "model.other"


class _Served(msgspec.Struct, frozen=True, kw_only=True):
    """One authenticated request, with its path below the model API's name."""

    behind: UpstreamModel
    coupling: LedgerCoupling
    incoming: RequestHead
    admitted: AdmittedPrincipal
    rest: str  # the request's path below the prefix of its model API
    keep: Callable[[int], None]  # keeps room in memory for so many bytes of the body

    async def body(self) -> bytes:
        """The whole body, up to the size that the API's settings allow."""
        body = await self.incoming.read_up_to(self.behind.settings.request_bytes_max)
        self.keep(len(body))
        return body

    @property
    def events(self) -> str | None:
        """The target in place of one that asks for a stream in another form than events."""
        return events_target(self.incoming.head, self.rest)

    def wire(self, *, asks: bool = True) -> Wire:
        """The request in the form in which it is sent upstream."""
        return Wire(
            behind=self.behind,
            method=self.incoming.head.method,
            target=self.events or target_of(self.incoming.head, self.rest),
            headers=self.admitted.headers,
            asks=asks,
        )

    def refused(self, refusal: Refusal) -> HttpReply:
        """The response for a refusal, in the form of the requested model API."""
        return refused(refusal, self.incoming.answering, self.behind.settings.api.value)


def _first(path: str) -> str:
    return path[1:].partition("/")[0]
