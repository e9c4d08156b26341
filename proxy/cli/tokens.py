"""`mnemogate token`: lets one text have a more powerful class once, by a person's permission."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from policy.model import TEXT_LEN_MAX
from proxy.admin.wire.ids import IdKind
from proxy.admin.wire.store import KEYS, TOKEN, TokenRequest, TokenView
from proxy.cli.api_commands import Asked, given, lines, pairs, show, together
from proxy.cli.client import Operator
from proxy.cli.command import Command, Context, Options, option, read_file
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.short_ids import whole_id
from proxy.cli.terminal import inert
from proxy.dialects.strict_json.strict import JsonValue


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
    """The whole id of the memory to update.

    Without `--tenant` the memory is one of the tenant that the principal's key has.
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
    # A character takes at most four bytes of UTF-8, so a longer file cannot be short enough.
    data = read_file(Path(file or ""), "the text", 4 * TEXT_LEN_MAX)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CommandFailed(Exit.USAGE, "the text is not UTF-8") from error


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
COMMANDS = (
    Command(
        words=("token", "mint"),
        summary="sign a single-use token for one promotion of one text",
        act=_mint,
        options=_OPTIONS,
        form=_Token,
    ),
)
