"""The process that dies: `python -m tests.fault.crashing ROOT POINT CANARY`.

Writes one memory, then a batch of one of each verdict, and kills itself at a named crash point.
"""

from __future__ import annotations

import sys
from pathlib import Path

from policy.model import Candidate, MemoryClass, SourceKind
from storage.embedded import EmbeddedOptions
from storage.values import Submission
from tests.evaluate.points import Killer
from tests.unit.storage.opening import AGENT, VOUCHED, Bench, candidate_of, submission_of, write

OPTIONS = EmbeddedOptions(quota_bytes=1 << 28, staging_quota_bytes=1 << 26, segment_len=1)


def candidates(canary: str) -> dict[str, Candidate]:
    """One candidate for each verdict; the canary is in every field that a client fills."""
    return {
        "first": candidate_of(f"{canary}first was here", nonce="first"),
        "admit": candidate_of(f"{canary}admit was here", nonce="admit"),
        "hold": candidate_of(
            f"{canary}hold was here",
            nonce="hold",
            target=f"{canary}hold",
            metadata_json=f'{{"k":"{canary}hold"}}',
            instructions=True,
        ),
        "reject": candidate_of(
            f"{canary}reject was here",
            VOUCHED,
            nonce=f"{canary}reject",
            target=f"{canary}reject",
            memory_id=f"{canary}reject",
            actor=f"{canary}reject",
            metadata_json=f'{{"k":"{canary}reject"}}',
            memory_class=MemoryClass.L1,
            class_named=True,
            claimed_source=SourceKind.TOOL_RESULT,
        ),
    }


def submission(name: str, candidate: Candidate) -> Submission:
    """The candidate, submitted as the interceptor submits it."""
    return submission_of(candidate, VOUCHED if name == "reject" else AGENT)


def main(root: str, point: str, canary: str) -> None:
    killer = Killer(point)
    store = Bench(Path(root)).open(killer, options=OPTIONS)
    wanted = candidates(canary)
    write(store, submission("first", wanted.pop("first")))
    killer.armed = True
    for outcome in write(store, *(submission(name, one) for name, one in wanted.items())):
        sys.stdout.write(f"{outcome.decision.value} {outcome.leaf_index}\n")
    sys.stdout.flush()
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
