"""`mnemogate trust`, `key` and `token`: principals' trust, API keys and promotion tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from policy.model import TEXT_LEN_MAX
from proxy.admin.wire.route import IdKind
from proxy.admin.wire.store import (
    KEY_ADD,
    KEY_REVOKE,
    KEY_ROTATE,
    KEYS,
    ORIGIN_TRUST,
    RESTORE,
    RESTORE_ORIGIN,
    TOKEN,
    TRUST,
    TRUST_OF,
    NewKeyView,
    OriginTrustView,
    TokenRequest,
    TokenView,
    TrustList,
    TrustStanding,
    TrustView,
)
from proxy.cli.api_commands import (
    Asked,
    Columns,
    asking,
    given,
    lines,
    pairs,
    show,
    table,
    together,
)
from proxy.cli.client import Operator, whole_id
from proxy.cli.command import Command, Context, Options, option, read_text
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import inert
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.tenants import DEFAULT_TENANT


class _Whose(msgspec.Struct, frozen=True, kw_only=True):
    principal: str | None = None
    origin: list[str] | None = None
    tenant: str = DEFAULT_TENANT
    history: bool = False

    @property
    def named(self) -> dict[str, str]:
        """The origin in the fields of the API's request."""
        server, tool = self.origin or ("", "")
        return {"server": server, "tool": tool, "tenant": self.tenant}


async def _show(context: Context) -> Exit:
    asked = context.arguments(_Whose)
    if asked.principal is not None and asked.origin is not None:
        raise CommandFailed(Exit.USAGE, "name a principal, or --origin: one of both")
    if asked.history and asked.principal is None and asked.origin is None:
        raise CommandFailed(Exit.USAGE, "--history is that of one principal or one origin: name it")
    async with operator(context) as api:
        if asked.principal is not None:
            one: TrustStanding = await api.ask(TRUST_OF, asked.principal)
        elif asked.origin is not None:
            one = await api.ask(ORIGIN_TRUST, **asked.named)
        else:
            show(context, await api.ask(TRUST), _all)
            return Exit.OK
    context.terminal.answer(_listed(one))
    (_HISTORY if asked.history else _one)(context, one)
    return Exit.OK


async def _restore(context: Context) -> Exit:
    asked = context.arguments(_Whose)
    if (asked.principal is None) is (asked.origin is None):
        raise CommandFailed(Exit.USAGE, "name a principal, or --origin SERVER TOOL")
    async with operator(context) as api:
        if asked.principal is not None:
            one: TrustStanding = await api.ask(RESTORE, asked.principal)
        else:
            one = await api.ask(RESTORE_ORIGIN, **asked.named)
    show(context, one, _one)
    return Exit.OK


def _listed(one: TrustStanding) -> TrustList:
    principals = (one,) if isinstance(one, TrustView) else ()
    origins = (one,) if isinstance(one, OriginTrustView) else ()
    return TrustList(principals=principals, origins=origins)


def _all(context: Context, listed: TrustList) -> None:
    _PRINCIPALS(context, listed)
    if listed.origins:
        _ORIGINS(context, listed)


def _one(context: Context, one: TrustStanding) -> None:
    (_PRINCIPALS if isinstance(one, TrustView) else _ORIGINS)(context, _listed(one))


def _probation(one: TrustStanding) -> str:
    return "" if one.latched_at_ms is None else f"{one.probation_left} good to go"


_STANDING: Final[Columns] = {
    "score": "{0.score:.2f}",
    "evidence": "{0.cusum:.1f}",
    "latched": "latched_at_ms",
    "probation": _probation,
    "restores": "restores_count",
}
_PRINCIPALS: Final = table(
    "principals",
    {
        "principal": "principal",
        "ladder": "level",
        "violations": "violations_count",
        **_STANDING,
    },
)
_ORIGINS: Final = table(
    "origins", {"server": "server", "tool": "tool", "tenant": "tenant", **_STANDING}
)
_HISTORY: Final = table(
    "history",
    {
        "when": "at_ms",
        "what": "kind",
        "because of leaf": "cause",
        "leaf": "leaf_index",
        "became": "became",
    },
)
_WHOSE: Final[Options] = (
    option("principal", metavar="PRINCIPAL"),
    option("--origin", "a server's tool instead", metavar=("SERVER", "TOOL")),
    option("--tenant", f"in whose sessions (default: {DEFAULT_TENANT})"),
)
_TRUST_COMMANDS = (
    Command(
        words=("trust", "show"),
        summary="show the trust of all principals and tools, or of one and why",
        act=_show,
        options=(
            *_WHOSE,
            option("--history", "its last 64 changes, and the leaf of each cause"),
        ),
        form=_Whose,
    ),
    Command(
        words=("trust", "restore"),
        summary="put a principal or a tool back to trusted; leaves an audit leaf",
        act=_restore,
        options=_WHOSE,
        form=_Whose,
    ),
)


_COLUMNS: Final = {
    "key id": "key_id",
    "principal": "principal_id",
    "tenant": "tenant",
    "channel": "channel",
    "claims": "claims",
    "reads": "reads",
    "may": "may",
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
_KEYS_COMMANDS = (
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
            option(
                "--may",
                "how far an operator's key reaches: view (no content), review (and what waits), "
                "operate (default: operate)",
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


class _Token(TokenRequest, frozen=True, kw_only=True):
    text_file: str | None = None


async def _mint(context: Context) -> Exit:
    asked = given(context, _OPTIONS)
    asked["text"] = _text(context.given("text"), context.given("text_file"))
    asked.pop("text_file", None)
    async with operator(context) as api:
        if "memory_id" in asked:
            asked["memory_id"] = await _memory_id(api, asked)
        show(context, await api.ask(TOKEN, **asked), _GRANTED)
    return Exit.OK


async def _memory_id(api: Operator, asked: Asked) -> str:
    """The complete id of the memory that the token's write will update.

    Without `--tenant` the id is looked up in the tenant of the principal's key.
    """
    principal, tenant = str(asked["principal"]), asked.get("tenant")
    if tenant is None:
        keys = (await api.ask(KEYS)).keys
        tenant = next((one.tenant for one in keys if one.principal_id == principal), None)
    if tenant is None:
        raise CommandFailed(Exit.USAGE, f"{inert(principal)} has no key", then="say which --tenant")
    return await whole_id(api, IdKind.MEMORY, str(asked["memory_id"]), str(tenant))


def _metadata(flag: str, typed: str) -> dict[str, JsonValue]:
    try:
        return msgspec.json.decode(typed, type=dict[str, JsonValue])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise CommandFailed(Exit.USAGE, f"{flag}: {error}", then="give a JSON object") from error


def _text(text: str | None, file: str | None) -> str:
    if (text is None) == (file is None):
        raise CommandFailed(Exit.USAGE, "give exactly one of --text, --text-file")
    if text is not None:
        return text
    # A character takes at most four bytes of UTF-8, so a longer file contains too many characters.
    return read_text(Path(file or ""), "the text", 4 * TEXT_LEN_MAX)


def _once(_view: TokenView) -> tuple[str, ...]:
    return ("The write must be exactly the one described here, with this nonce and token, once.",)


_GRANTED: Final = together(
    pairs({"token": "token", "nonce": "nonce", "expires": "expires_at_ms"}),
    lines(_once),
)
_OPTIONS: Final[Options] = (
    option("--principal", "who will write it", required=True),
    option("--to", "the class it may land in", field="to_class", required=True),
    option("--from", "the stored class, for an update", field="from_class"),
    option("--text", "the exact text that may be promoted"),
    option("--text-file", "the same, from a UTF-8 file", metavar="FILE"),
    option("--tenant", "default: that of the principal's key"),
    option("--nonce", "default: a new one, which is printed"),
    option("--memory-id", "the memory to update (default: a new one)"),
    option("--target", "default: memories"),
    option("--source", "the label that the write will claim"),
    *(
        option(f"--{scope}-id", f"the {scope} it will be filed under")
        for scope in ("user", "agent", "run", "app")
    ),
    option("--metadata", "the metadata it will carry", metavar="JSON", read=_metadata),
    option(
        "--expires",
        "for how long it is valid (default: 600)",
        field="expires_in_seconds",
        metavar="SECONDS",
    ),
)
_TOKENS_COMMANDS = (
    Command(
        words=("token", "mint"),
        summary="sign a single-use token for one promotion of one text",
        act=_mint,
        options=_OPTIONS,
        form=_Token,
    ),
)
COMMANDS = (*_TRUST_COMMANDS, *_KEYS_COMMANDS, *_TOKENS_COMMANDS)
