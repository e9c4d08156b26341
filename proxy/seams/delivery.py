"""How a write reaches the place where it is kept, once a person has let it in.

A model front judges a call that the agent's own tool carries out. The sidecar has no connection to
that tool, so only the agent can have the write done, by asking for it again.
"""

from __future__ import annotations

import enum
from typing import Final

from policy.labels.forwarded_call import PREFIXES, target_of

MODEL_SERVERS: Final = "model/"
"""The beginning of the names of servers whose calls no relay carries, but the agent itself."""


class Way(enum.Enum):
    """Who writes what was let in. Stable words: the operator API shows them."""

    STORE = "store"  # nobody: it is stored with the decision
    RELAY = "relay"  # the relay of the server behind, which sends it once
    AGENT = "agent"  # the agent, when it asks for the same again


_ASKED_AGAIN: Final = tuple(target_of(prefix, MODEL_SERVERS) for prefix in PREFIXES)

FOLLOWS: Final = {
    Way.STORE: "it is done",
    Way.RELAY: "it goes to its server now, or as soon as that is connected",
    Way.AGENT: "not written yet: the agent writes it when it asks again, so tell it to",
}
"""What a person is told of each way, after "allowed: "."""

COUNTS: Final = (
    "counts against the trust of the agent that wrote it, and of the tool that it came from; what "
    "is left alone expires and counts for nothing"
)
"""What a person is told of a denial."""


def way_of(target: str) -> Way:
    """The way of a write with this target."""
    if target.startswith(_ASKED_AGAIN):
        return Way.AGENT
    return Way.RELAY if target.startswith(PREFIXES) else Way.STORE
