"""Requests and answers of the operator API about files that hosts put into model requests."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from proxy.admin.wire.route import TenantQuery, get, post
from storage.features.kept_places import LET_IN_LEN_MAX, KeptPlace


class PlaceList(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a tenant, by path. `full`: lines of a further file are not kept."""

    places: tuple[KeptPlace, ...]
    full: bool = False


class AcceptRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Let the lines of a text into a file, for all principals of the tenant."""

    path: Annotated[str, Meta(min_length=1, max_length=512)]
    text: Annotated[str, Meta(max_length=LET_IN_LEN_MAX)]


PLACES: Final = get(
    "/places", TenantQuery, PlaceList, "Files in model requests, and their lines that wait."
)
ACCEPT_LINES: Final = post(
    "/places/accept", AcceptRequest, KeptPlace, "Let lines into a file, as they were shown."
)
