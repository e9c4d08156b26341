"""`make release`: the files of one release below `dist`, their signature, and the tag.

    python -P -m tests.release KEY

KEY is the owner's SSH key. Nothing is sent anywhere: the last lines that are printed are the
commands by which the owner publishes. It refuses to run in CI, and before anything is written where
the tree is not clean, the version has a tag, or the changelog calls it unreleased.
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


def ran(*command: str | Path, cwd: Path, **variables: str) -> bytes:
    """What a program prints; a failure ends the release with what it printed instead."""
    done = subprocess.run(
        command, check=False, capture_output=True, cwd=cwd, env={**os.environ, **variables}
    )
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


def release(root: Path, key: Path) -> str:
    """Make every file of the release and its tag, and return the version."""
    version = version_of(root)
    epoch = ran("git", "log", "-1", "--format=%ct", cwd=root).decode().strip()
    files = built(root, epoch)
    if built(root, epoch) != files:
        raise SystemExit("two builds of one commit differ")
    files[f"mnemogate-{version}.cdx.json"] = bill_of_materials(root, epoch)
    sums = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())
    )
    dist = root / "dist"
    dist.mkdir(exist_ok=True)
    for name, data in {**files, SUMS: sums.encode()}.items():
        (dist / name).write_bytes(data)
    (dist / f"{SUMS}.sig").unlink(missing_ok=True)
    ran("ssh-keygen", "-Y", "sign", "-n", NAMESPACE, "-f", key, SUMS, cwd=dist)
    signing = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={key}")
    ran("git", *signing, "tag", "--sign", "-m", f"mnemogate {version}", f"v{version}", cwd=root)
    return version


def main() -> int:
    """Release this tree, and print what is left to do."""
    if len(sys.argv) != 2:
        raise SystemExit("name the SSH key that signs: make release KEY=~/.ssh/id_ed25519")
    key = Path(sys.argv[1]).expanduser().resolve()
    if not key.is_file():
        raise SystemExit(f"{key} is no file: name the SSH key that signs")
    root = Path.cwd()
    version = release(root, key)
    sys.stdout.write(
        f"dist/ has the files of {version}, signed, and v{version} is tagged. To publish:\n"
        f"  git push origin v{version}\n"
        "  pipx run twine upload dist/*.whl dist/*.tar.gz\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
