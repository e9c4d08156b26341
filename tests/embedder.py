"""One embedder for all sidecars and interceptors of a test process.

It is the product's own, and the same text gives the same vector however often it was asked. To read
and hash its weights anew takes longer than most tests that need them.
"""

from __future__ import annotations

from functools import cache

from proxy.embed.embedding import resolve_embedder
from proxy.seams.environment import Embedder


@cache
def shared_embedder(name: str) -> Embedder:
    """The embedder of a configured name, loaded once."""
    return resolve_embedder(name)


def share_embedder() -> None:
    """Have every sidecar that this process composes take the shared one."""
    from proxy.compose import app  # noqa: PLC0415 - interceptors alone do not need all of it

    app.__dict__["resolve_embedder"] = shared_embedder
