"""`mnemogate key`: which agents, users and operators may connect, and with what rights."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from policy.model import Channel, Claims, Reads
from proxy.admin.wire.ids import IdKind
from proxy.admin.wire.store import KeyList, KeyRequest, KeyView, NewKeyView, RotateRequest
from proxy.cli.client import part
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import Exit
from proxy.cli.short_ids import whole_id
from proxy.cli.terminal import Terminal, inert, iso


class _KeyId(msgspec.Struct, frozen=True, kw_only=True):
    key_id: str
    grace: Annotated[int, Meta(ge=0)] = 0


class _NewKey(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    tenant: str | None = None
    channel: Channel = Channel.AGENT
    claims: Claims = Claims.IGNORED
    reads: Reads = Reads.ALL


async def _key_list(context: Context) -> Exit:
    async with operator(context) as api:
        listed = await api.get("/keys", KeyList)
    if context.terminal.as_json:
        context.terminal.data(listed)
    else:
        _key_table(context.terminal, listed.keys)
    return Exit.OK


async def _key_add(context: Context) -> Exit:
    asked = context.arguments(_NewKey)
    request = KeyRequest(
        name=asked.name,
        tenant=asked.tenant,
        channel=asked.channel,
        claims=asked.claims,
        reads=asked.reads,
    )
    async with operator(context) as api:
        made = await api.post("/keys", NewKeyView, request)
    _show_key(context.terminal, made)
    if asked.tenant is None and not context.terminal.as_json:
        context.terminal.note(
            f"its memories are a tenant of their own, {inert(made.key.tenant)}: another key shares "
            f"them with --tenant {inert(made.key.tenant)}, and --tenant default joins the first one"
        )
    return Exit.OK


async def _key_rotate(context: Context) -> Exit:
    asked = context.arguments(_KeyId)
    async with operator(context) as api:
        key_id = await whole_id(api, IdKind.KEY, asked.key_id)
        made = await api.post(
            f"/keys/{part(key_id)}/rotate",
            NewKeyView,
            RotateRequest(grace_seconds=asked.grace),
        )
    _show_key(context.terminal, made)
    return Exit.OK


async def _key_revoke(context: Context) -> Exit:
    asked = context.arguments(_KeyId)
    async with operator(context) as api:
        key_id = await whole_id(api, IdKind.KEY, asked.key_id)
        view = await api.post(f"/keys/{part(key_id)}/revoke", KeyView)
    if context.terminal.as_json:
        context.terminal.data(view)
    else:
        _key_table(context.terminal, (view,))
    return Exit.OK


def _show_key(terminal: Terminal, made: NewKeyView) -> None:
    if terminal.as_json:
        terminal.data(made)
        return
    _key_table(terminal, (made.key,))
    terminal.say(f"key: {inert(made.plain)}")
    terminal.say("Only a hash of it is stored: it is not shown again.")


def _key_table(terminal: Terminal, keys: Sequence[KeyView]) -> None:
    terminal.table(
        ("key id", "principal", "tenant", "channel", "claims", "reads", "created", "revoked"),
        [
            (
                key.key_id,
                key.principal,
                key.tenant,
                key.channel.value,
                key.claims.value,
                key.reads.value,
                iso(key.created_at_ms),
                iso(key.revoked_at_ms),
            )
            for key in keys
        ],
    )


def _key_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key_id", metavar="KEY_ID", help="or the beginning of it")


def _key_rotate_arguments(parser: argparse.ArgumentParser) -> None:
    _key_id(parser)
    parser.add_argument(
        "--grace", type=int, metavar="SECONDS", help="how long the old key still works (default: 0)"
    )


def _key_add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the new principal")
    parser.add_argument("--tenant", help="whose memories it works on (default: NAME)")
    parser.add_argument(
        "--channel",
        choices=[channel.value for channel in Channel],
        help="whom the key is bound to (default: agent)",
    )
    parser.add_argument(
        "--claims",
        choices=[claims.value for claims in Claims],
        help="trusted: the holder's own labels are believed (default: ignored)",
    )
    parser.add_argument(
        "--reads",
        choices=[reads.value for reads in Reads],
        help="the floor for its reads: what has a less trusted label does not exist (default: all)",
    )


COMMANDS = (
    Command(words=("key", "list"), summary="list API keys (never the keys)", act=_key_list),
    Command(
        words=("key", "add"),
        summary="make a principal with a key, and print the key once",
        act=_key_add,
        arguments=_key_add_arguments,
    ),
    Command(
        words=("key", "rotate"),
        summary="replace a key by a new one",
        act=_key_rotate,
        arguments=_key_rotate_arguments,
    ),
    Command(
        words=("key", "revoke"),
        summary="end a key at once",
        act=_key_revoke,
        arguments=_key_id,
    ),
)
