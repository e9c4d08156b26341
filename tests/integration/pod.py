"""Containers of one pod, from kernel namespaces: what an engine would set up, and no engine.

As in a pod, containers share one network namespace, and each has mounts and processes of its own.
Each runs as its own user on a read-only root, without capabilities, and cannot gain any
(no_new_privs). Seccomp and cgroups are not imitated.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.integration.cli_process import Done
from tests.integration.image import Image

ADDRESS = "10.77.0.1"  # the pod's own; a kubelet asks by it
DEADLINE_S = 60
_FAR = 3600


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """How one container is set up. `mounts` maps a place in it to a directory outside."""

    image: Image
    uid: int = 10001
    mounts: dict[str, Path] = {}
    environment: dict[str, str] = {}
    # Sees the other containers' processes, as with `shareProcessNamespace: true`.
    sees_processes: bool = False

    def script(self, words: list[str]) -> str:
        """Set the mounts up and become the container's program; for `sh -c`, as root."""
        root = shlex.quote(str(self.image.root))
        lines = [
            "set -e",
            "mount --make-rprivate /",
            f"mount --bind {root} {root}",
            f"mount -t tmpfs -o mode=755 tmpfs {root}/dev",
            f"mount -t proc proc {root}/proc",
        ]
        for device in ("null", "zero", "urandom"):
            lines += [
                f"touch {root}/dev/{device}",
                f"mount --bind /dev/{device} {root}/dev/{device}",
            ]
        for place, outside in self.mounts.items():
            lines.append(f"mount --bind {shlex.quote(str(outside))} {root}{shlex.quote(place)}")
        environment = dict(word.split("=", 1) for word in self.image.config.env)
        assigned = [f"{k}={v}" for k, v in (environment | self.environment).items()]
        program = [
            *("chroot", str(self.image.root), "/usr/bin/setpriv"),
            *(f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"),
            *("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"),
            *("/usr/bin/env", "-i", *assigned, *words),
        ]
        return "\n".join(
            [
                *lines,
                f"mount -o remount,bind,ro {root}",
                f"cd {root}",
                f"exec {shlex.join(program)}",
            ]
        )


class Pod:
    """A network namespace, and what runs in it."""

    def __init__(self, pause: int) -> None:
        self._pause = pause

    def run(self, container: Container, *words: str) -> Done:
        """Run a program in a container of the pod to its end."""
        done = subprocess.run(
            self._command(container, list(words)),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return Done(code=done.returncode, out=done.stdout, err=done.stderr)

    def python(self, container: Container, program: str) -> Done:
        """Run a Python program in a container of the pod to its end."""
        return self.run(container, "/app/bin/python", "-I", "-c", program)

    @contextmanager
    def running(self, container: Container, *words: str) -> Generator[subprocess.Popen[str]]:
        """A container of the pod, until the block ends; then SIGTERM, and it must end well.

        `words` replace the image's command, as `args` do in a pod.
        """
        config = container.image.config
        with subprocess.Popen(
            self._command(container, [*config.entrypoint, *(words or config.cmd)]),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                os.kill(program_of(process.pid), signal.SIGTERM)
                _, errors = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, errors

    def _command(self, container: Container, words: list[str]) -> list[str]:
        processes = [] if container.sees_processes else ["--pid", "--fork", "--kill-child"]
        return [
            *("nsenter", f"--net=/proc/{self._pause}/ns/net"),
            *("unshare", "--mount", *processes),
            *("sh", "-c", container.script(words)),
        ]


@contextmanager
def pod() -> Generator[Pod]:
    """An empty pod with a loopback and an address of its own."""
    script = f"ip link set lo up && ip addr add {ADDRESS}/32 dev lo && echo up && exec sleep {_FAR}"
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", script], stdout=subprocess.PIPE, text=True
    ) as pause:
        assert pause.stdout is not None
        try:
            assert pause.stdout.readline() == "up\n"
            yield Pod(pause.pid)
        finally:
            pause.kill()


def program_of(pid: int) -> int:
    """The container's program: a child of `unshare` where it has processes of its own."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return int(children[0]) if children else pid


def until(answers: str, pod: Pod, container: Container) -> Done:
    """Wait until a program succeeds, as a startup probe does."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        done = pod.python(container, answers)
        if done.code == 0:
            return done
        assert time.monotonic() < deadline, done.err
