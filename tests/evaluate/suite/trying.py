"""Tries each scenario's mutant: with one fault in a copy of the packages, the scenario must fail.

A process of its own plays the copy: `python -P -m tests.evaluate.suite.trying ID`.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from proxy.settings.load import child_environment
from tests.evaluate.attacks import Broken
from tests.evaluate.suite.ours import OurAdapter
from tests.evaluate.suite.scenario import Mutant, Scenario, play, scenarios
from tests.evaluate.tables import Played, TriedMutant

ROOT: Final = Path(__file__).resolve().parents[3]
PACKAGES: Final = ("policy", "proxy", "storage", "telemetry")
_PLAY_S: Final = 120.0


async def try_mutants(
    tell: Callable[[int, int], None], only: frozenset[str] = frozenset()
) -> list[TriedMutant]:
    """Play every scenario against its mutant, and once against the clean copy, which must pass.

    Raises:
        Broken: The clean copy fails, or a mutant does not fit the code.
    """
    chosen = [one for one in scenarios() if not only or one.id in only]
    tried: list[TriedMutant] = []
    with tempfile.TemporaryDirectory(prefix="mnemogate-mutants-") as name:
        place = Path(name)
        _copy(place)
        clean = await _played(place, chosen[0])
        if clean.result != "pass":
            raise Broken(f"the clean copy fails {chosen[0].id}: {clean.detail}")
        for scenario in chosen:
            with _holding(place, scenario.mutant):
                played = await _played(place, scenario)
            tried.append(
                TriedMutant(
                    id=scenario.id,
                    invariant=scenario.invariant,
                    file=scenario.mutant.file,
                    caught=played.result in {"fail", "control"},
                    detail=played.detail or played.result,
                )
            )
            tell(len(tried), len(chosen))
    return tried


def _copy(place: Path) -> None:
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, place / package, ignore=ignored)


@contextmanager
def _holding(place: Path, mutant: Mutant) -> Generator[None]:
    """A context in which the copy of the packages has the fault."""
    clean: dict[Path, str] = {}
    try:
        for fault in (mutant, *mutant.more):
            path = place / fault.file
            text = path.read_text("utf-8")
            if text.count(fault.old) != 1:
                found = text.count(fault.old)
                raise Broken(f"a mutant does not fit: {found} places in {fault.file}")
            clean.setdefault(path, text)
            path.write_text(text.replace(fault.old, fault.new), "utf-8")
        yield
    finally:
        for path, text in clean.items():
            path.write_text(text, "utf-8")


async def _played(place: Path, scenario: Scenario) -> Played:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", "tests.evaluate.suite.trying", scenario.id),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=place,
        # The copy comes before this checkout. No bytecode is written, because a changed file of the
        # same size and second would be taken for the old one.
        env={**child_environment(), "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    try:
        async with asyncio.timeout(_PLAY_S):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return _broken(scenario, f"no verdict in {_PLAY_S:.0f} s")
    if process.returncode != 0:
        lines = err.decode(errors="replace").strip().splitlines() or ["no word"]
        return _broken(scenario, f"it does not run: {lines[-1][:200]}")
    return msgspec.json.decode(out, type=Played)


def _broken(scenario: Scenario, why: str) -> Played:
    """The result of a run that ended without a verdict, which counts as noticing nothing."""
    return Played(id=scenario.id, invariant=scenario.invariant, result="broken", detail=why)


async def _main(name: str) -> None:
    logging.disable(logging.CRITICAL)
    scenario = next(one for one in scenarios() if one.id == name)
    adapter = OurAdapter()
    try:
        played = await play(scenario, adapter)
    finally:
        await adapter.close()
    sys.stdout.write(msgspec.json.encode(played).decode())


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
