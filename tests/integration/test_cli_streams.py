"""Commands whose streams are full, closed or cut off: one line, the right code, and no harm."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.cli.entry import main
from proxy.cli.exits import Exit
from tests.integration.cli_process import DEADLINE_S, ROOT, Place

RULES = str(ROOT / "policy" / "default.toml")
FULL = Path("/dev/full")
NO_TEXT = os.fsdecode(b"\xff\xfe")

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")


pytestmark = pytest.mark.usefixtures("no_settings")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(root=tmp_path)


def _shell(place: Place, line: str) -> subprocess.CompletedProcess[str]:
    """A line of a shell, in which `$M` is the command."""
    return subprocess.run(
        ["/bin/sh", "-c", line],
        capture_output=True,
        cwd="/",
        env=place.environment(M=f"{sys.executable} -P -m proxy", PYTHONPATH=str(ROOT)),
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_answer_on_a_full_disk_is_one_line_and_a_code(
    more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        code = main(["policy", "check", RULES, *more])
    said = capsys.readouterr().err

    assert code == Exit.UNREACHABLE
    assert "the answer cannot be written: No space left on device" in said
    assert len(said.splitlines()) == 1


def test_what_cannot_be_said_on_stderr_changes_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert main(["policy", "check", "/nonexistent.toml"]) == Exit.UNREACHABLE


def test_who_has_read_enough_or_closed_a_stream_gets_no_complaint(place: Place) -> None:
    cut = _shell(place, f"$M policy check {RULES} | head -c 1")
    closed = _shell(place, f"$M policy check {RULES} <&- >&-")

    assert (len(cut.stdout), cut.stderr) == (1, "")
    assert (closed.returncode, closed.stdout, closed.stderr) == (Exit.OK, "", "")


def test_a_check_that_was_not_heard_to_its_end_has_not_said_yes(place: Place) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "proxy", "policy", "check", str(RULES)],
            cwd="/",
            env=place.environment(PYTHONPATH=str(ROOT)),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=DEADLINE_S,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (Exit.CUT_SHORT, b"")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a sidecar hides what it has open")
def test_a_sidecar_serves_whoever_reads_its_banner_and_keeps_closed_streams_off_its_files(
    place: Place,
) -> None:
    """Else the store's file is number 2, and what a library says on stderr is written into it."""
    line = "exec $M run --listen 127.0.0.1:0 --admin 127.0.0.1:0 <&- 2>&-"
    process = subprocess.Popen(
        ["/bin/sh", "-c", line],
        cwd="/",
        env=place.environment(M=f"{sys.executable} -P -m proxy", PYTHONPATH=str(ROOT)),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"m"
    process.stdout.close()
    try:
        for number in (0, 2):
            assert Path(f"/proc/{process.pid}/fd/{number}").readlink() == Path(os.devnull)
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(str(place.state / "admin.sock"))
            admin.sendall(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert admin.recv(5) == b"HTTP/"
    finally:
        process.terminate()
        assert process.wait(timeout=DEADLINE_S) == Exit.OK


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("audit", "verify", "--state", "x" * 300), Exit.UNREACHABLE, "File name too long"),
        (("backup", "x" * 300), Exit.UNREACHABLE, "File name too long"),
        (("audit", "export", "--state", "x" * 300), Exit.UNREACHABLE, "File name too long"),
        (("doctor", "--pid", "9" * 20), Exit.USAGE, "pid"),
        (("doctor", "--data", "http://[::1"), Exit.USAGE, "--data: no URL"),
        (("doctor", "--admin", "127.0.0.1:99999"), Exit.USAGE, "--admin: no URL"),
        (
            ("policy", "explain", "--ruleset", RULES, "--text", NO_TEXT),
            Exit.USAGE,
            "an argument is not UTF-8",
        ),
        (
            ("policy", "explain", "--ruleset", RULES, "--text", "a\u202eb"),
            Exit.USAGE,
            "U+202E (a bidi control without its pair) at offset 1 is not allowed",
        ),
    ],
)
def test_odd_arguments_are_one_line(
    words: tuple[str, ...],
    code: Exit,
    said: str,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in place.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir("/")

    assert main(list(words)) == code
    heard = capsys.readouterr()
    assert said in heard.err
    assert (heard.out, len(heard.err.splitlines())) == ("", 1)


@pytest.mark.parametrize(
    ("words", "written", "code", "said"),
    [
        (("memory", "list", "--config"), 'state = "a\\u0000b"', Exit.USAGE, "state: "),
        (("mcp", "--check", "--map"), "a = " + "9" * 5_000, Exit.USAGE, "not TOML"),
        (("mcp", "--check", "--map"), "a = 2020-02-31", Exit.USAGE, "not TOML"),
    ],
)
def test_odd_files_are_one_line(
    words: tuple[str, ...],
    written: str,
    code: Exit,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(written, "utf-8")
    behind = ("--", "cat") if words[0] == "mcp" else ()

    assert main([*words, str(file), *behind]) == code
    heard = capsys.readouterr()
    assert said in heard.err
    assert (heard.out, len(heard.err.splitlines())) == ("", 1)


def test_ctrl_c_while_modules_load_needs_no_traceback() -> None:
    loading = (
        # A shell makes its background programs ignore this signal, and children inherit that.
        "import signal, sys, types; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "import proxy.__main__ as m;"
        "late = types.ModuleType('proxy.cli.entry');"
        "late.main = lambda: signal.raise_signal(signal.SIGINT);"
        "sys.modules['proxy.cli.entry'] = late; m.main()"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", loading],
        capture_output=True,
        env={"PYTHONPATH": str(ROOT)},
        timeout=DEADLINE_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, b"")

    # From then on it is told as any other end.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        assert main(["policy", "check", "/nonexistent.toml"]) == Exit.UNREACHABLE
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
