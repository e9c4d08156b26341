"""The request and answer of `mnemogate policy explain`."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import TEXT_LEN_MAX, Basis, Channel, Claims, MemoryClass, SourceKind
from proxy.admin.wire.route import TenantQuery, post


class ExplainRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hypothetical write. It is judged and forgotten: nothing is staged, logged or stored."""

    text: Annotated[str, Meta(max_length=TEXT_LEN_MAX)]
    memory_class: MemoryClass = MemoryClass.L3
    class_named: bool = True
    # None: the label is derived from the channel, as for a real write
    source: SourceKind | None = None
    channel: Channel = Channel.AGENT
    claims: Claims = Claims.IGNORED
    token: bool = False  # True: judge as if the write carried a valid promotion token
    trust: Annotated[str, Meta(pattern="^(trusted|degraded|untrusted)$")] = "trusted"
    called: bool = False  # True: judge as if the session ledger had seen a model make the call


class ExplainStep(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one numbered step of the gate for a hypothetical write."""

    step: int
    name: str
    outcome: str  # "passed" | "failed" | "not_reached"


class ExplainView(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict that the hypothetical write would get, with its steps and label."""

    decision: str
    reason: str | None
    step: int | None
    memory_class: MemoryClass  # the class that counts for the write, after the class floor
    source: SourceKind | None
    basis: Basis | None
    steps: tuple[ExplainStep, ...]
    observation: str
    # If the text counts as a directive or an injection: the words that alone would count so.
    fired: str | None = None
    # What an operator could change if an honest text is refused.
    remedy: str | None = None


EXPLAIN: Final = post(
    "/policy/explain",
    ExplainRequest,
    ExplainView,
    "Judge a write that never happens, step by step.",
)
