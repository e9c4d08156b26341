"""Handlers of pages that show the answers of calls, and the page that an act leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from proxy.admin.wire.route import AnyRoute
from proxy.console.page import PageCall, Shown
from proxy.seams.faults import MalformedRequest

SHOWN_AT_ONCE: Final = 100
"""How many entries a page of a listing has."""


def asked_of(call: PageCall, row: AnyRoute) -> dict[str, object]:
    """The fields of a call that the query of a page gives; a blank one is not given.

    Raises:
        MalformedRequest: A field has a wrong value.
    """
    names = {one.encode_name for one in msgspec.structs.fields(row.asked)}
    given = {name: text for name, text in call.query.items() if name in names and text}
    try:
        values: dict[str, object] = msgspec.to_builtins(
            msgspec.convert(given, row.asked, strict=False)
        )
    except msgspec.ValidationError as error:
        raise MalformedRequest(f"This is no address of this console: {error}") from None
    return values


def shows(template: str, **rows: AnyRoute) -> Callable[[PageCall], Awaitable[Shown]]:
    """A handler that draws the answer of each row under its name; one row has the page's query."""

    async def handler(call: PageCall) -> Shown:
        answers = {
            name: await call.ask(row, call.argument, **asked_of(call, row))
            for name, row in rows.items()
        }
        return Shown(template, {**answers, "query": call.query})

    return handler


def done(title: str, *sentences: str, leaf: int | None = None, onward: str, words: str) -> Shown:
    """The page that an act leaves: sentences, the leaf that records the act, and a link."""
    links = [(onward, words)]
    if leaf is not None:
        links.append((f"/audit/{leaf}", f"Leaf {leaf} of the audit log, which records it"))
    return Shown("done.html", {"title": title, "sentences": sentences, "onward": tuple(links)})
