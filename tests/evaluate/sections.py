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

from proxy.version import version
from tests.evaluate.blame import blame
from tests.evaluate.book import Book
from tests.evaluate.core import core
from tests.evaluate.cost import cost
from tests.evaluate.crash import crash
from tests.evaluate.everyday import everyday
from tests.evaluate.forged import corpora, forged
from tests.evaluate.heal import heal
from tests.evaluate.honest import honest
from tests.evaluate.isolating import isolate
from tests.evaluate.labels import labels
from tests.evaluate.leakage import leakage
from tests.evaluate.month import month
from tests.evaluate.noise import noise
from tests.evaluate.roc import roc
from tests.evaluate.search import search
from tests.evaluate.sleepers import trust
from tests.evaluate.stress import stress
from tests.evaluate.suite.conformance import conformance, mutants
from tests.evaluate.tables import Document, Run, Verdict
from tests.evaluate.trials import parole

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
    "search": search,
    "conformance": conformance,
    "mutants": mutants,
}
# Experiments that run only when they are named.
LONG: Final = ("mutants", "search")
SECTIONS: Final = tuple(name for name in EXPERIMENTS if name not in LONG)


async def evaluate(book: Book, only: tuple[str, ...] = ()) -> None:
    """Run the experiments named in `only`; without names, all except the long ones."""
    for name, experiment in EXPERIMENTS.items():
        if name in (only or SECTIONS):
            await experiment(book)


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
    """The commit that this code was checked out at; "" where git cannot say."""
    root = Path(__file__).resolve().parents[2]
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return ""
    done = subprocess.run(
        [git, "-C", str(root), "rev-parse", "--short=12", "HEAD"],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    return done.stdout.strip()
