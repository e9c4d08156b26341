"""Coverage-guided fuzzing: `python -m tests.fuzz --seconds 3600 [--target NAME]`.

The seconds are divided among the targets. Each gets a process of its own under atheris, starting
from its corpus; what it finds is written to `--output`, with the input that broke it. Exit status 1
if anything broke.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from tests.fuzz.atheris_environment import AtherisMissing, atheris_path
from tests.fuzz.registry import CORPUS, PLANTED, TARGETS, load

ROOT = Path(__file__).resolve().parents[2]
_EXECUTED = re.compile(r"stat::number_of_executed_units: (\d+)")
_COVERED = re.compile(r"cov: (\d+)")
_INPUT_LEN_MAX = 4_096
_SLOWEST_S = 10
_MEMORY_MB = 2_048


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    target: str
    executions: int
    covered: int
    broke: bool
    log: Path


def fuzz(name: str, seconds: int, output: Path) -> Finished:
    """Fuzz one target for so long, or until it breaks."""
    place = output / name
    grown = place / "corpus"
    grown.mkdir(parents=True, exist_ok=True)
    words = place / "words.dict"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in load(name).words if word))
    # The caller's environment is left out: an unknown MNEMOGATE_ variable would stop a decoder of
    # settings.
    environment = {
        "HOME": os.environ.get("HOME", "/"),
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(atheris_path()))),
    }
    command = [
        *(sys.executable, "-P", "-m", "tests.fuzz.one", name),
        *(str(grown), str(CORPUS / name)),
        f"-max_total_time={seconds}",
        f"-max_len={_INPUT_LEN_MAX}",
        f"-timeout={_SLOWEST_S}",
        f"-rss_limit_mb={_MEMORY_MB}",
        f"-artifact_prefix={place}/",
        f"-dict={words}",
        *("-print_final_stats=1", "-verbosity=1"),
    ]
    log = place / "log.txt"
    with log.open("wb") as said:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=said, stderr=said, check=False
        )
    text = log.read_text("utf-8", "replace")
    executed, covered = _EXECUTED.findall(text), _COVERED.findall(text)
    return Finished(
        target=name,
        executions=int(executed[-1]) if executed else 0,
        covered=int(covered[-1]) if covered else 0,
        broke=done.returncode != 0,
        log=log,
    )


def _escaped(word: bytes) -> str:
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\x{byte:02x}"
        for byte in word
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=3_600, help="in all, over all targets")
    parser.add_argument(
        "--target", choices=(*TARGETS, PLANTED), action="append", help="only this one"
    )
    parser.add_argument("--output", type=Path, help="where findings go; default: a new directory")
    asked = parser.parse_args()
    targets: list[str] = asked.target or list(TARGETS)
    output: Path = asked.output or Path(tempfile.mkdtemp(prefix="mnemogate-fuzz-"))
    try:
        atheris_path()
    except AtherisMissing as missing:
        sys.stderr.write(f"{missing}\n")
        return 2
    seconds = max(1, asked.seconds // len(targets))
    runs: list[Finished] = []
    for name in targets:
        run = fuzz(name, seconds, output)
        runs.append(run)
        found = f"BROKE, see {run.log}" if run.broke else "nothing found"
        sys.stdout.write(
            f"{run.target:16s} {run.executions:12,d} executions  {run.covered:5d} edges  {found}\n"
        )
        sys.stdout.flush()
    total = sum(run.executions for run in runs)
    broke = sum(run.broke for run in runs)
    sys.stdout.write(
        f"{len(runs)} targets, {seconds} s each, {total:,d} executions, {broke} broke\n"
    )
    return 1 if broke else 0


if __name__ == "__main__":
    sys.exit(main())
