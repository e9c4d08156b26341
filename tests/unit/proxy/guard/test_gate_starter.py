"""Who starts the gate: one of several starters, and what each learns of a gate that ended."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.guard.gate_starter import LOCK_NAME, LOG_NAME, GateStarter
from proxy.settle.forwarder import NoGate
from tests.integration.gates import end_process

# A gate that serves its socket until it is killed; its process id is in a file.
SERVES = """
import os, socket, sys
state = sys.argv[1]
with open(state + "/starts", "a") as starts:
    starts.write(str(os.getpid()) + chr(10))
print("mg_key_that_is_printed")
server = socket.socket(socket.AF_UNIX)
if os.path.exists(state + "/gate.sock"):
    os.unlink(state + "/gate.sock")
server.bind(state + "/gate.sock")
server.listen(128)
while True:
    server.accept()[0].close()
"""
FAILS = """
import sys
with open(sys.argv[1] + "/starts", "a") as starts:
    starts.write("0" + chr(10))
print('{"event": "a log line"}', file=sys.stderr)
print("mnemogate: no rules", file=sys.stderr)
"""


class Place:
    def __init__(self, base: Path) -> None:
        self.state = base / "state"
        self.later_s = 0.0
        self.program = SERVES

    def starter(self) -> GateStarter:
        return GateStarter(
            self.state,
            lambda: (sys.executable, "-I", "-c", self.program, str(self.state)),
            {"PATH": os.environ["PATH"]},
            clock_ns=lambda: time.time_ns() + int(self.later_s * 1e9),
            stand_back_s=0.3,
        )

    def starts(self) -> list[int]:
        file = self.state / "starts"
        return [int(line) for line in file.read_text().split()] if file.exists() else []


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(autouse=True)
def stopped(place: Place) -> Iterator[None]:
    yield
    for pid in place.starts():
        if pid:
            end_process(pid)


async def test_of_ten_one_starts_a_gate(place: Place) -> None:
    await asyncio.gather(*(place.starter().bring_up(again=False) for _ in range(10)))
    assert len(place.starts()) == 1
    # Control: without the lock that it inherited, a second one would be started.
    with (place.state / LOCK_NAME).open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_gate_is_nobodys_child_and_has_nothing_of_the_host(place: Place) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)  # noqa: FBT003 - its form
    asyncio.run(place.starter().bring_up(again=False))
    (pid,) = place.starts()
    assert os.getsid(pid) != os.getsid(0)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    assert Path(f"/proc/{pid}/cwd").resolve() == Path("/")
    opened = [str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()]
    assert not any(name.startswith("pipe:") for name in opened)
    os.close(write)
    os.close(read)
    assert "mg_" not in (place.state / LOG_NAME).read_text(), "what it prints is nowhere"
    assert (place.state / LOG_NAME).stat().st_mode & 0o777 == 0o600


async def test_a_start_that_failed_is_told_to_all_and_not_repeated_at_once(place: Place) -> None:
    place.program = FAILS
    starters = [place.starter() for _ in range(5)]
    for one in starters:
        with pytest.raises(NoGate, match="no rules"):
            await one.bring_up(again=False)
    assert len(place.starts()) == 1
    # Control: later it is tried again, and what was mended meanwhile counts.
    place.program = SERVES
    place.later_s = 31
    await starters[1].bring_up(again=False)
    assert len(place.starts()) == 2


async def test_a_gate_that_served_and_ended_is_waited_for_and_then_started_again(
    place: Place,
) -> None:
    starter, other = place.starter(), place.starter()
    await starter.bring_up(again=False)
    end_process(place.starts()[0])
    # One that comes back by itself in time is used.
    waiting = asyncio.ensure_future(other.bring_up(again=True))
    await asyncio.sleep(0.1)
    (place.state / "gate.sock").unlink()
    server = await asyncio.start_unix_server(
        lambda _reader, writer: writer.close(), place.state / "gate.sock"
    )
    async with server:
        await waiting
    assert len(place.starts()) == 1
    await other.bring_up(again=True)
    assert len(place.starts()) == 2


async def test_while_a_process_has_the_directory_no_gate_is_started(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.guard.gate_starter.READY_S", 0.5)
    place.state.mkdir(mode=0o700)
    handle = os.open(place.state, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(NoGate, match="no gate serves"):
            await place.starter().bring_up(again=False)
        assert place.starts() == []
    finally:
        os.close(handle)
    monkeypatch.setattr("proxy.guard.gate_starter.READY_S", 30)
    await place.starter().bring_up(again=False)
    assert len(place.starts()) == 1


async def test_a_start_whose_request_was_given_up_is_remembered(place: Place) -> None:
    starter = place.starter()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await starter.bring_up(again=False)
    await starter.bring_up(again=False)
    assert len(place.starts()) == 1
    end_process(place.starts()[0])
    # It had served, so its end is no failed start.
    await place.starter().bring_up(again=False)
    assert len(place.starts()) == 2


@pytest.mark.parametrize("kind", ["file", "link", "read-only"])
async def test_where_no_file_can_be_made_the_reason_is_named(
    place: Place, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "file":
        place.state.write_text("not a directory")
    elif kind == "link":
        place.state.mkdir()
        (place.state / LOG_NAME).symlink_to(place.state.parent / "elsewhere")
    else:

        def full(*_: object, **__: object) -> None:
            raise OSError(30, "Read-only file system", str(place.state))

        monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(NoGate, match="state"):
        await place.starter().bring_up(again=False)
    assert not (place.state.parent / "elsewhere").exists()
