"""`mnemogate token`: lets one text have a more powerful class once, by a person's permission."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from policy.model import TEXT_LEN_MAX, MemoryClass, SourceKind
from proxy.admin.wire.ids import IdKind
from proxy.admin.wire.store import TOKEN_SECONDS_MAX, KeyList, TokenRequest, TokenView
from proxy.cli.client import Operator
from proxy.cli.command import Command, Context, read_file
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.short_ids import whole_id
from proxy.cli.terminal import inert, iso
from proxy.dialects.strict_json.strict import JsonValue


class _Token(msgspec.Struct, frozen=True, kw_only=True):
    principal: str
    to_class: MemoryClass
    from_class: MemoryClass | None = None
    text: str | None = None
    text_file: str | None = None
    tenant: str | None = None
    nonce: str | None = None
    memory_id: str | None = None
    target: str = "memories"
    source: SourceKind | None = None
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    app_id: str | None = None
    metadata: str | None = None
    expires: Annotated[int, Meta(ge=1, le=TOKEN_SECONDS_MAX)] = 600


async def _token_mint(context: Context) -> Exit:
    asked = context.arguments(_Token)
    text, metadata = _text(asked), _metadata(asked.metadata)
    async with operator(context) as api:
        request = _request(asked, text, metadata, await _memory_id(api, asked))
        view = await api.post("/tokens", TokenView, request)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(view)
        return Exit.OK
    terminal.pairs(
        [("token", view.token), ("nonce", view.nonce), ("expires", iso(view.expires_at_ms))]
    )
    terminal.say(
        "The write must be exactly the one described here, with this nonce and token, once."
    )
    return Exit.OK


async def _memory_id(api: Operator, asked: _Token) -> str | None:
    """The whole id of the memory to update; None for a new memory.

    Without `--tenant` the memory is one of the tenant that the principal's key has.
    """
    if asked.memory_id is None:
        return None
    tenant = asked.tenant
    if tenant is None:
        keys = (await api.get("/keys", KeyList)).keys
        tenant = next((one.tenant for one in keys if one.principal == asked.principal), None)
    if tenant is None:
        raise CommandFailed(
            Exit.USAGE, f"{inert(asked.principal)} has no key", then="say which --tenant"
        )
    return await whole_id(api, IdKind.MEMORY, asked.memory_id, tenant)


def _request(
    asked: _Token, text: str, metadata: dict[str, JsonValue] | None, memory_id: str | None
) -> TokenRequest:
    return TokenRequest(
        principal=asked.principal,
        text=text,
        from_class=asked.from_class,
        to_class=asked.to_class,
        tenant=asked.tenant,
        nonce=asked.nonce,
        memory_id=memory_id,
        target=asked.target,
        source=asked.source,
        user_id=asked.user_id,
        agent_id=asked.agent_id,
        run_id=asked.run_id,
        app_id=asked.app_id,
        metadata=metadata,
        expires_in_seconds=asked.expires,
    )


def _metadata(given: str | None) -> dict[str, JsonValue] | None:
    if given is None:
        return None
    try:
        return msgspec.json.decode(given, type=dict[str, JsonValue])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise CommandFailed(
            Exit.USAGE, f"--metadata: {error}", then="give a JSON object"
        ) from error


def _text(asked: _Token) -> str:
    if (asked.text is None) == (asked.text_file is None):
        raise CommandFailed(Exit.USAGE, "give exactly one of --text, --text-file")
    if asked.text is not None:
        return asked.text
    # A character takes at most four bytes of UTF-8, so a longer file cannot be short enough.
    data = read_file(Path(asked.text_file or ""), "the text", 4 * TEXT_LEN_MAX)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CommandFailed(Exit.USAGE, "the text is not UTF-8") from error


def _token_arguments(parser: argparse.ArgumentParser) -> None:
    classes = [memory_class.value for memory_class in MemoryClass]
    parser.add_argument("--principal", required=True, help="who will write it")
    parser.add_argument(
        "--to", dest="to_class", required=True, choices=classes, help="the class it may land in"
    )
    parser.add_argument(
        "--from", dest="from_class", choices=classes, help="the stored class, for an update"
    )
    parser.add_argument("--text", help="the exact text that may be promoted")
    parser.add_argument("--text-file", metavar="FILE", help="the same, from a UTF-8 file")
    parser.add_argument("--tenant", help="default: that of the principal's key")
    parser.add_argument("--nonce", help="default: a new one, which is printed")
    parser.add_argument("--memory-id", help="the memory to update (default: a new one)")
    parser.add_argument("--target", help="default: memories")
    parser.add_argument(
        "--source",
        choices=[source.value for source in SourceKind],
        help="the label that the write will claim",
    )
    for scope in ("user", "agent", "run", "app"):
        parser.add_argument(f"--{scope}-id", help=f"the {scope} it will be filed under")
    parser.add_argument("--metadata", metavar="JSON", help="the metadata it will carry")
    parser.add_argument(
        "--expires", type=int, metavar="SECONDS", help="for how long it is valid (default: 600)"
    )


COMMANDS = (
    Command(
        words=("token", "mint"),
        summary="sign a single-use token for one promotion of one text",
        act=_token_mint,
        arguments=_token_arguments,
    ),
)
