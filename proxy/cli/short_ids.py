"""Short ids: a beginning that no other id has is enough."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from proxy.admin.wire.ids import BEGINNING_LEN_MIN, IdKind, IdList
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import inert
from proxy.seams.tenants import DEFAULT_TENANT

if TYPE_CHECKING:
    from proxy.cli.client import Operator

# An id of this length is whole: it is passed on as it is, and its own command says what it is not.
_WHOLE_LEN: Final = {
    IdKind.HELD: 32,
    IdKind.REFUSED: 32,
    IdKind.UNSETTLED: 32,
    IdKind.MEMORY: 36,
}
_NOUNS: Final = {
    IdKind.HELD: ("nothing that waits", "`mnemogate review list` shows what waits"),
    IdKind.REFUSED: ("nothing that is withheld", "its notice names a refused candidate"),
    IdKind.MEMORY: ("no memory", "`mnemogate memory list` shows them; check --tenant"),
    IdKind.SESSION: ("no session", "`mnemogate session list` shows them"),
    IdKind.KEY: ("no key", "`mnemogate key list` shows them"),
    IdKind.UNSETTLED: ("nothing that is not settled", "`mnemogate review unsettled` shows it"),
}


async def whole_id(api: Operator, kind: IdKind, given: str, tenant: str = DEFAULT_TENANT) -> str:
    """The id with this beginning; a whole one is taken as it is.

    Raises:
        CommandFailed: None does, or more than one: which, is said.
    """
    if len(given) >= _WHOLE_LEN.get(kind, sys.maxsize):
        return given
    if len(given) < BEGINNING_LEN_MIN:
        raise CommandFailed(
            Exit.USAGE,
            f"{inert(given)}: too short for the beginning of an id",
            then=f"write at least {BEGINNING_LEN_MIN} characters",
        )
    found = await api.get("/ids", IdList, kind=kind.value, begins=given, tenant=tenant)
    if found.total == 1:
        return found.ids[0]
    noun, then = _NOUNS[kind]
    if found.total == 0:
        what = f"{noun} has an id that begins with {inert(given)}"
        raise CommandFailed(Exit.NOT_FOUND, what, then=then)
    named = ", ".join(map(inert, found.ids))
    more = f" and {found.total - len(found.ids)} more" if found.total > len(found.ids) else ""
    raise CommandFailed(
        Exit.USAGE,
        f"{found.total} ids begin with {inert(given)}: {named}{more}",
        then="write more of the one you mean",
    )
