"""Builds the objects between the store and the fronts; `compose.app` connects them with both."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

import msgspec

from policy.facts import AnchorProbe
from policy.gate import Gate
from policy.labels.forwarded_call import HTTP, MCP
from policy.model import Tenant
from proxy.admin.erasure_runner import ERASING_S, ErasureRunner
from proxy.admin.incident_acts import Repairs, WrongAnswers
from proxy.admin.insight import Insight
from proxy.admin.memories import Memories
from proxy.admin.operator_call import handlers
from proxy.admin.overview import IdSearch, Overview
from proxy.admin.place_acts import PlaceActs
from proxy.admin.principals import Credentials
from proxy.admin.provenance_trace import ProvenanceTrace, RecalledReads
from proxy.admin.queue import Candidates, Queue
from proxy.admin.registrar import Registrar
from proxy.admin.retention import RetentionSweeps
from proxy.admin.review_decider import ConfirmLinks, ReviewDecider
from proxy.admin.rules_in_force import DryRuns, Explainer, Rules
from proxy.admin.upstream_servers import Adoption, BackendsCompared, UpstreamServers
from proxy.admin.wire.operator_routes import ROUTES
from proxy.aftermath.blame_search import BlameSearch
from proxy.aftermath.canaries import Canaries
from proxy.aftermath.feedback import FeedbackIntake
from proxy.aftermath.judges import Judges
from proxy.aftermath.parole_trials import PROBATIONS_EVERY_S, ParoleTrials, Probations, Trials
from proxy.aftermath.replay import Replays
from proxy.aftermath.reply_checks import ReplyChecks
from proxy.aftermath.rule_signals import RuleSignals
from proxy.aftermath.rule_watch import LOOK_S, RuleWatch
from proxy.aftermath.rules import OpenedSignals
from proxy.compose.agent_memory import ModelMemory
from proxy.compose.backends import adapters_by_name
from proxy.compose.observe_mode import WARN_EVERY_S, warn
from proxy.compose.outboxes import Outboxes
from proxy.compose.periodic import Periodic, every, reaching
from proxy.compose.scrape import Scrape
from proxy.console.console import Console
from proxy.console.visitors import Visitors
from proxy.embed.embedding import takes_client_vectors
from proxy.fronts.admin import AdminFront
from proxy.fronts.guard_socket import GuardFront
from proxy.fronts.health import Health
from proxy.fronts.memory import MemoryFront
from proxy.fronts.model import ModelFront
from proxy.guard.answer_sieve import ShowingNotes
from proxy.guard.key_owners import KeyOwners
from proxy.guard.local_guard import LocalGuard
from proxy.guard.sieve import Sieve
from proxy.intercept.budgets import Topics, WriteCounts
from proxy.intercept.graphs import Graphs
from proxy.intercept.interceptor import Interceptor, Submits
from proxy.intercept.operations import Operations, Window
from proxy.intercept.recall_notes import RecallNotes
from proxy.intercept.shadow import Recallable, Shadow, TokenSigner, TokenVerifier
from proxy.ledger.sessions import COMPACTED_EVERY_S, Sessions
from proxy.model.call_judge import CallJudge, HostCalls, ReplyJudge, nothing_withheld
from proxy.model.extraction import Extraction
from proxy.model.ledger_coupling import LedgerCoupling
from proxy.model.model_replays import ModelReplays
from proxy.model.upstream_model import UpstreamModel
from proxy.reporting.outbox import POLL_S
from proxy.seams.environment import Embedder, Environment
from proxy.seams.operation import Dialect
from proxy.settings.after import Heal
from proxy.settings.model import base_of, maps_of_agents
from proxy.settings.table import Settings
from proxy.settings.values import Address
from proxy.transport.auth import Authenticator
from proxy.withhold.convictions import Convictions
from proxy.withhold.screens import KnownRules, ScreenMaker
from storage.features.lineage import Lineage
from storage.features.objections import Objections
from storage.features.retention_candidates import RetentionCandidates
from storage.features.upstream.upstream_memories import UpstreamMemories
from storage.features.views.tenant_views import Views
from storage.interfaces import Store
from telemetry.logs import Telemetry

_NAMED_MAX: Final = 16


class Guards(msgspec.Struct, frozen=True, kw_only=True):
    """The guards of MCP servers and of HTTP servers, and the owners of keys on HTTP servers."""

    mcp: LocalGuard
    http: LocalGuard
    keys: KeyOwners


class Foundation(msgspec.Struct, frozen=True, kw_only=True):
    """An open store with its gate, writer, embedder and model memory, from which all is built."""

    settings: Settings
    gate: Gate  # the gate that enforces its verdicts, also in observe mode
    store: Store
    writer: Submits
    embedder: Embedder
    surroundings: Environment
    convictions: Convictions
    # None if no model front is configured, so that contexts are not recorded.
    memory: ModelMemory | None = None

    def ledger(self) -> Sessions:
        """The session ledger; without a model front it has no sessions, only relays' texts."""
        if self.memory is not None:
            return self.memory.sessions
        return Sessions(None, self.store.prints_key, self.surroundings)

    def credentials(self, signer: TokenSigner, authenticator: Authenticator) -> Credentials:
        """The operator calls that create and end API keys and promotion tokens."""
        return Credentials(
            reader=self.store.reader,
            writer=self.store.writer,
            signer=signer,
            authenticator=authenticator,
            surroundings=self.surroundings,
        )

    def ids(self, ledger: Sessions, authenticator: Authenticator) -> IdSearch:
        """The operator call that finds whole ids by their beginnings."""
        store = self.store
        return IdSearch(
            authenticator=authenticator,
            reader=store.reader,
            under_quarantine=store.quarantined,
            incidents=store.incidents,
            cases=store.cases,
            recalls=store.recalls,
            forwards=store.forwards,
            ledger=ledger,
            withholding=None if self.memory is None else self.memory.withholding,
        )

    def of_memories(
        self,
        operations: Operations,
        deciding: ReviewDecider,
        ledger: Sessions,
        graphs: Graphs,
        paroling: ParoleTrials,
    ) -> tuple[Memories, Candidates, Overview]:
        """The operator calls about memories, held candidates, and the store."""
        store = self.store
        memories = Memories(
            writer=store.writer,
            reader=store.reader,
            objections=store.of(Objections),
            under_quarantine=store.quarantined,
            operations=operations,
            ledger=ledger,
            paroling=paroling,
        )
        candidates = Candidates(
            reader=store.reader,
            writer=store.writer,
            deciding=deciding,
            ledger=ledger,
            withholding=None if self.memory is None else self.memory.withholding,
        )
        overview = Overview(
            writer=store.writer,
            reader=store.reader,
            audit=store.audit,
            graphs=graphs,
            ledger=ledger,
            embed=None if takes_client_vectors(self.embedder) else self.embedder.embed,
            places=store.places,
            surroundings=self.surroundings,
        )
        return memories, candidates, overview

    def canaries(self, signals: RuleSignals) -> Canaries | None:
        """The canaries; None where clients bring the vectors, as no question can be embedded."""
        if takes_client_vectors(self.embedder):
            return None
        return Canaries(
            reader=self.store.reader,
            embedder=self.embedder,
            recalls=self.store.recalls,
            signals=signals,
            surroundings=self.surroundings,
        )

    def rule_watch(self, blaming: BlameSearch) -> tuple[RuleWatch, Canaries | None]:
        """The watch that checks shown memories against registered rules, and its canaries."""
        signals = RuleSignals(
            failures=self.store.failures,
            open_case=blaming.open_case,
            surroundings=self.surroundings,
        )
        canaries = self.canaries(signals)
        watch = RuleWatch(
            reader=self.store.reader,
            rules=KnownRules(self.store.reader.anchors),
            signals=signals,
            canaries=canaries,
            surroundings=self.surroundings,
            canary_seconds=self.settings.after.canary_seconds,
        )
        return watch, canaries

    def screening(self, watch: RuleWatch) -> ScreenMaker | None:
        """The screen that leaves memories out of reads; None with `heal = "off"`."""
        return None if self.settings.after.heal is Heal.OFF else ScreenMaker(watch.rules)

    def reply_checks(self, watch: RuleWatch, blaming: BlameSearch) -> ReplyChecks:
        """The object that compares finished replies of a model with anchors."""
        return ReplyChecks(
            reader=self.store.reader,
            rules=watch.rules,
            signals=watch.signals,
            cases=blaming,
        )

    def retaining(self, operations: Operations) -> RetentionSweeps:
        """The sweeps that purge memories whose retention, by the ruleset, is over."""
        return RetentionSweeps(
            retained=self.store.of(RetentionCandidates),
            operations=operations,
            ruleset=lambda: self.store.ruleset,
            surroundings=self.surroundings,
        )

    def erasing(self, operations: Operations, ledger: Sessions) -> ErasureRunner:
        """The erasures of all traces of one person."""
        return ErasureRunner(
            self.store,
            operations,
            ledger,
            None if self.memory is None else self.memory.withholding,
            self.surroundings,
            servers=[one.name for one in self.settings.backend],
        )

    def deciding(self) -> ReviewDecider:
        """The object that carries out a person's decisions on held candidates."""
        return ReviewDecider(
            reader=self.store.reader,
            writer=self.store.writer,
            surroundings=self.surroundings,
            withholding=None if self.memory is None else self.memory.withholding,
        )

    def blaming(self, spoken: OpenedSignals, probations: Probations) -> BlameSearch:
        """The search for the culprits of wrong answers, with the models and judges it may ask."""
        store = self.store
        no_models = ModelReplays((), self.settings.after.replay, self.surroundings.now_ms)
        return BlameSearch(
            cases=store.cases,
            replays=Replays(store.recalls, store.reader),
            reader=store.reader,
            judges=Judges(self.settings.judge, holds=self.surroundings.serving.holds),
            surroundings=self.surroundings,
            models=self.memory.replays if self.memory else no_models,
            on_conviction=self.settings.after.acts,
            spoken=spoken,
            implicated=probations.implicated,
        )

    def wrong_answers(self, blaming: BlameSearch, feedback: FeedbackIntake) -> WrongAnswers:
        """The operator calls about wrong answers."""
        return WrongAnswers(
            cases=self.store.cases,
            blaming=blaming,
            surroundings=self.surroundings,
            failures=self.store.failures,
            feedback=feedback,
        )

    def aftermath(self) -> tuple[BlameSearch, FeedbackIntake, ParoleTrials]:
        """The search for culprits, the intake of feedback, and the parole of hidden memories."""
        store, embedder, spoken = self.store, self.embedder, OpenedSignals()
        replays = Replays(store.recalls, store.reader)
        now_ms = self.surroundings.now_ms
        probations = Probations(store.paroles, replays, store.recalls, now_ms)
        blaming = self.blaming(spoken, probations)
        feedback = FeedbackIntake(
            failures=store.failures,
            reader=store.reader,
            recalls=store.recalls,
            cases=blaming,
            surroundings=self.surroundings,
        )
        trials = Trials(
            replays=replays,
            reader=store.reader,
            judges=Judges(self.settings.judge, holds=self.surroundings.serving.holds),
            spoken=spoken,
            embedder=None if takes_client_vectors(embedder) else embedder,
        )
        paroling = ParoleTrials(paroles=store.paroles, trials=trials, probations=probations)
        return blaming, feedback, paroling

    def interceptor(
        self, shadow: Shadow, budgets: WriteCounts, tokens: TokenVerifier
    ) -> Interceptor:
        """The interceptor, which makes candidates of proposals and submits them to the writer."""
        store, embedder, memory = self.store, self.embedder, self.memory
        return Interceptor(
            writer=self.writer,
            reader=store.reader,
            embedder=embedder,
            shadow=shadow,
            budgets=budgets,
            tokens=tokens,
            ruleset=lambda: store.ruleset,
            sessions=None if memory is None else memory.sessions,
            watches=None if memory is None else memory.withholding,
            outcomes=store.writer,
            convictions=self.convictions,
            surroundings=self.surroundings,
        )

    def guards(
        self, writing: Interceptor, ledger: Sessions, confirms: ConfirmLinks, watch: RuleWatch
    ) -> Guards:
        """The guards of upstream servers, one for each protocol (MCP and HTTP)."""
        store = self.store
        sieve = Sieve(store.followed.since, self.screening(watch))
        mcp, http = (
            self._guard(one, writing, sieve=sieve, ledger=ledger, confirms=confirms, watch=watch)
            for one in (MCP, HTTP)
        )
        keys = KeyOwners(
            http,
            HTTP,
            sieve=sieve,
            forwards=store.forwards,
            pins=store.pins,
            hidden_behind=store.hidden_behind,
        )
        return Guards(mcp=mcp, http=http, keys=keys)

    def backends(self, guard: LocalGuard) -> BackendsCompared:
        """The operator calls about memory servers that speak HTTP."""
        store = self.store
        adopting = Adoption(guard, store.reader, store.writer)
        adapters = adapters_by_name(self.settings.backend)
        kept = store.of(UpstreamMemories)
        return BackendsCompared(
            kept, store.reader, adopting, store.forwards, adapters, self.settings.backend
        )

    def _guard(
        self,
        target_prefix: str,
        writing: Interceptor,
        *,
        sieve: Sieve,
        ledger: Sessions,
        confirms: ConfirmLinks,
        watch: RuleWatch,
    ) -> LocalGuard:
        store = self.store
        return LocalGuard(
            dialect=target_prefix.rstrip("/"),
            target_prefix=target_prefix,
            writing=writing,
            forwards=store.forwards,
            followed=store.followed,
            pins=store.pins,
            sieve=sieve,
            ledger=ledger,
            saw=(self.memory or ledger).saw,
            surroundings=self.surroundings,
            url_of=confirms.url_of,
            showing=ShowingNotes(
                store.recalls,
                lambda: store.reader.status().version,
                self.surroundings.now_ms,
            ),
            left_out=watch.left_out,
        )


class Services:
    """The objects between the store and the fronts, each built once from a `Foundation`."""

    def __init__(self, foundation: Foundation, executor: ThreadPoolExecutor, rules: Rules) -> None:
        settings, store, embedder = foundation.settings, foundation.store, foundation.embedder
        surroundings, memory = foundation.surroundings, foundation.memory
        ledger, keys, now_ms = foundation.ledger(), store.reader.keys, surroundings.now_ms
        self.authenticator = Authenticator(keys, settings.principals, now_ms)
        signer, shadow = TokenSigner(store.token_key), Shadow(store.reader, embedder)
        self.confirming = ConfirmLinks(store.token_key, store.reader.held_candidate, surroundings)
        self._foundation = foundation
        self._unbound: set[int] = set()
        self._models = list[UpstreamModel]()
        budgets, graphs = WriteCounts(Topics(embedder.dimension)), Graphs(store.reader)
        writing = foundation.interceptor(shadow, budgets, TokenVerifier(signer.public_key))
        self.blaming, self.feedback, self._paroling = foundation.aftermath()
        self.watch, canaries = foundation.rule_watch(self.blaming)
        self.reply_checks = foundation.reply_checks(self.watch, self.blaming)
        self.guards = foundation.guards(writing, ledger, self.confirming, self.watch)
        screening = foundation.screening(self.watch)
        shown, contexts = self.watch.shown, None if memory is None else memory.recalled
        self.operations = Operations(
            reader=store.reader,
            writing=writing,
            embedder=embedder,
            surroundings=surroundings,
            executor=executor,
            recalls=RecallNotes(
                store.recalls, contexts, lambda: store.reader.status().version, now_ms, shown
            ),
            graphs=graphs,
            window=Window(budgets, lambda: store.ruleset, now_ms),
            feedback=self.feedback.take,
            screen=None if screening is None else screening.screen,
        )
        self.retaining = foundation.retaining(self.operations)
        self.deciding = foundation.deciding()
        store.expired = self.deciding.expired
        behind = UpstreamServers(store.pins, store.forwards)
        self.queue = Queue(
            store.reader,
            self.deciding,
            surroundings,
            partial(behind.settle, done=True),
            store.followed,
        )
        credentials = foundation.credentials(signer, self.authenticator)
        # Dry runs ask the gate that enforces, also in observe mode.
        explainer = Explainer(gate=foundation.gate, probe=partial(_probe_text, shadow, embedder))
        self.ledger, ids = ledger, foundation.ids(ledger, self.authenticator)
        self.erasing = foundation.erasing(self.operations, ledger)
        self.features: tuple[object, ...] = (
            ids,
            self.queue,
            credentials,
            rules,
            self.retaining,
            behind,
            PlaceActs(store.places),
            *foundation.of_memories(self.operations, self.deciding, ledger, graphs, self._paroling),
            self.erasing,
            DryRuns(explainer=explainer, in_force=rules.in_force, now_ms=now_ms),
            Adoption(self.guards.mcp, store.reader, store.writer),
            foundation.backends(self.guards.http),
            Registrar(store.reader, store.writer, surroundings, canaries, Judges(settings.judge)),
            RecalledReads(store.recalls),
            Repairs(incidents=store.incidents, cases=store.cases),
            foundation.wrong_answers(self.blaming, self.feedback),
            ProvenanceTrace(store=store, ledger=ledger, lineage=store.of(Lineage)),
            Insight(store.reader, store.of(Views), store.recalls, store.failures, embedder),
        )

    def unmapped_tools(self) -> tuple[str, ...]:
        """The names of some tools that seem to be about memory, but that no tool map describes."""
        return tuple(one.tool for one in self.ledger.unmapped.all())[:_NAMED_MAX]

    def unbound_uids(self) -> tuple[int, ...]:
        """The uids of relays that are bound to no principal; () without a model front.

        The calls of such a relay cannot be joined to the model's sessions.
        """
        return tuple(sorted(self._unbound)) if self._foundation.settings.model else ()

    @asynccontextmanager
    async def watching(self, *, listens: bool) -> AsyncGenerator[None]:
        """Search for culprits, and check reads and replies, while the block runs.

        Without `listens` (a command on a stopped sidecar), only new cases are worked on.
        """
        async with self.blaming.working(resumes=listens):
            if not listens:
                yield
                return
            async with self.watch.watching(), self.reply_checks.checking():
                yield

    def periodic(self, told: Outboxes) -> tuple[Periodic, ...]:
        """The periodic work of a sidecar that listens."""
        settings = self._foundation.settings
        canaries_s = LOOK_S if settings.after.canary_seconds else 0
        return (
            every(COMPACTED_EVERY_S, self.ledger.compact, "compaction of the session ledger"),
            every(settings.retention_seconds, self.retaining.sweep, "retention sweep"),
            every(ERASING_S, self.erasing.resume, "erasure", at_once=True),
            every(PROBATIONS_EVERY_S, self._paroling.end_probations, "end of probations"),
            every(canaries_s, self.watch.ask_canaries, "round of canaries"),
            every(WARN_EVERY_S if settings.observe else 0, warn, "warning", at_once=True),
            every(
                settings.witness_seconds if settings.witness else 0,
                told.witnesses.turn,
                "round of the witnesses",
                at_once=True,
            ),
            *reaching(self._models),
            *(every(POLL_S, turn, "turn of an outbox", at_once=True) for turn in told.turns()),
        )

    def scrape(self, telemetry: Telemetry, told: Outboxes) -> Scrape:
        """The object that renders the metrics."""
        now_ms = self._foundation.surroundings.now_ms
        return Scrape(
            self._foundation.store, telemetry, told, now_ms=now_ms, checks=self.reply_checks
        )

    def page_served_at(self, admin: Address | None, *, tls: bool) -> None:
        """Set the address of the review page: `page_url` if it is set, else the admin listener."""
        page_url = self._foundation.settings.page_url
        self.confirming.serve_at(admin, tls=tls, page_url=page_url)
        if self._foundation.memory is not None:
            page = self._foundation.surroundings.page
            self._foundation.memory.withholding.page_served(page)

    def memory_front(self, dialects: tuple[Dialect, ...], halt: Callable[[], None]) -> MemoryFront:
        """The front for requests of agents in the served dialects."""
        pace = self._foundation.surroundings.pace
        bases = tuple(base_of(model) for model in self._foundation.settings.model)
        return MemoryFront(
            dialects, self.operations, self.authenticator, halt, pace=pace, bases=bases
        )

    def admin_front(self, health: Health, halt: Callable[[], None]) -> AdminFront:
        """The front of the admin listener and of the admin socket."""
        around, page_url = self._foundation.surroundings, self._foundation.settings.page_url
        calls = handlers(self.features, ROUTES)
        visitors = Visitors(self.authenticator, self.confirming, around, page_url)
        console = Console(calls, visitors, around, halt)
        return AdminFront(calls, self.authenticator, health, console, halt)

    async def model_front(
        self,
        stack: AsyncExitStack,
        couple: Callable[[LedgerCoupling], LedgerCoupling] | None,
        halt: Callable[[], None],
    ) -> ModelFront:
        """The front for the model APIs of `[[model]]` tables; without `couple` it serves none."""
        coupling, healing = None, None
        settings, memory = self._foundation.settings, self._foundation.memory
        if memory is not None and couple is not None:
            checks = self.reply_checks if settings.after.heal in {Heal.NEXT, Heal.ANSWER} else None
            if settings.after.heal is Heal.ANSWER:
                healing = memory.healing(self.reply_checks, halt)
            coupling = couple(memory.coupled(self._reply_judge(), checks))
        upstreams = () if coupling is None else settings.model
        serving = self._foundation.surroundings.serving
        self._models = [
            await stack.enter_async_context(UpstreamModel(one, serving)) for one in upstreams
        ]
        return ModelFront(
            behind={one.settings.name: one for one in self._models},
            authenticator=self.authenticator,
            coupling=coupling,
            extraction=Extraction(self.guards.mcp),
            halt=halt,
            surroundings=self._foundation.surroundings,
            healing=healing,
        )

    def guard_front(self, halt: Callable[[], None]) -> GuardFront:
        """The front of the sidecar's own Unix socket, for relays and hooks."""
        # A hook's call is judged with the places and tool maps of all agents' models.
        memory, maps = self._foundation.memory, maps_of_agents(self._foundation.settings.model)
        withheld = memory.withholding.refusal if memory else nothing_withheld
        return GuardFront(
            guard=self.guards.mcp,
            operations=self.operations,
            host_calls=HostCalls(self._reply_judge(), maps, withheld),
            authenticator=self.authenticator,
            surroundings=self._foundation.surroundings,
            halt=halt,
            link_of=self.confirming.link_of,
            own_uid=os.geteuid(),
            unbound=self._unbound,
        )

    def _reply_judge(self) -> ReplyJudge:
        tools = (self.ledger.unmapped, self.ledger.programs)
        return ReplyJudge(CallJudge(self.guards.mcp), *tools, self.ledger.people_with_agents)


def _probe_text(
    shadow: Shadow, embedder: Embedder, tenant: Tenant, text: str, margin: float
) -> tuple[AnchorProbe, ...] | None:
    """The trial search for a text that has no vector yet; None where clients bring vectors."""
    if takes_client_vectors(embedder):
        return None
    return shadow.probe(tenant, Recallable(text=text), margin)
