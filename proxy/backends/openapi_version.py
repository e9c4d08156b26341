"""The version of a server, by the routes that its OpenAPI document lists.

Some servers give one version of themselves in every release.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from proxy.seams.http_backend import Routed
from proxy.seams.operation import HttpReply

_PARAMETER: Final = re.compile(r"\{[^/{}]*\}")
_DIGEST_LEN: Final = 16
_OK: Final = 200


def version_of(
    reply: HttpReply, tables: Mapping[str, Mapping[tuple[str, str], Routed]], root: str = ""
) -> str | None:
    """The version with these very routes below `root`; None where this is no such document.

    Routes that no known version has get a name of their own, so that an operator is asked about
    them once.
    """
    if reply.status != _OK:
        return None
    try:
        document = msgspec.json.decode(reply.body, type=_Document)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    listed = {
        (method.upper(), _PARAMETER.sub("*", path).removeprefix(f"{root}/"))
        for path, methods in document.paths.items()
        for method in methods
    }
    for version, table in tables.items():
        if listed == set(table):
            return version
    names = "\n".join(f"{method} {path}" for method, path in sorted(listed))
    return f"routes-{hashlib.sha256(names.encode()).hexdigest()[:_DIGEST_LEN]}"


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an OpenAPI document that lists the routes."""

    paths: dict[str, dict[str, msgspec.Raw]]
