"""Short ids: a beginning that no other id has is enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.admin.wire.ids import BEGINNING_LEN_MIN, IdKind, IdList
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import inert
from proxy.seams.tenants import DEFAULT_TENANT

if TYPE_CHECKING:
    from proxy.cli.client import Operator

_NOUNS: Final = {
    IdKind.HELD: ("nothing that waits", "`mnemogate review list` shows what waits"),
    IdKind.REFUSED: ("nothing that is withheld", "its notice names a refused candidate"),
    IdKind.MEMORY: ("no live memory", "`mnemogate memory list` shows them; check --tenant"),
    IdKind.SESSION: ("no session", "`mnemogate session list` shows them"),
}


async def whole_id(
    api: Operator, kind: IdKind, given: str, tenant: str = DEFAULT_TENANT, *, whole_len: int = 0
) -> str:
    """The id with this beginning. One of `whole_len` characters is taken as it is.

    Raises:
        CommandFailed: None does, or more than one: which, is said.
    """
    if whole_len and len(given) >= whole_len:
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
