"""A memory server without a credential, parted from the agent by a network of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.integration.cli_process import DEADLINE_S, ROOT, Place, Running
from tests.unit.proxy.doctor.as_user import AGENT_UID

SIDECAR: Final = "10.213.7.1"
AGENT: Final = "10.213.7.2"
# In a namespace of one's own every port is free.
PARTED, OPEN = 2024, 2025
SECRET: Final = "the-sidecars-own-credential-0123456789"
ITEM: Final = {"namespace": ["a"], "key": "k", "value": {"text": "Grace has the spare key"}}


def _available() -> str:
    """Why such namespaces cannot be had here; "" if they can."""
    if os.geteuid() != 0:
        return "network namespaces take root"
    missing = [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    device = "ip link add mn0 type veth peer name mn1"
    tried = subprocess.run(
        ["unshare", "--net", "sh", "-c", device], capture_output=True, check=False
    )
    return "" if tried.returncode == 0 else "no network namespace with a veth pair can be made"


_WHY_NOT = _available()
pytestmark = [pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT), pytest.mark.timeout(300)]

# Everything is loaded as root, because the agent's user may not read Python's own files; then the
# process becomes the agent.
_AS_AGENT = f"""
import codecs, contextlib, io, os, sys
from proxy.cli.entry import main
import proxy.compose.backends, proxy.settings.backend, proxy.doctor.files
for name in ("ascii", "idna", "latin-1"):
    codecs.lookup(name)
proxy.doctor.files._program_files = lambda: iter(())
with contextlib.redirect_stdout(io.StringIO()):
    nobody = "http://127.0.0.1:9"
    main(["doctor", "--json", "--state", "/nonexistent", "--data", nobody, "--admin", nobody])
os.setgroups([])
os.setgid({AGENT_UID})
os.setuid({AGENT_UID})
sys.exit(main(sys.argv[1:]))
"""

_PUT = """
import http.client, json, sys
connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=5)
headers = {"content-type": "application/json", "x-api-key": sys.argv[4]}
try:
    connection.request("PUT", "/store/items", sys.argv[3], headers)
    print(connection.getresponse().status)
except OSError as error:
    print(type(error).__name__)
"""


class Namespaces(NamedTuple):
    """Two network namespaces, each by a process in it, and a sidecar in the first."""

    sidecar: Running
    agent_pid: int

    def as_agent(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*_inside(self.agent_pid), sys.executable, "-P", "-B", *words],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
            cwd="/",
            env={
                "PATH": os.environ["PATH"],
                "HOME": "/nonexistent",
                "PYTHONPATH": str(ROOT),
                "MNEMOGATE_AGENT_KEY": self.sidecar.key("agent"),
            },
        )

    def put(self, port: int) -> str:
        """The status of a write of the agent, or why it could not connect."""
        words = ("-c", _PUT, SIDECAR, str(port), json.dumps(ITEM), self.sidecar.key("agent"))
        return self.as_agent(*words).stdout.strip()

    def doctor(self, *more: str) -> tuple[int, dict[str, str], str]:
        """Exit code, verdicts, and everything that doctor printed, run as the agent."""
        place, url = self.sidecar.place, f"http://{SIDECAR}"
        done = self.as_agent(
            *("-c", _AS_AGENT, "doctor", "--json", "--state", str(place.state)),
            *("--checkpoint", str(place.checkpoint), "--pid", str(self.sidecar.pid)),
            *("--data", f"{url}:7077", "--admin", f"{url}:7078", *more),
        )
        assert done.stdout, done.stderr
        report: Any = json.loads(done.stdout)
        verdicts = {one["id"]: one["verdict"] for one in report["findings"]}
        return done.returncode, verdicts, done.stdout


def _inside(pid: int) -> tuple[str, ...]:
    return ("nsenter", f"--target={pid}", "--net")


@contextmanager
def _started(*words: str) -> Generator[int]:
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline(), words
            yield process.pid
        finally:
            process.kill()
            process.communicate(timeout=DEADLINE_S)


@contextmanager
def _joined(root: Path) -> Generator[Namespaces]:
    holder = ("unshare", "--net", "sh", "-c", "echo here; exec sleep 600")
    with ExitStack() as stack:
        near, far = (stack.enter_context(_started(*holder)) for _ in range(2))
        for pid, words in (
            (near, f"link add mn0 type veth peer name mn1 netns {far}"),
            (near, f"addr add {SIDECAR}/30 dev mn0"),
            (far, f"addr add {AGENT}/30 dev mn1"),
            (near, "link set mn0 up"),
            (far, "link set mn1 up"),
            (near, "link set lo up"),
            (far, "link set lo up"),
        ):
            subprocess.run([*_inside(pid), "ip", *words.split()], check=True)
        recorder = "tests.integration.memory_servers.recorder_process"
        addresses = (f"127.0.0.1:{PARTED}", f"{SIDECAR}:{OPEN}")
        stack.enter_context(_started(*_inside(near), sys.executable, "-m", recorder, *addresses))
        secret = root / "headers"
        secret.write_text(f"x-api-key: {SECRET}\n")
        secret.chmod(0o600)
        config = root / "mnemogate.toml"
        config.write_text(
            f'allowed_hosts = ["{SIDECAR}"]\n[[backend]]\nname = "store"\nadapter = "langgraph"\n'
            f'url = "http://127.0.0.1:{PARTED}"\nheaders_file = "{secret}"\n'
        )
        program = (*_inside(near), sys.executable, "-P", "-m", "proxy")
        place = Place(root=root / "gate", program=program)
        listens = ("--listen", f"{SIDECAR}:7077", "--admin", f"{SIDECAR}:7078")
        running = place.running(*listens, "--config", str(config))
        yield Namespaces(stack.enter_context(running), far)


def test_a_server_in_a_network_that_only_the_sidecar_is_in_is_separated() -> None:
    # The agent's user may enter this place, so that a closed file is closed by itself.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name, _joined(Path(name)) as both:
        Path(name).chmod(0o755)
        config = Path(name) / "mnemogate.toml"
        code, verdicts, _ = both.doctor("--backend", f"langgraph=http://{SIDECAR}:{PARTED}")
        probes = {name: verdict for name, verdict in verdicts.items() if name[:8] == "backend."}
        assert probes == dict.fromkeys(
            (
                f"backend.{who}.{what}"
                for what in ("read", "write")
                for who in ("anonymous", "agent_key")
            ),
            "ok",
        )
        assert code == 0, verdicts
        # So it is: the agent's write goes through the gate, and nowhere else.
        assert both.put(7077) == "204"
        assert both.put(PARTED) == "ConnectionRefusedError"
        # Control: the same server, open to the agent's network.
        code, verdicts, said = both.doctor("--backend", f"langgraph=http://{SIDECAR}:{OPEN}")
        assert (code, verdicts["backend.anonymous.write"]) == (1, "FAIL")
        assert "headers_file" in said
        assert both.put(OPEN) == "204"
        # By the name of its table, in the agent's own place nothing answers at that address, and
        # the file of the credential is closed to the agent.
        config.chmod(0o644)
        code, verdicts, said = both.doctor("--config", str(config), "--backend", "store")
        assert verdicts["backend.credential"] == "ok"
        assert (code, verdicts["backend.anonymous.read"]) == (0, "ok")
        assert SECRET not in said
