"""Asks callers' judges: programs or servers that decide whether given memories make an answer fail.

A judge is another author's program, and reads texts that an attacker may have written. A judge gets
a question and texts, and nothing else of the sidecar: no environment, no credential, no directory.
Its answer has a deadline and at most 64 KiB. An answer that cannot be parsed counts as no answer,
and blames no memory. The reason that a judge gives is not read, because it may repeat the texts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Callable, Generator, Sequence
from typing import Final, cast
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver

from proxy.seams.cases import Opinion, ReplayedMemory
from proxy.seams.faults import UpstreamError
from proxy.settings.judge_tables import JudgeTable
from proxy.transport.addresses import JudgedResolver, LookUp, is_address, look_up
from proxy.transport.upstream import Upstream, UpstreamLimits

ANSWER_BYTES_MAX: Final = 64 * 1024
ANSWER_SECONDS: Final = 30.0
_ASKED_AT_ONCE_MAX: Final = 4
_OK: Final = 200

TIMEOUT: Final = "judge_timeout"
FAILED: Final = "judge_failed"
UNREADABLE: Final = "judge_unreadable"


class _JudgeQuestion(msgspec.Struct, frozen=True, kw_only=True):
    case: str
    question: str
    memories: tuple[ReplayedMemory, ...]
    deadline_ms: int


class _Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's answer. A field `why` is not decoded, because it may repeat texts of memories."""

    fails: bool | None


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_Judgement)


class UnheardError(Exception):
    """The error for a judge that gave no usable answer.

    Its text is one of the constants of this module, such as "judge_failed".
    """


class Judges:
    """Asks callers' judges, by their programs or URLs.

    Event loop only; at most four judges are asked at once, and further questions wait. While this
    process does not hold the store (`holds`), none is asked.
    """

    def __init__(
        self,
        tables: Sequence[JudgeTable],
        *,
        look_up: LookUp = look_up,
        deadline_s: float = ANSWER_SECONDS,
        holds: Callable[[], bool] = lambda: True,
    ) -> None:
        self._holds = holds
        self._deadline_s = deadline_s
        self._tables = {table.name: table for table in tables}
        self._look_up = look_up
        self._asking = asyncio.Semaphore(_ASKED_AT_ONCE_MAX)

    def names(self) -> tuple[str, ...]:
        """The names of the judges, in the order of their `[[judge]]` tables."""
        return tuple(self._tables)

    def deterministic(self, name: str) -> bool:
        """Whether the judge claims to give the same answer to the same question each time.

        Raises:
            KeyError: No judge has this name.
        """
        return self._tables[name].deterministic

    async def ask(
        self, name: str, *, case: str, question: str, memories: Sequence[ReplayedMemory]
    ) -> Opinion:
        """Ask a judge, within its deadline, whether an answer from exactly these memories fails.

        If the judge fails, hangs or cannot be parsed, its opinion is unknown; nothing is raised.

        Raises:
            KeyError: No judge has this name.
        """
        table = self._tables[name]
        asked = _ENCODER.encode(
            _JudgeQuestion(
                case=case,
                question=question,
                memories=tuple(memories),
                deadline_ms=int(self._deadline_s * 1_000),
            )
        )
        async with self._asking:
            if not self._holds():
                return Opinion(fails=None, problem=FAILED)
            try:
                async with asyncio.timeout(self._deadline_s):
                    if table.command:
                        said = await _run(table.command, asked)
                    else:
                        said = await self._post(table, asked)
                return Opinion(fails=_DECODER.decode(said).fails)
            except TimeoutError:
                return Opinion(fails=None, problem=TIMEOUT)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                return Opinion(fails=None, problem=UNREADABLE)
            except (UnheardError, UpstreamError, OSError) as error:
                unread = isinstance(error, UnheardError)
                return Opinion(fails=None, problem=str(error) if unread else FAILED)

    async def _post(self, table: JudgeTable, asked: bytes) -> bytes:
        parts = urlsplit(table.url)
        host = str(parts.hostname)
        resolver = JudgedResolver(
            table.networks, only_allowed=parts.scheme != "https", look_up=self._look_up
        )
        # If the host is an IP address, the HTTP connector does not call the resolver, so the
        # address is checked here.
        if is_address(host):
            resolver.check(host)
        limits = UpstreamLimits(
            connect_seconds=self._deadline_s,
            head_seconds=self._deadline_s,
            body_seconds=self._deadline_s,
            body_bytes_max=ANSWER_BYTES_MAX,
            connections_max=1,
        )

        def connector() -> aiohttp.BaseConnector:
            return aiohttp.TCPConnector(
                resolver=cast("AbstractResolver", resolver), use_dns_cache=False, force_close=True
            )

        headers = {"content-type": "application/json", "user-agent": "mnemogate"}
        async with (
            Upstream(table.url, limits=limits, connector=connector) as upstream,
            upstream.send("POST", headers, asked) as reply,
        ):
            if reply.status != _OK:
                raise UnheardError(FAILED)
            return await upstream.whole(reply)


async def _run(command: tuple[str, ...], asked: bytes) -> bytes:
    """Run a judge's program on `asked`; return its output if the exit code is 0."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        env={},
        start_new_session=True,
    )
    try:
        with _one_error():
            async with asyncio.TaskGroup() as both:
                saying = both.create_task(_read(process))
                both.create_task(_write(process, asked))
        said = saying.result()
        if len(said) > ANSWER_BYTES_MAX:
            raise UnheardError(UNREADABLE)
        if await process.wait() != 0:
            raise UnheardError(FAILED)
        return said
    finally:
        # The whole process group is killed, because children of the judge may still run and keep
        # the pipe open.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@contextlib.contextmanager
def _one_error() -> Generator[None]:
    """Raise `UnheardError` for a task group's errors, if all of them are errors of the pipe."""
    try:
        yield
    except ExceptionGroup as several:
        if several.split(OSError)[1] is not None:
            raise
        raise UnheardError(FAILED) from None


async def _read(process: Process) -> bytes:
    said = bytearray()
    if process.stdout is not None:
        while piece := await process.stdout.read(ANSWER_BYTES_MAX):
            said += piece
            if len(said) > ANSWER_BYTES_MAX:
                # The judge is killed at once. A judge whose output is not read may stop reading the
                # question, so that writing the question would block.
                process.kill()
                break
    return bytes(said)


async def _write(process: Process, asked: bytes) -> None:
    # A judge may answer before it has read the whole question.
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(asked)
            await process.stdin.drain()
        process.stdin.close()
