"""The experiments in the order in which they are made, and the document with their results."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns
from typing import Final

from proxy.evaluate.blame import blame
from proxy.evaluate.book import Book
from proxy.evaluate.core import core
from proxy.evaluate.cost import cost
from proxy.evaluate.crash import crash
from proxy.evaluate.everyday import everyday
from proxy.evaluate.forged import corpora, forged
from proxy.evaluate.heal import heal
from proxy.evaluate.honest import honest
from proxy.evaluate.isolating import isolate
from proxy.evaluate.labels import labels
from proxy.evaluate.leakage import leakage
from proxy.evaluate.month import month
from proxy.evaluate.names import LONG, SECTIONS
from proxy.evaluate.noise import noise
from proxy.evaluate.roc import roc
from proxy.evaluate.sleepers import trust
from proxy.evaluate.stress import stress
from proxy.evaluate.suite.conformance import conformance, mutants
from proxy.evaluate.tables import Document, Run, Verdict
from proxy.evaluate.trials import parole
from proxy.version import version

Experiment = Callable[["Book"], Awaitable[None]]


async def _labels(book: Book) -> None:
    await labels(book)
    await month(book)


EXPERIMENTS: Final[dict[str, Experiment]] = {
    "core": core,
    "leakage": leakage,
    "everyday": everyday,
    "labels": _labels,
    "honest": honest,
    "blame": blame,
    "heal": heal,
    "parole": parole,
    "trust": trust,
    "isolate": isolate,
    "noise": noise,
    "forged": forged,
    "stress": stress,
    "crash": crash,
    "corpora": corpora,
    "roc": roc,
    "cost": cost,
    "conformance": conformance,
    "mutants": mutants,
}


async def evaluate(book: Book, only: tuple[str, ...] = ()) -> None:
    """Run the experiments named in `only`; without names, all except the long ones."""
    for name in (*SECTIONS, *LONG):
        if name in only or (not only and name in SECTIONS):
            await EXPERIMENTS[name](book)


def document(book: Book, clock_ns: Callable[[], int] = time_ns) -> Document:
    """The document with everything that the experiments found so far."""
    return Document(
        run=Run(
            mnemogate=version(),
            trials=book.trials,
            seed=book.seed,
            python=platform.python_version(),
            machine=platform.machine(),
            at=datetime.fromtimestamp(clock_ns() // 10**9, UTC).isoformat(),
            host=platform.node(),
            commit=_commit(),
        ),
        tables=book.tables,
        verdict=Verdict(
            notes={table: tuple(notes) for table, notes in book.notes.items()},
            promises=tuple(book.promises),
            controls=tuple(book.controls),
            sound=book.sound,
        ),
    )


def _commit() -> str:
    """The commit that this code was checked out at; "" where it was installed from a wheel."""
    root = Path(__file__).resolve().parents[2]
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return ""
    done = subprocess.run(  # noqa: S603 - git's own path, fixed words
        [git, "-C", str(root), "rev-parse", "--short=12", "HEAD"],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    return done.stdout.strip()
