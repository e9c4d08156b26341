"""The image, built from the unmodified Dockerfile without a container engine.

`buildah` builds; `debootstrap` makes a base that stands in for `python:3.13-slim` where no registry
can be reached: Debian trixie, whose Python is 3.13. Nothing of the Dockerfile is changed for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = "docker.io/library/python:3.13-slim"
IMAGE = "localhost/mnemogate:tested"
TOOLS = ("buildah", "debootstrap", "unshare", "nsenter", "setpriv", "ip")
INCLUDE = "python3,python3-venv,python3-pip,ca-certificates"
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")


class Healthcheck(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """How an engine asks whether the container is well."""

    test: list[str]


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """The parts of the image's configuration that an engine reads."""

    user: str
    env: list[str]
    entrypoint: list[str]
    cmd: list[str]
    working_dir: str
    volumes: dict[str, object]
    exposed_ports: dict[str, object]
    stop_signal: str
    healthcheck: Healthcheck
    labels: dict[str, str]


class _Docker(msgspec.Struct, frozen=True):
    config: Config


class _Inspected(msgspec.Struct, frozen=True):
    docker: _Docker = msgspec.field(name="Docker")


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """A built image: its configuration and its root file system, unpacked."""

    config: Config
    root: Path


def cannot_build() -> str | None:
    """The reason why this machine cannot build an image; None if it can."""
    if os.geteuid() != 0:
        return "needs root: chroot and mount namespaces"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)}: apt-get install buildah debootstrap iproute2"
    return None


def build(cache: Path) -> Image:
    """Build the image of this tree; base and layers are kept in `cache`.

    The root file system must not be written to: nothing of a test may stay in it.
    """
    cache.mkdir(parents=True, exist_ok=True)
    if not _buildah(cache, "images", "--quiet", "--filter", f"reference={STAND_IN}"):
        _base(cache)
    _buildah(
        cache,
        *("bud", "--quiet", "--format", "docker", "--isolation", "chroot", "--pull-never"),
        *("--tag", IMAGE, str(ROOT)),
    )
    inspected = msgspec.json.decode(
        _buildah(cache, "inspect", "--type", "image", IMAGE), type=_Inspected
    )
    for container in _buildah(cache, "containers", "--quiet").split():
        _buildah(cache, "rm", container)
    # The image of an earlier run has lost this tag to the new one, and still takes half a gigabyte.
    _buildah(cache, "rmi", "--prune")
    container = _buildah(cache, "from", "--pull-never", IMAGE)
    return Image(config=inspected.docker.config, root=Path(_buildah(cache, "mount", container)))


def _base(cache: Path) -> None:
    root = cache / "base"
    shutil.rmtree(root, ignore_errors=True)
    _run("debootstrap", "--variant=minbase", f"--include={INCLUDE}", "trixie", str(root))
    # The build trusts the package index of this machine by the same authorities.
    shutil.copyfile(_AUTHORITIES, root / str(_AUTHORITIES).lstrip("/"))
    container = _buildah(cache, "from", "scratch")
    _run("tar", "-C", str(root), "-cf", str(cache / "base.tar"), ".")
    _buildah(cache, "add", "--quiet", container, str(cache / "base.tar"), "/")
    _buildah(cache, "commit", "--quiet", container, STAND_IN)
    _buildah(cache, "rm", container)
    shutil.rmtree(root)
    (cache / "base.tar").unlink()


def _buildah(cache: Path, *words: str) -> str:
    return _run(
        "buildah",
        *("--root", str(cache / "layers"), "--runroot", str(cache / "run")),
        *("--storage-driver", "vfs", *words),
    )


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.strip()
