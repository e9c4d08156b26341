"""Requests and answers of the operator API about files that hosts put into model requests."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import TEXT_LEN_MAX
from proxy.admin.wire.route import TenantQuery, get, post
from storage.features.kept_places import WAITING_MAX, KeptPlace

_Path = Annotated[str, Meta(min_length=1, max_length=512)]
_Digest = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]


class PlaceList(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a tenant, by path."""

    places: tuple[KeptPlace, ...]


class AcceptRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Let lines of a file in, for all principals of the tenant: the lines with these digests."""

    path: _Path
    lines: Annotated[tuple[_Digest, ...], Meta(min_length=1, max_length=WAITING_MAX)]


class ImportRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Let all lines of a file's text in, before any request has the file."""

    path: _Path
    text: Annotated[str, Meta(max_length=TEXT_LEN_MAX)]


PLACES: Final = get(
    "/places", TenantQuery, PlaceList, "Files in model requests, and their lines that wait."
)
ACCEPT_LINES: Final = post(
    "/places/accept", AcceptRequest, KeptPlace, "Let lines of a file in, as they were shown."
)
IMPORT_LINES: Final = post(
    "/places/import", ImportRequest, KeptPlace, "Let all lines of a file in beforehand."
)
