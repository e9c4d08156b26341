"""What the session ledger knows of one candidate: its session and its origins, never a proof."""

from __future__ import annotations

from typing import Final

import msgspec

from policy.model import Origin

HOST: Final = "//"
"""How the name of a host begins among the tools and hosts that a session had read."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the session ledger saw of one candidate. The defaults mean that it saw nothing."""

    # Our own id of the session (32 hex digits), never a client's; None where no session was found.
    session: str | None = None
    # Whether a model of that session made the call that writes the candidate.
    called: bool = False
    # Whether the session had read foreign text. Where no session was found: whether one of the
    # principal's sessions had, in the last day.
    after_reading: bool = False
    # The texts of the session that contain the candidate's text, the least trusted first.
    contained: tuple[Origin, ...] = ()
    # The tools and hosts that the session had read, as `Provenance` has them.
    read_origins: tuple[str, ...] = ()
