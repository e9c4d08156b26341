"""What `mnemogate policy explain` asks the operator API, and what it is answered."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from policy.labels.taint import LabelRule  # noqa: TC001 - msgspec reads the annotation
from policy.model import TEXT_LEN_MAX, Basis, Channel, Claims, MemoryClass, SourceKind
from proxy.seams.tenants import DEFAULT_TENANT, TenantName


class ExplainRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hypothetical write. It is judged and forgotten: nothing is staged, logged or stored."""

    text: Annotated[str, Meta(max_length=TEXT_LEN_MAX)]
    memory_class: MemoryClass = MemoryClass.L3
    class_named: bool = True
    source: SourceKind | None = None  # None: derived from the channel, as for a real write
    channel: Channel = Channel.AGENT
    claims: Claims = Claims.IGNORED
    tenant: TenantName = DEFAULT_TENANT
    token: bool = False  # as if a valid promotion token came along
    trust: Annotated[str, Meta(pattern="^(trusted|degraded|untrusted)$")] = "trusted"
    # As if a model front had seen the session: the least trusted thing in its context, what the
    # text was found in, and whether a person had said the whole of it. Else: as without one.
    context: SourceKind | None = None
    contained: SourceKind | None = None
    endorsed: bool = False


class ExplainStep(msgspec.Struct, frozen=True, kw_only=True):
    """How one step of the gate ends for it."""

    step: int
    name: str
    outcome: str  # "passed" | "failed" | "not_reached"


class ExplainView(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict it would get."""

    decision: str
    reason: str | None
    step: int | None
    memory_class: MemoryClass  # the effective one, after the class floor
    source: SourceKind | None
    ceiling: SourceKind | None
    basis: Basis | None
    rule: LabelRule  # what lowers a text of its class that a model wrote
    steps: tuple[ExplainStep, ...]
    observation: str
    # Of a text that counts as an order or an attack: words that would be taken for one alone.
    fired: str | None = None
    # What an operator changes, or leaves, where an honest text is not written.
    remedy: str | None = None
