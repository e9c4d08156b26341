"""Pods that reach each other, from network namespaces: a node's bridge, and a machine per pod.

A pod has a network, a host name and an `/etc/hosts` of its own, as a kubelet gives it, so that its
name leads to its address. Its files are those of this machine. It needs root.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final

from tests.integration.cli_process import Done

TOOLS: Final = ("unshare", "nsenter", "ip", "mount")
_NETWORK: Final = 0x40000000  # CLONE_NEWNET
_FAR_S: Final = 3600
_DEADLINE_S: Final = 60


def no_cluster_here() -> str | None:
    """The reason why this machine cannot have such pods; None if it can."""
    if os.geteuid() != 0:
        return "needs root: network and mount namespaces"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"needs {', '.join(missing)}" if missing else None


class Pod:
    """A machine of its own on the node's network."""

    def __init__(self, name: str, address: str, pause: int) -> None:
        self.name, self.address = name, address
        self._inside = ("nsenter", f"--target={pause}", "--net", "--uts", "--mount")

    def begun(
        self, words: list[str], environment: Mapping[str, str], log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """A program that was started in the pod; signals reach the program itself."""
        return subprocess.Popen(
            [*self._inside, *words],
            cwd="/",
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )

    def run(self, words: list[str], environment: Mapping[str, str]) -> Done:
        """Run a program in the pod to its end, as `kubectl exec` does."""
        done = subprocess.run(
            [*self._inside, *words],
            cwd="/",
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
        )
        return Done(code=done.returncode, out=done.stdout, err=done.stderr)


class Node:
    """The bridge between the pods, and the place from which a kubelet and agents reach them."""

    def __init__(self, root: Path, pause: int, stack: ExitStack) -> None:
        self._root = root
        self._pause = pause
        self._stack = stack
        self._pods = 0

    def enter(self) -> None:
        """Move the calling thread, and no other, into the node's network."""
        with Path(f"/proc/{self._pause}/ns/net").open("rb") as network:
            # Threads of one process may be in different networks.
            if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), _NETWORK):
                raise OSError(ctypes.get_errno(), "setns")

    def pod(self, name: str) -> Pod:
        """A new pod, with an address of its own and nothing that runs."""
        self._pods += 1
        address, link = f"10.88.0.{self._pods + 1}", f"pod{self._pods}"
        hosts = self._root / f"hosts-{name}"
        hosts.write_text(f"127.0.0.1 localhost\n{address} {name}\n", encoding="utf-8")
        pause = self._stack.enter_context(
            _paused(
                *("--uts", "--mount"),
                script="mount --make-rprivate / "
                f"&& mount --bind {hosts} /etc/hosts && hostname {name}",
            )
        )
        _within(self._pause, f"ip link add {link} type veth peer name eth0 netns {pause}")
        _within(self._pause, f"ip link set {link} master pods up")
        _within(pause, "ip link set lo up")
        _within(pause, f"ip addr add {address}/24 dev eth0")
        _within(pause, "ip link set eth0 up")
        return Pod(name, address, pause)


@contextmanager
def node(root: Path) -> Generator[Node]:
    """A node without pods; at the end its pods and networks are gone."""
    with ExitStack() as stack:
        pause = stack.enter_context(_paused(script="ip link set lo up"))
        _within(pause, "ip link add pods type bridge")
        _within(pause, "ip addr add 10.88.0.1/24 dev pods")
        _within(pause, "ip link set pods up")
        yield Node(root, pause, stack)


@contextmanager
def _paused(*namespaces: str, script: str) -> Generator[int]:
    """A process that does nothing in namespaces of its own, once `script` has set them up."""
    with subprocess.Popen(
        [
            "unshare",
            "--net",
            *namespaces,
            "sh",
            "-c",
            f"{script} && echo up && exec sleep {_FAR_S}",
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as pause:
        try:
            assert pause.stdout is not None
            assert pause.stdout.readline() == "up\n"
            yield pause.pid
        finally:
            pause.kill()


def _within(pause: int, command: str) -> None:
    subprocess.run(
        ["nsenter", f"--target={pause}", "--net", *command.split()],
        check=True,
        timeout=_DEADLINE_S,
    )
