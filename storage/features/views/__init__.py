"""Views of what a tenant's memories are and where they came from, for operators alone.

Each view is computed from the rows when it is asked for, and stored nowhere. No view has a part in
a verdict, or in a read of an agent.
"""

from __future__ import annotations

import msgspec


class OriginView(msgspec.Struct, kw_only=True):
    """What one server, tool, session or principal (`by`) brought into the memories of a tenant.

    `labels` counts the live memories by label, `hidden` those in quarantine. `shares` are shares of
    all memories that the newest reads showed, by the label of the version shown. `trust` is the
    score of a tool or a principal of which an outcome is known.
    """

    by: str
    name: str
    labels: dict[str, int]
    shares: dict[str, float]
    hidden: int = 0
    trust: float | None = None
