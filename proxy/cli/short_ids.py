"""Short ids on the command line: the beginning of an id is enough if no other id has it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from proxy.admin.wire.ids import BEGINNING_LEN_MIN, IDS, IdKind, IdList
from proxy.cli.client import Operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import inert
from proxy.seams.tenants import DEFAULT_TENANT

# The length of a whole id of each kind. A whole id is passed on unchecked: the command that gets it
# reports an unknown one.
_WHOLE_LEN: Final = {
    IdKind.HELD: 32,
    IdKind.REFUSED: 32,
    IdKind.UNSETTLED: 32,
    IdKind.MEMORY: 36,
    IdKind.SESSION: 32,
    IdKind.INCIDENT: 16,
    IdKind.RECALL: 16,
}
_NOUNS: Final = {
    IdKind.HELD: ("nothing that waits", "`mnemogate review list` shows what waits"),
    IdKind.REFUSED: (
        "nothing that is withheld",
        "its notice names a refused candidate; without a [[model]] table nothing is withheld",
    ),
    IdKind.MEMORY: ("no memory", "`mnemogate memory list` shows them; check --tenant"),
    IdKind.SESSION: ("no session", "`mnemogate session list` shows them"),
    IdKind.INCIDENT: (
        "no incident",
        "`mnemogate isolate --list` and `mnemogate incident list` show them",
    ),
    IdKind.RECALL: ("no recall", "`mnemogate recall list` shows the newest"),
    IdKind.KEY: ("no key", "`mnemogate key list` shows them"),
    IdKind.UNSETTLED: ("nothing that is not settled", "`mnemogate review unsettled` shows it"),
}


async def whole_id(api: Operator, kind: IdKind, given: str, tenant: str = DEFAULT_TENANT) -> str:
    """The id that begins with `given`; a whole id is returned as it is.

    Raises:
        CommandFailed: No id has this beginning, or several have; the message says which.
    """
    if len(given) >= _WHOLE_LEN.get(kind, sys.maxsize):
        return given
    check_beginning(given)
    found = await api.ask(IDS, kind=kind.value, begins=given, tenant=tenant)
    return only_id(given, found, *_NOUNS[kind])


async def whole_ids(
    api: Operator, asked: Mapping[str, object], names: Mapping[str, IdKind]
) -> dict[str, object]:
    """What was asked, with a whole id in each of the fields that `names` has.

    Raises:
        CommandFailed: No id has the beginning that was given, or several have.
    """
    tenant = str(asked.get("tenant", DEFAULT_TENANT))
    whole = dict(asked)
    for field, kind in names.items():
        if field in asked:
            whole[field] = await whole_id(api, kind, str(asked[field]), tenant)
    return whole


def check_beginning(given: str) -> None:
    """Refuse a text that is too short for the beginning of an id.

    Raises:
        CommandFailed: The text has fewer characters than `BEGINNING_LEN_MIN`.
    """
    if len(given) < BEGINNING_LEN_MIN:
        raise CommandFailed(
            Exit.USAGE,
            f"{inert(given)}: too short for the beginning of an id",
            then=f"write at least {BEGINNING_LEN_MIN} characters",
        )


def only_id(given: str, found: IdList, noun: str, then: str) -> str:
    """The one id that begins with `given`, among those that were found.

    Args:
        given: What a person typed.
        found: The ids with this beginning.
        noun: What is said to have no such id, as in "no memory", for the message.
        then: What to do next if no id begins so.

    Raises:
        CommandFailed: No id begins so, or several do; the message says which.
    """
    if found.total == 1:
        return found.ids[0]
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
