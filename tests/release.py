"""`make release`: the files of one release below `dist`, their signature, and the tag.

    python -P -m tests.release [--check] KEY

KEY is the owner's SSH key. Nothing is sent anywhere: the last lines that are printed are the
commands by which the owner publishes. It refuses to run in CI, and before anything is written where
the tree is not clean, the version has a tag, the changelog calls it unreleased, or the key does not
sign. With `--check` that is all: `make release` asks before it tests for an hour.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Final

from tests.integration.clients.environments import python_environment

CYCLONEDX: Final = ("cyclonedx-bom", "7.5.0")
NAMESPACE: Final = "mnemogate-release"
SUMS: Final = "SHA256SUMS"


def ran(*command: str | Path, cwd: Path, given: bytes = b"", **variables: str) -> bytes:
    """What a program prints; a failure ends the release with what it printed instead."""
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            cwd=cwd,
            env={**os.environ, **variables},
            input=given,
        )
    except FileNotFoundError:
        raise SystemExit(f"{command[0]} is needed, and not installed") from None
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed: {(done.stderr or done.stdout).decode()}")
    return done.stdout


def version_of(root: Path) -> str:
    """The version to release.

    Raises:
        SystemExit: This tree, or this machine, is not one to release from.
    """
    if os.environ.get("CI"):
        raise SystemExit("a release is made by its owner, not in CI")
    if ran("git", "status", "--porcelain", cwd=root):
        raise SystemExit("the tree has changes that are in no commit")
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    version = str(project["version"])
    if ran("git", "tag", "--list", f"v{version}", cwd=root):
        raise SystemExit(f"v{version} is tagged already: raise the version in pyproject.toml")
    headings = [
        line
        for line in (root / "CHANGELOG.md").read_text("utf-8").splitlines()
        if line[:3] == "## "
    ]
    if not headings[0].startswith(f"## {version}, ") or "unreleased" in headings[0]:
        raise SystemExit(f"the first heading of CHANGELOG.md has to be `## {version}, DATE`")
    return version


def built(root: Path, epoch: str) -> dict[str, bytes]:
    """Wheel and sdist of what is committed, built in a directory of their own."""
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "tree"
        plain = ("-c", "core.autocrlf=false")
        archive = ran("git", *plain, "archive", "--format=tar", "HEAD", cwd=root)
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(tree, filter="data")
        dist = Path(place) / "dist"
        build = (sys.executable, "-m", "hatchling", "build", "-d", dist)
        ran(*build, cwd=tree, SOURCE_DATE_EPOCH=epoch)
        return {path.name: path.read_bytes() for path in dist.iterdir()}


def bill_of_materials(root: Path, epoch: str) -> bytes:
    """The SBOM (CycloneDX, JSON) of what `requirements.lock` names, with its hashes."""
    program = python_environment(*CYCLONEDX).parent / "cyclonedx-py"
    words = ("requirements", "--pyproject", "pyproject.toml", "--output-reproducible")
    return ran(program, *words, "requirements.lock", cwd=root, SOURCE_DATE_EPOCH=epoch)


def signature(root: Path, key: Path, data: bytes) -> bytes:
    """The signature of the data by the owner's key."""
    words = ("-Y", "sign", "-n", NAMESPACE, "-f", key)
    return ran("ssh-keygen", *words, cwd=root, given=data)


def release(root: Path, key: Path) -> str:
    """Make every file of the release and its tag, and return the version."""
    version = version_of(root)
    signature(root, key, b"")
    epoch = ran("git", "log", "-1", "--format=%ct", cwd=root).decode().strip()
    files = built(root, epoch)
    if built(root, epoch) != files:
        raise SystemExit("two builds of one commit differ")
    files[f"mnemogate-{version}.cdx.json"] = bill_of_materials(root, epoch)
    sums = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())
    )
    files |= {SUMS: sums.encode(), f"{SUMS}.sig": signature(root, key, sums.encode())}
    signing = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={key}")
    ran("git", *signing, "tag", "--sign", "-m", f"mnemogate {version}", f"v{version}", cwd=root)
    dist = root / "dist"
    dist.mkdir(exist_ok=True)
    for name, data in files.items():
        (dist / name).write_bytes(data)
    return version


def main() -> int:
    """Release this tree, and print what is left to do."""
    *flags, name = sys.argv[1:] or [""]
    if name in ("", "--check") or flags not in ([], ["--check"]):
        raise SystemExit("name the SSH key that signs: make release KEY=~/.ssh/id_ed25519")
    key = Path(name).expanduser().resolve()
    if not key.is_file():
        raise SystemExit(f"{key} is no file: name the SSH key that signs")
    root = Path.cwd()
    if flags:
        version_of(root)
        signature(root, key, b"")
        return 0
    version = release(root, key)
    sys.stdout.write(
        f"dist/ has the files of {version}, signed, and v{version} is tagged. To publish:\n"
        f"  git push origin v{version}\n"
        f"  pipx run twine upload dist/mnemogate-{version}-*.whl dist/mnemogate-{version}.tar.gz\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
