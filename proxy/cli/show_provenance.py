"""`mnemogate provenance show`: shows where a memory came from, as far as that is still recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator

from proxy.admin.wire.provenance import (
    LINEAGE,
    PROVENANCE,
    LineageView,
    ProvenanceNode,
    ProvenanceStep,
    ProvenanceView,
)
from proxy.admin.wire.route import IdKind, TenantQuery
from proxy.cli.api_commands import OF_TENANT, asking, table
from proxy.cli.command import Context, option
from proxy.cli.terminal import inert, iso
from proxy.ledger.wire import OriginView
from proxy.seams.tenants import DEFAULT_TENANT


class _Show(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: str = "text"


def _shown(context: Context, view: ProvenanceView) -> None:
    form = context.given("format")
    if form == "json":
        context.terminal.data(view)
        return
    for line in dot_of(view) if form == "dot" else _told(view):
        context.terminal.say(line)


def _told(view: ProvenanceView) -> Iterator[str]:
    for node in view.memories:
        yield f"{inert(node.memory_id)} ({node.status})"
        for parent in node.parents:
            yield f"  derived from {inert(parent)}"
        for step in node.steps:
            yield from _told_step(step)
    if view.cut:
        yield "there is more: ask for one of the memories above"


def _told_step(step: ProvenanceStep) -> Iterator[str]:
    yield (
        f"  {iso(step.at_ms)} {step.change.value} as {step.memory_class.value} by "
        f"{inert(step.principal)} ({step.trust}), {step.source.value} by {step.basis.value}: "
        f"candidate {step.candidate_id}, leaves {step.intercepted.leaf_index} and "
        f"{step.verdict.leaf_index}, target {inert(step.target)}"
    )
    if step.culprit is not None:
        yield f"    text found in {_name(step.culprit)}"
    if step.session is None:
        yield "    joined to no session: no conversation that the sidecar saw had this write in it"
        return
    yield f"    session {step.session}" + ("" if step.known else ": the ledger has lost it")
    if step.segments_left_out:
        yield f"    {step.segments_left_out} older segments are not told"
    for origin in step.segments:
        yield f"    had read {_name(origin)}"


def _name(origin: OriginView) -> str:
    if origin.memory_id:
        return inert(f"memory {origin.memory_id}")
    names = " ".join(one for one in (origin.server, origin.tool, origin.call_id) if one)
    return inert(f"{origin.kind.value} {names}".rstrip())


def dot_of(view: ProvenanceView) -> Iterator[str]:
    """The lines of a Graphviz graph of the provenance, with arrows from sources to memories."""
    yield "digraph provenance {"
    for node in view.memories:
        yield f"  {_quoted(node.memory_id)} [label={_quoted(_label(node))}];"
        edges = [(parent, "derived") for parent in node.parents]
        for step in node.steps:
            edges += [(one, "recalled") for one in step.recalled]
            named = (one for one in step.segments if one.server or one.tool)
            edges += [(_name(one), "read") for one in named]
            edges += [] if step.culprit is None else [(_name(step.culprit), "text")]
        for source, label in dict.fromkeys(edges):
            arrow = f"{_quoted(source)} -> {_quoted(node.memory_id)}"
            yield f"  {arrow} [label={_quoted(label)}];"
    yield "}"


def _label(node: ProvenanceNode) -> str:
    newest = node.steps[-1] if node.steps else None
    said = "" if newest is None else f"\n{newest.source.value} by {newest.principal}"
    return f"{node.memory_id}\n{node.status}{said}"


def _quoted(text: str) -> str:
    # Graphviz and JSON quote and escape strings in the same way.
    return json.dumps(text)


def _lineage(context: Context, view: LineageView) -> None:
    _LINEAGE(context, view)
    if view.next is not None:
        context.terminal.say(f"there is more: --offset {view.next}")


_LINEAGE = table(
    "memories",
    {
        "memory": "memory",
        "is": "kinship",
        "through": "through",
        "status": "status",
        "class": "memory_class",
        "source": "source",
        "by": "principal",
        "when": "at_ms",
        "leaf": "leaf_index",
        "text seen in": "origin",
    },
)
COMMANDS = (
    asking(
        "provenance lineage",
        "list what a memory was derived from, and what was derived from it",
        LINEAGE,
        _lineage,
        options=(
            option("memory_id", "or the beginning of it", metavar="ID"),
            option("--tenant", OF_TENANT),
            option("--offset", "how many of the list to skip (default: 0)", metavar="N"),
        ),
        names={"memory_id": IdKind.MEMORY},
    ),
    asking(
        "provenance show",
        "show where a memory came from: steps, leaves, sessions, and what those recalled",
        PROVENANCE,
        _shown,
        options=(
            option("memory_id", metavar="ID"),
            option("--tenant", f"whose memory (default: {DEFAULT_TENANT})"),
            option(
                "--format",
                "how to tell it (default: text)",
                choices=("text", "json", "dot"),
            ),
        ),
        names={"memory_id": IdKind.MEMORY},
        form=_Show,
    ),
)
