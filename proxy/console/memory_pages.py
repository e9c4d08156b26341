"""The pages of memories: a list, one memory with its history, and its lineage."""

from __future__ import annotations

from typing import Final

import msgspec

from policy.model import OperatorScope
from proxy.admin.wire.provenance import LINEAGE
from proxy.admin.wire.store import HISTORY, MEMORIES, MEMORY, PURGE
from proxy.admin.wire.upkeep import QUARANTINE, QUARANTINED, UNHIDE, QuarantineRequest
from proxy.admin.wire.views import ORIGINS, SEARCH
from proxy.console.page import Page, PageCall, Shown
from proxy.console.page_handlers import SHOWN_AT_ONCE, asked_of, done, shows
from proxy.console.review_pages import read_before
from proxy.seams.faults import MalformedRequest, NotFound
from proxy.seams.tenants import TenantName


class _Unhiding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tenant: TenantName


class _Purging(_Unhiding, frozen=True, kw_only=True, forbid_unknown_fields=True):
    typed: str  # the id of the memory, as the person typed it


async def _list(call: PageCall) -> Shown:
    """The handler of the list: of all memories by the index, of some by a search."""
    narrowed = {name for name, text in call.query.items() if text} - {"tenant", "offset"}
    row = SEARCH if narrowed else MEMORIES
    asked = {**asked_of(call, row), "limit": SHOWN_AT_ONCE}
    page = await call.ask(row, **asked)
    values = {"page": page, "query": call.query, "offset": asked["offset"]}
    return Shown("memories.html", {**values, "narrowed": bool(narrowed - {"text"})})


async def _one(call: PageCall) -> Shown:
    """The handler of one memory's page; of a deleted one the history is left."""
    asked = asked_of(call, MEMORY)
    history = await call.ask(HISTORY, call.argument, **asked)
    try:
        memory = await call.ask(MEMORY, call.argument, **asked)
    except NotFound:
        memory = None
    read = "" if memory is None else read_before(memory.source, memory.had_read)
    values = {
        "memory": memory,
        "read": read,
        "history": history,
        "tenant": asked["tenant"],
    }
    return Shown("memory.html", values)


async def _lineage(call: PageCall) -> Shown:
    memory_id, view = call.query.get("memory", "").strip(), None
    asked = asked_of(call, LINEAGE)
    if memory_id:
        view = await call.ask(LINEAGE, memory_id, **asked)
    values = {"memory_id": memory_id, "view": view, "tenant": asked["tenant"]}
    return Shown("lineage.html", values)


def _left(call: PageCall, tenant: str, title: str, *told: str, leaf: int | None) -> Shown:
    onward = f"/memory/{call.argument}?tenant={tenant}"
    return done(title, *told, leaf=leaf, onward=onward, words="The memory")


async def _quarantine(call: PageCall) -> Shown:
    form = call.filled(QuarantineRequest)
    found = await call.ask(QUARANTINE, call.argument, **msgspec.structs.asdict(form))
    told = ["It is hidden from every reader, and kept."]
    if not found.changed:
        told = ["It was hidden before; nothing was changed."]
    if form.with_descendants:
        told.append(f"Memories that were made of it, hidden with it: {found.descendants}.")
    return _left(call, form.tenant, "Hidden", *told, leaf=found.leaf_index)


async def _unhide(call: PageCall) -> Shown:
    form = call.filled(_Unhiding)
    found = await call.ask(UNHIDE, call.argument, tenant=form.tenant)
    values = {"found": found, "memory_id": call.argument, "tenant": form.tenant}
    return Shown("unhidden.html", values)


async def _purge(call: PageCall) -> Shown:
    form = call.filled(_Purging)
    if form.typed.strip() != call.argument:
        raise MalformedRequest("The id that was typed is not this memory's. Nothing was erased.")
    found = await call.ask(PURGE, call.argument, tenant=form.tenant)
    if found.decision != "admit":
        told = f"The gate refused it ({found.reason}). Nothing was erased."
        return _left(call, form.tenant, "Not erased", told, leaf=found.leaf_index)
    told = "Its text is erased here. The audit log keeps ids, times and the fact that it existed."
    return _left(call, form.tenant, "Erased for good", told, leaf=found.leaf_index)


PAGES: Final = (
    Page(
        template="/memory",
        summary="Memories of a tenant, or those that a text asks for.",
        handler=_list,
        twins=(MEMORIES, SEARCH),
        commands=("memory list", "memory search"),
        nav="Memory",
    ),
    Page(
        template="/hidden",
        summary="Memories that no reader is shown.",
        handler=shows("hidden.html", hidden=QUARANTINED),
        twins=(QUARANTINED,),
        commands=("memory list",),
    ),
    Page(
        template="/origins",
        summary="What each server, tool, session and principal brought in.",
        handler=shows("origins.html", found=ORIGINS),
        twins=(ORIGINS,),
        commands=("insight origins",),
    ),
    Page(
        template="/memory/{memory_id}",
        summary="One memory, and its history.",
        handler=_one,
        twins=(MEMORY, HISTORY),
        commands=("memory show", "memory history"),
    ),
    Page(
        template="/lineage",
        summary="What a memory was made of, and what was made of it.",
        handler=_lineage,
        twins=(LINEAGE,),
        commands=("provenance lineage",),
        nav="Lineage",
        least=LINEAGE.least,
    ),
    Page(
        method="POST",
        template="/memory/{memory_id}/quarantine",
        handler=_quarantine,
        twins=(QUARANTINE,),
        commands=("memory quarantine",),
        least=OperatorScope.OPERATE,
    ),
    Page(
        method="POST",
        template="/memory/{memory_id}/unhide",
        handler=_unhide,
        twins=(UNHIDE,),
        commands=("memory unhide",),
        least=OperatorScope.OPERATE,
    ),
    Page(
        method="POST",
        template="/memory/{memory_id}/purge",
        handler=_purge,
        twins=(PURGE,),
        commands=("memory purge",),
        least=OperatorScope.OPERATE,
        destroys=True,
    ),
)
