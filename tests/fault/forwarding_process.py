"""The process that dies in guard mode.

`python -m tests.fault.forwarding_process ROOT STEP POINT CANARY` leaves one settled memory, one
intent, and one released candidate behind, and kills itself at a named crash point of one step.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from policy.labels.forwarded_call import MCP, ForwardedCall, target_of, texts_of
from policy.model import Candidate, CandidateId, ForwardStatus, MemoryClass, SourceKind
from storage.embedded import EmbeddedStore
from storage.values import GuardedServer, Submission
from tests.evaluate.points import Killer
from tests.fault.crashing import OPTIONS
from tests.unit.storage.opening import (
    AGENT,
    BY,
    TENANT,
    VOUCHED,
    Bench,
    candidate_of,
    submission_of,
    write,
)

TARGET = target_of(MCP, "memory")
BEHIND = GuardedServer(tenant=TENANT, target=TARGET, by=BY)
STEPS = ("judge", "settle", "lose", "claim", "release")


def candidate(name: str, canary: str, **fields: object) -> Candidate:
    """A candidate whose every word is the canary's."""
    word = canary + name
    call = ForwardedCall(
        tool=word, arguments=f'{{"k":"{word}"}}', key=word, pieces=(f"{word} was here",)
    )
    text, metadata_json = texts_of(call)
    principal = VOUCHED if name == "reject" else AGENT
    return candidate_of(
        text, principal, nonce=word, target=TARGET, metadata_json=metadata_json, **fields
    )


def submission(name: str, canary: str) -> Submission:
    """The item, submitted as the guard submits it."""
    word = canary + name
    if name == "reject":
        forbidden = candidate(
            name,
            canary,
            memory_class=MemoryClass.L1,
            class_named=True,
            claimed_source=SourceKind.TOOL_RESULT,
        )
        return submission_of(forbidden, VOUCHED, guarded_key=word)
    held = {"instructions": True} if name in {"hold", "released"} else {}
    return submission_of(candidate(name, canary, **held), guarded_key=word)


def settle(store: EmbeddedStore, candidate_id: CandidateId, how: ForwardStatus) -> None:
    asyncio.run(store.forwards.settle(BEHIND, ((candidate_id, how),)))


def _step(store: EmbeddedStore, step: str, canary: str, ids: dict[str, CandidateId]) -> None:
    match step:
        case "judge":
            names = ("admit", "hold", "reject")
            write(store, *(submission(name, canary) for name in names))
        case "settle":
            settle(store, ids["intent"], ForwardStatus.DONE)
        case "lose":
            settle(store, ids["intent"], ForwardStatus.UNKNOWN)
        case "claim":
            asyncio.run(store.forwards.claim(BEHIND, (ids["released"],)))
        case "release":
            asyncio.run(store.writer.release(ids["hold"], BY))
        case _:
            raise ValueError(step)


def main(root: str, step: str, point: str, canary: str) -> None:
    killer = Killer(point)
    store = Bench(Path(root)).open(killer, options=OPTIONS)
    ids: dict[str, CandidateId] = {}
    names = ["settled", "intent", "released"]
    if step == "release":
        names.append("hold")
    for name in names:
        ids[name] = write(store, submission(name, canary))[0].candidate_id
    settle(store, ids["settled"], ForwardStatus.DONE)
    asyncio.run(store.writer.release(ids["released"], BY))
    for name, candidate_id in ids.items():
        sys.stdout.write(f"{name} {candidate_id}\n")
    sys.stdout.flush()
    killer.armed = True
    _step(store, step, canary, ids)
    sys.stdout.write("answered\n")
    sys.stdout.flush()
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
