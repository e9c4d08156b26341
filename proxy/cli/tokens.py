"""`mnemogate token`: a person allows one text to become more powerful, once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from policy.model import TEXT_LEN_MAX, MemoryClass
from proxy.admin_wire import TOKEN_SECONDS_MAX, TokenRequest, TokenView
from proxy.cli.command import Command, read_file
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import iso

if TYPE_CHECKING:
    import argparse

    from proxy.cli.command import Context


class _Token(msgspec.Struct, frozen=True, kw_only=True):
    principal: str
    from_class: MemoryClass
    to_class: MemoryClass
    text: str | None = None
    text_file: str | None = None
    tenant: str | None = None
    nonce: str | None = None
    expires: Annotated[int, Meta(ge=1, le=TOKEN_SECONDS_MAX)] = 600


async def _token_mint(context: Context) -> Exit:
    asked = context.arguments(_Token)
    request = TokenRequest(
        principal=asked.principal,
        text=_text(asked),
        from_class=asked.from_class,
        to_class=asked.to_class,
        tenant=asked.tenant,
        nonce=asked.nonce,
        expires_in_seconds=asked.expires,
    )
    async with operator(context) as api:
        view = await api.post("/tokens", TokenView, request)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(view)
        return Exit.OK
    terminal.pairs(
        [("token", view.token), ("nonce", view.nonce), ("expires", iso(view.expires_at_ms))]
    )
    terminal.say("The write must carry exactly this text, this nonce and this token, once.")
    return Exit.OK


def _text(asked: _Token) -> str:
    if (asked.text is None) == (asked.text_file is None):
        raise CommandFailed(Exit.USAGE, "give exactly one of --text, --text-file")
    if asked.text is not None:
        return asked.text
    # Four bytes a letter is the most that UTF-8 takes.
    data = read_file(Path(asked.text_file or ""), "the text", 4 * TEXT_LEN_MAX)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CommandFailed(Exit.USAGE, "the text is not UTF-8") from error


def _token_arguments(parser: argparse.ArgumentParser) -> None:
    classes = [memory_class.value for memory_class in MemoryClass]
    parser.add_argument("--principal", required=True, help="who will write it")
    parser.add_argument("--from", dest="from_class", required=True, choices=classes)
    parser.add_argument("--to", dest="to_class", required=True, choices=classes)
    parser.add_argument("--text", help="the exact text that may be promoted")
    parser.add_argument("--text-file", metavar="FILE", help="the same, from a UTF-8 file")
    parser.add_argument("--tenant", help="default: that of the principal's key")
    parser.add_argument("--nonce", help="default: a new one, which is printed")
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
