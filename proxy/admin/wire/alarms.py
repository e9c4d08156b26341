"""Requests and answers of the operator API about names under a drift alarm.

GET  /drift?tenant=          -> AlarmList
GET  /drift/status?tenant=   -> DriftView
POST /drift/accept           AcceptRequest -> AcceptedView
POST /drift/revoke           AcceptRequest -> AcceptedView
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from policy.model import NAME_LEN_MAX
from proxy.seams.tenants import DEFAULT_TENANT, TenantName


class AlarmView(msgspec.Struct, frozen=True, kw_only=True):
    """A name that several live memories of low trust mention.

    `cell` (16 hex digits) stands for it in logs, spans and leaves. `name` is null where no live
    memory is found that mentions it. `memory_ids`: the newest of `count` memories.
    """

    cell: str
    name: str | None
    count: int
    accepted: bool
    memory_ids: tuple[str, ...]


class AlarmList(msgspec.Struct, frozen=True, kw_only=True):
    """Every name under alarm in a tenant, the most mentioned first."""

    alarms: tuple[AlarmView, ...]


class DriftView(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules do about drift, and how many names of a tenant are watched.

    `names_floor` is the count with which a new name begins, because names were evicted for lack of
    room in the last days. `said_words` counts words that persons said, which raise no alarm.
    """

    names: str  # "off" | "alarm" | "hold"
    alarm_count: int
    shown_of_ten: int
    shown_on_probation: int
    alarms: int
    names_watched: int
    names_max: int
    names_floor: int
    said_words: int
    covered: tuple[str, ...]
    mixed_case_only: tuple[str, ...]
    not_covered: tuple[str, ...]


class AcceptRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A name whose drift alarm shall hold no write, or shall again.

    For a name of several words, that applies to each word.
    """

    name: Annotated[str, Meta(min_length=1, max_length=NAME_LEN_MAX)]
    tenant: TenantName = DEFAULT_TENANT


class AcceptedView(msgspec.Struct, frozen=True, kw_only=True):
    """The cells (keyed hashes) of the words that were changed; each change left a leaf."""

    cells: tuple[str, ...]
