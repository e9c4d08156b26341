"""A release is reproducible, signed and tagged, or nothing of it is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.integration.cli_process import ROOT
from tests.release import NAMESPACE, SUMS, main, release

pytestmark = [pytest.mark.heavy, pytest.mark.share(of=3, turn=2), pytest.mark.timeout(600)]

WHO: Final[Mapping[str, str]] = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    **{f"GIT_{role}_NAME": "Owner" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_EMAIL": "owner@example.org" for role in ("AUTHOR", "COMMITTER")},
}
HEADING: Final = re.compile(r"^## ([\d.]+), unreleased$", re.MULTILINE)


def git(tree: Path, *words: str) -> str:
    done = subprocess.run(("git", *words), cwd=tree, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one commit, whose changelog names a day."""
    for name, value in WHO.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CI", raising=False)
    tree = tmp_path / "tree"
    skipped = shutil.ignore_patterns(".*", "__pycache__", "dist", "tests", "docs")
    shutil.copytree(ROOT, tree, ignore=skipped)
    (tree / ".gitignore").write_text("/dist/\n")
    changelog = tree / "CHANGELOG.md"
    changelog.write_text(HEADING.sub(r"## \1, 2026-12-01", changelog.read_text("utf-8")))
    git(tree, "init", "--quiet")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "one")
    return tree


@pytest.fixture
def key(tmp_path: Path) -> Path:
    made = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key"))
    subprocess.run(made, check=True, timeout=60)
    return tmp_path / "key"


def verified(dist: Path, key: Path) -> bool:
    """Whether the signature holds, and each file is the one that the sums name."""
    signers = key.with_name("allowed_signers")
    signers.write_text(f"owner@example.org {key.with_suffix('.pub').read_text('utf-8')}")
    words = ("-Y", "verify", "-f", str(signers), "-I", "owner@example.org", "-n", NAMESPACE)
    signature = ("ssh-keygen", *words, "-s", f"{SUMS}.sig")
    sums = (dist / SUMS).read_bytes()
    signed = subprocess.run(signature, cwd=dist, input=sums, capture_output=True, check=False)
    summed = subprocess.run(("sha256sum", "-c", SUMS), cwd=dist, capture_output=True, check=False)
    return signed.returncode == summed.returncode == 0


def test_a_release_is_built_listed_signed_and_tagged_once(tree: Path, key: Path) -> None:
    version = release(tree, key)
    dist = tree / "dist"
    wheel, sdist = f"mnemogate-{version}-py3-none-any.whl", f"mnemogate-{version}.tar.gz"
    bill = f"mnemogate-{version}.cdx.json"
    assert {path.name for path in dist.iterdir()} == {wheel, sdist, bill, SUMS, f"{SUMS}.sig"}
    assert verified(dist, key)
    components = json.loads((dist / bill).read_text("utf-8"))["components"]
    locked = re.findall(
        r"^([\w.-]+)==", (tree / "requirements.lock").read_text("utf-8"), re.MULTILINE
    )
    assert {one["name"] for one in components} == set(locked)
    assert git(tree, "tag", "--list") == f"v{version}\n"

    (dist / wheel).write_bytes((dist / wheel).read_bytes() + b"0")
    assert not verified(dist, key), "control"
    with pytest.raises(SystemExit, match="is tagged already"):
        release(tree, key)


def test_a_key_that_does_not_sign_and_a_tag_that_is_not_made_leave_nothing(
    tree: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = key.with_name("wrong")
    wrong.write_text("no key\n")
    with pytest.raises(SystemExit, match="ssh-keygen failed"):
        release(tree, wrong)
    monkeypatch.setenv("PATH", str(key.parent / "empty"))
    with pytest.raises(SystemExit, match="git is needed, and not installed"):
        release(tree, key)
    monkeypatch.undo()
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(SystemExit, match="git failed"):
        release(tree, key)
    assert not (tree / "dist").exists()
    assert git(tree, "tag", "--list") == ""


def test_what_is_asked_before_the_suites_run_writes_nothing(
    tree: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree)
    for words, refusal in (
        (("--check", str(key)), None),
        (("--check", str(key.with_name("none"))), "is no file"),
        (("--check",), "name the SSH key"),
        ((), "name the SSH key"),
    ):
        monkeypatch.setattr("sys.argv", ["release", *words])
        if refusal is None:
            assert main() == 0
        else:
            with pytest.raises(SystemExit, match=refusal):
                main()
    (tree / "LICENSE").write_text("other")
    monkeypatch.setattr("sys.argv", ["release", "--check", str(key)])
    with pytest.raises(SystemExit, match="in no commit"):
        main()
    assert not (tree / "dist").exists()
    assert git(tree, "tag", "--list") == ""


def test_no_release_of_what_is_not_committed_not_dated_or_in_ci(
    tree: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(SystemExit, match="not in CI"):
        release(tree, key)
    monkeypatch.delenv("CI")
    changelog = tree / "CHANGELOG.md"
    changelog.write_text(changelog.read_text("utf-8").replace(", 2026-12-01", ", unreleased"))
    with pytest.raises(SystemExit, match="in no commit"):
        release(tree, key)
    git(tree, "commit", "--quiet", "--all", "--message", "two")
    with pytest.raises(SystemExit, match="has to be"):
        release(tree, key)
    assert not (tree / "dist").exists()
    assert git(tree, "tag", "--list") == ""
