"""Has heads of the audit log cosigned by witnesses (C2SP tlog-witness), which keep what they saw.

A witness cosigns a head only if it continues the last one, so that no one can be shown a log that
was rolled back or forked under a witnessed head.
"""

from __future__ import annotations

import asyncio
import base64
from http import HTTPStatus
from typing import Final

import msgspec

from proxy.seams.environment import Environment
from proxy.seams.faults import UpstreamError
from proxy.seams.readiness import Readiness
from proxy.settings.witness import WitnessTable
from proxy.transport.upstream import Upstream, UpstreamLimits
from storage.audit import WITNESSED, BadCheckpoint, cosignature_of
from storage.interfaces import Store
from storage.values import AuditHead

LIMITS: Final = UpstreamLimits(
    connect_seconds=5.0,
    head_seconds=10.0,
    body_seconds=10.0,
    body_bytes_max=32 * 1024,
    connections_max=1,
)
YOUNG_MS: Final = 3_600_000
_WHY: Final = {
    403: ": it does not know the key of this log",
    404: ": it does not know this log",
    422: ": the log does not continue what it cosigned before, so it was rolled back or forked",
}


class Witnesses:
    """Sends heads of the log to every witness, beside all verdicts. Event loop only."""

    def __init__(
        self,
        tables: tuple[WitnessTable, ...],
        required: int,
        store: Store,
        surroundings: Environment,
    ) -> None:
        """A head is witnessed once `required` of the witnesses have cosigned it."""
        self._tables = tables
        self._required = required
        self._store = store
        self._surroundings = surroundings
        # The size of the head that each witness cosigned last, by its own account.
        self._sizes = {one.name: 0 for one in tables}
        self._upstreams = {
            one.name: Upstream(
                one.url.rstrip("/"), limits=LIMITS, way=one, serving=surroundings.serving
            )
            for one in tables
        }
        # The time in the cosignatures of the last witnessed head.
        self._witnessed_ms = 0

    async def turn(self) -> None:
        """Have the newest head cosigned by one witness after the other, and keep it if witnessed.

        An unchanged head is sent again, because a cosignature has a time.
        """
        head = await asyncio.to_thread(self._store.audit.head)
        signed = [line for one in self._tables if (line := await self._cosigned(one, head))]
        if len(signed) >= self._required:
            note = msgspec.json.encode("".join([head.note, *(f"{line}\n" for line, _ in signed)]))
            await asyncio.to_thread(self._store.write_cursor, WITNESSED, note)
            # A clock that is ahead makes no head younger.
            self._witnessed_ms = min(
                sorted(1_000 * at_s for _, at_s in signed)[-self._required],
                self._surroundings.now_ms(),
            )

    def shown(self, ready: Readiness) -> Readiness:
        """The body of `/readyz` with each witness that does not cosign, and why.

        It is degraded while no head was witnessed within an hour.
        """
        late = self._surroundings.now_ms() - self._witnessed_ms > YOUNG_MS and bool(self._tables)
        reasons = [
            *([] if ready.reason is None else [ready.reason]),
            *([f"no head of the log has {self._required} fresh cosignatures"] if late else []),
            *(
                f"{one.table}: {one.cause}"
                for one in self._surroundings.serving.upstreams
                if one.cause and one.table.startswith(f"[[{WitnessTable.KIND}]]")
            ),
        ]
        return msgspec.structs.replace(
            ready,
            status="degraded" if late else ready.status,
            reason="; ".join(reasons) or None,
        )

    async def _cosigned(self, witness: WitnessTable, head: AuditHead) -> tuple[str, int] | None:
        """A witness's cosignature and the time in it; None if it gives none, which is logged."""
        try:
            async with self._upstreams[witness.name] as upstream:
                return await self._ask(upstream, witness, head, last=False)
        except UpstreamError:
            return None

    async def _ask(
        self, upstream: Upstream, witness: WitnessTable, head: AuditHead, *, last: bool
    ) -> tuple[str, int]:
        """Ask, and unless it is `last`, once more from the head that the witness then names."""
        old = self._sizes[witness.name]
        proof = await asyncio.to_thread(self._store.audit.continues, old, head.size)
        lines = [f"old {old}", *(base64.b64encode(node).decode() for node in proof), "", head.note]
        body = "\n".join(lines).encode()
        async with upstream.send("POST", {}, body, "/add-checkpoint") as reply:
            answer = await upstream.whole(reply)
            # What is wrong with an answer is raised here, so that it is the state of the witness.
            if reply.status == HTTPStatus.CONFLICT and not last:
                # A new holder of the store learns so which head the witness has. It is asked again
                # before this answer counts as service, or each refusal that follows would be logged
                # with a recovery before it.
                self._sizes[witness.name] = _size_in(answer, head)
                return await self._ask(upstream, witness, head, last=True)
            signed = _cosignature_in(reply.status, answer, witness, head)
            self._sizes[witness.name] = head.size
            return signed


def _cosignature_in(
    status: int, answer: bytes, witness: WitnessTable, head: AuditHead
) -> tuple[str, int]:
    if status != HTTPStatus.OK:
        raise UpstreamError(f"it refuses the head of the log with {status}{_WHY.get(status, '')}")
    try:
        return cosignature_of(head.note.encode(), answer, witness.verifier)
    except BadCheckpoint as error:
        raise UpstreamError(f"its answer does not count: {error}") from None


def _size_in(answer: bytes, head: AuditHead) -> int:
    """The size in the answer 409, which must be that of a head that this log can continue."""
    digits = answer[:20].removesuffix(b"\n")
    if not digits.isdigit():
        raise UpstreamError("it answers 409 without the size of the head that it has")
    if int(digits) > head.size:
        # Without numbers: `/readyz` needs no key, and the store's numbers are an operator's.
        raise UpstreamError(
            "it answers 409: it cosigned a longer log, so that this one was rolled back or forked"
        )
    return int(digits)
