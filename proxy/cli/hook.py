"""`mnemogate hook`: what an agent's host runs before each call, to have the call judged."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import msgspec

from policy.verdict import Reason
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import settings_of
from proxy.cli.exits import CommandFailed, Exit
from proxy.dialects.hooks import CALL_BYTES_MAX, EVENTS, denial, read_call
from proxy.guard.client import GuardClient
from proxy.guard.wire import SOCKET
from proxy.seams.faults import MalformedRequest
from proxy.seams.observations import observation_of_call
from storage.ground.errors import StorageError

ANSWER_S: Final = 8.0
"""Seconds for the gate's answer: fewer than a host waits, which would then make the call."""


class _HookArguments(msgspec.Struct, frozen=True, kw_only=True):
    host: str


async def _hook(context: Context) -> Exit:
    host = context.arguments(_HookArguments).host
    refused = await _refused(context, host)
    if refused is not None:
        # A refusal is no failure of this command: hosts read the answer only if the exit code is 0.
        sys.stdout.write(denial(host, refused) + "\n")
    return Exit.OK


async def _refused(context: Context, host: str) -> str | None:
    """Why the host may not make the call; None if the host may."""
    try:
        call = read_call(host, await asyncio.to_thread(sys.stdin.buffer.read, CALL_BYTES_MAX + 1))
        socket = settings_of(context).state / SOCKET
        async with asyncio.timeout(ANSWER_S), GuardClient(socket, answer_s=ANSWER_S) as client:
            return await client.hooked(call)
    except TimeoutError:
        why = f"no answer within {ANSWER_S:.0f} seconds"
    except (MalformedRequest, CommandFailed, StorageError) as error:
        why = str(error)
    except Exception as error:  # noqa: BLE001 - a crash would let the host make the call
        why = type(error).__name__
    return f"{observation_of_call(Reason.GATE_UNAVAILABLE)} ({why})"


COMMANDS = (
    Command(
        words=("hook",),
        summary="have a call judged that an agent's host is about to make (its hook's command)",
        act=_hook,
        options=(
            option(
                "host",
                f"whose hook it is: {', '.join(EVENTS)}. Reads the hook's JSON on stdin and prints "
                "the denial, or nothing. Without a gate that answers, the call is denied",
                choices=tuple(EVENTS),
            ),
        ),
        form=_HookArguments,
    ),
)
