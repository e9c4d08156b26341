"""The pages that only show: the ruleset, keys, upstream servers and the audit log."""

from __future__ import annotations

import base64
import tomllib
from typing import Final

import msgspec

from proxy.admin.wire.dry_run import EXPLAIN, ExplainRequest
from proxy.admin.wire.provenance import CHECKPOINT, LEAVES, PROOF
from proxy.admin.wire.store import KEYS, POLICY, STATUS
from proxy.admin.wire.upkeep import SERVERS, UNSETTLED
from proxy.console.page import Page, PageCall, Shown
from proxy.console.page_handlers import SHOWN_AT_ONCE, asked_of, shows


async def _policy(call: PageCall) -> Shown:
    view = await call.ask(POLICY)
    return Shown("policy.html", {"view": view, "matrix": tomllib.loads(view.text)["matrix"]})


async def _explain(call: PageCall) -> Shown:
    form = call.filled(ExplainRequest)
    view = await call.ask(EXPLAIN, **msgspec.structs.asdict(form))
    return Shown("explained.html", {"view": view, "form": form})


async def _audit(call: PageCall) -> Shown:
    """The handler of a slice of the log: the newest leaves, unless the query has an offset."""
    head = await call.ask(CHECKPOINT)
    newest = max(0, head.size - SHOWN_AT_ONCE)
    asked = {"offset": newest, **asked_of(call, LEAVES), "limit": SHOWN_AT_ONCE}
    return Shown("audit.html", {"head": head, "page": await call.ask(LEAVES, **asked)})


async def _leaf(call: PageCall) -> Shown:
    index = asked_of(msgspec.structs.replace(call, query={"leaf": call.argument}), PROOF)["leaf"]
    page = await call.ask(LEAVES, offset=index, limit=1)
    proof = await call.ask(PROOF, leaf=index)
    encoded = base64.b64encode(msgspec.json.encode(proof)).decode()
    return Shown("leaf.html", {"leaf": page.leaves[0], "proof": proof, "encoded": encoded})


PAGES: Final = (
    Page(
        template="/policy",
        summary="The ruleset in force.",
        handler=_policy,
        twins=(POLICY,),
        commands=("policy show",),
        nav="Policy",
        least=POLICY.least,
    ),
    Page(
        method="POST",
        template="/policy",
        handler=_explain,
        twins=(EXPLAIN,),
        commands=("policy explain",),
        least=EXPLAIN.least,
    ),
    Page(
        template="/keys",
        summary="The records of every key.",
        handler=shows("keys.html", found=KEYS),
        twins=(KEYS,),
        commands=("key list",),
        nav="Keys",
        least=KEYS.least,
    ),
    Page(
        template="/servers",
        summary="Upstream servers, their tools, and changes that may be missing on one.",
        handler=shows("servers.html", status=STATUS, servers=SERVERS, unsettled=UNSETTLED),
        twins=(STATUS, SERVERS, UNSETTLED),
        commands=("status", "mcp", "review unsettled"),
        nav="Servers",
    ),
    Page(
        template="/audit",
        summary="The audit log, newest leaves first.",
        handler=_audit,
        twins=(CHECKPOINT, LEAVES),
        commands=("audit checkpoint", "audit export"),
        nav="Audit",
    ),
    Page(
        template="/audit/{leaf}",
        summary="One leaf of the audit log, and the proof that it is in the log.",
        handler=_leaf,
        twins=(LEAVES, PROOF),
        commands=("audit prove",),
    ),
)
