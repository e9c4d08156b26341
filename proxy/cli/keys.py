"""`mnemogate key`: which agents, users and operators may connect, and with what rights."""

from __future__ import annotations

from typing import Final

from proxy.admin.wire.ids import IdKind
from proxy.admin.wire.store import KEY_ADD, KEY_REVOKE, KEY_ROTATE, KEYS, NewKeyView
from proxy.cli.api_commands import asking, lines, table, together
from proxy.cli.command import Context, option
from proxy.cli.terminal import inert

_COLUMNS: Final = {
    "key id": "key_id",
    "principal": "principal_id",
    "tenant": "tenant",
    "channel": "channel",
    "claims": "claims",
    "reads": "reads",
    "created": "created_at_ms",
    "revoked": "revoked_at_ms",
}
_ID: Final = option("key_id", "or the beginning of it", metavar="KEY_ID")


def _plain(made: NewKeyView) -> tuple[str, ...]:
    once = "Only a hash of it is stored: it is not shown again."
    return f"key: {inert(made.plain)}", once


def _whose(context: Context, made: NewKeyView) -> None:
    if context.value("tenant") is None:
        context.terminal.note(
            f"its memories are a tenant of their own, {inert(made.key.tenant)}: another key shares "
            f"them with --tenant {inert(made.key.tenant)}, and --tenant default joins the first one"
        )


_MADE: Final = together(table("key", _COLUMNS), lines(_plain))
COMMANDS = (
    asking("key list", "list API keys (never the keys)", KEYS, table("keys", _COLUMNS)),
    asking(
        "key add",
        "make a principal with a key, and print the key once",
        KEY_ADD,
        together(_MADE, _whose),
        options=(
            option("name", "the new principal", metavar="NAME"),
            option("--tenant", "whose memories it works on (default: NAME)"),
            option("--channel", "whom the key is bound to (default: agent)"),
            option("--claims", "trusted: the holder's own labels are believed (default: ignored)"),
            option(
                "--reads",
                "the floor for its reads: what has a less trusted label does not exist "
                "(default: all)",
            ),
        ),
    ),
    asking(
        "key rotate",
        "replace a key by a new one",
        KEY_ROTATE,
        _MADE,
        names={"key_id": IdKind.KEY},
        options=(
            _ID,
            option(
                "--grace",
                "how long the old key still works (default: 0)",
                field="grace_seconds",
                metavar="SECONDS",
            ),
        ),
    ),
    asking(
        "key revoke",
        "end a key at once",
        KEY_REVOKE,
        table("", _COLUMNS),
        names={"key_id": IdKind.KEY},
        options=(_ID,),
    ),
)
