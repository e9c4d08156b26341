"""The pages of what agents did and what became of it: sessions, trust and incidents."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from policy.model import OperatorScope
from proxy.admin.wire.incidents import (
    ACCEPT,
    BLAME,
    CLOSE,
    INCIDENT,
    INCIDENTS,
    SAID_MAX,
)
from proxy.admin.wire.provenance import RECALLS, SESSION, SESSIONS
from proxy.admin.wire.route import Wide
from proxy.admin.wire.store import (
    ORIGIN_TRUST,
    RESTORE,
    RESTORE_ORIGIN,
    TRUST,
    TRUST_OF,
    OriginQuery,
    TrustStanding,
)
from proxy.console.page import Page, PageCall, Shown
from proxy.console.page_handlers import SHOWN_AT_ONCE, done, shows
from proxy.seams.tenants import DEFAULT_TENANT, TenantName
from storage.features.cases import Case


class _Blaming(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["memory_id", "recall_id", "reply_id"]
    named: Wide
    tenant: TenantName = DEFAULT_TENANT
    expect: Annotated[str, Meta(max_length=16_384)] = ""
    forbid: Annotated[str, Meta(max_length=16_384)] = ""
    dry_run: bool = False


async def _session(call: PageCall) -> Shown:
    """The handler of a session's page; its reads have questions in them, which are content."""
    view = await call.ask(SESSION, call.argument)
    recalls, tenant = None, call.query.get("tenant", DEFAULT_TENANT)
    if call.by.may.includes(RECALLS.least):
        asked = {"session": call.argument, "tenant": tenant, "limit": SHOWN_AT_ONCE}
        recalls = await call.ask(RECALLS, **asked)
    return Shown("session.html", {"view": view, "recalls": recalls, "tenant": tenant})


async def _restore(call: PageCall) -> Shown:
    view = await call.ask(RESTORE, call.argument)
    told = "It is trusted like a newcomer again."
    return _restored(view, told, onward=f"/trust/{call.argument}", words="Its trust")


async def _restore_origin(call: PageCall) -> Shown:
    form = call.filled(OriginQuery)
    view = await call.ask(RESTORE_ORIGIN, **msgspec.structs.asdict(form))
    told = "What comes from this tool is trusted like a newcomer's again."
    return _restored(view, told, onward="/trust", words="All trust")


def _restored(view: TrustStanding, told: str, *, onward: str, words: str) -> Shown:
    leaf = view.history[-1].leaf_index if view.history else None
    return done("Trust restored", told, leaf=leaf, onward=onward, words=words)


async def _blame(call: PageCall) -> Shown:
    form = call.filled(_Blaming)
    asked = {form.kind: form.named.strip(), "tenant": form.tenant, "dry_run": form.dry_run}
    said = {"expect": _lines(form.expect), "forbid": _lines(form.forbid)}
    view = await call.ask(BLAME, **asked, **said)
    return Shown("blamed.html", {"view": view, "tenant": form.tenant})


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()][:SAID_MAX]


async def _accept(call: PageCall) -> Shown:
    return _decided(await call.ask(ACCEPT, call.argument), "What it named is hidden.")


async def _close(call: PageCall) -> Shown:
    told = "Nothing more is hidden for it; what it hid before stays hidden."
    return _decided(await call.ask(CLOSE, call.argument), told)


def _decided(case: Case, told: str) -> Shown:
    onward, leaf = f"/incidents/{case.case_id}", case.leaf_index
    return done("The incident is closed", told, leaf=leaf, onward=onward, words="The incident")


PAGES: Final = (
    Page(
        template="/sessions",
        summary="Sessions of agents, most recently active first.",
        handler=shows("sessions.html", found=SESSIONS),
        twins=(SESSIONS,),
        commands=("session list",),
        nav="Sessions",
        least=SESSIONS.least,
    ),
    Page(
        template="/sessions/{session}",
        summary="What entered a session, and what followed from it.",
        handler=_session,
        twins=(SESSION, RECALLS),
        commands=("session show", "recall list"),
        least=SESSION.least,
    ),
    Page(
        template="/trust",
        summary="The trust of every principal and of every tool.",
        handler=shows("trust.html", found=TRUST),
        twins=(TRUST,),
        commands=("trust show",),
        nav="Trust",
        least=TRUST.least,
    ),
    Page(
        template="/trust/{principal}",
        summary="The trust of one principal, and what moved it.",
        handler=shows("trust_of.html", one=TRUST_OF),
        twins=(TRUST_OF,),
        commands=("trust show",),
        least=TRUST_OF.least,
    ),
    Page(
        template="/origin-trust",
        summary="The trust of what one tool brings in, and what moved it.",
        handler=shows("trust_of.html", one=ORIGIN_TRUST),
        twins=(ORIGIN_TRUST,),
        commands=("trust show",),
        least=ORIGIN_TRUST.least,
    ),
    Page(
        method="POST",
        template="/trust/{principal}/restore",
        handler=_restore,
        twins=(RESTORE,),
        commands=("trust restore",),
        least=OperatorScope.OPERATE,
    ),
    Page(
        method="POST",
        template="/origin-trust/restore",
        handler=_restore_origin,
        twins=(RESTORE_ORIGIN,),
        commands=("trust restore",),
        least=OperatorScope.OPERATE,
    ),
    Page(
        template="/incidents",
        summary="Wrong answers, isolations and rewinds.",
        handler=shows("incidents.html", found=INCIDENTS),
        twins=(INCIDENTS,),
        commands=("incident list", "isolate"),
        nav="Incidents",
        least=INCIDENTS.least,
    ),
    Page(
        method="POST",
        template="/incidents",
        handler=_blame,
        twins=(BLAME,),
        commands=("blame",),
        least=OperatorScope.OPERATE,
    ),
    Page(
        template="/incidents/{incident_id}",
        summary="One wrong answer, and which memories caused it.",
        handler=shows("incident.html", case=INCIDENT),
        twins=(INCIDENT,),
        commands=("incident show",),
        least=INCIDENT.least,
    ),
    Page(
        method="POST",
        template="/incidents/{incident_id}/accept",
        handler=_accept,
        twins=(ACCEPT,),
        commands=("incident accept",),
        least=OperatorScope.OPERATE,
    ),
    Page(
        method="POST",
        template="/incidents/{incident_id}/close",
        handler=_close,
        twins=(CLOSE,),
        commands=("incident close",),
        least=OperatorScope.OPERATE,
    ),
)
