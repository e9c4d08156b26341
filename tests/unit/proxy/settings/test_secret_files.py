"""Keys from files: as orchestrators mount them, and closed to everybody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proxy.settings.secret_files import secret_from
from proxy.settings.values import BadValue

KEY = "a-key-from-a-file-0123456789"


def written(path: Path, content: bytes = KEY.encode(), mode: int = 0o400) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o400, 0o440, 0o600, 0o640])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_key_is_read_without_its_line_break(tmp_path: Path, mode: int, end: bytes) -> None:
    file = written(tmp_path / "key", KEY.encode() + end, mode)
    assert secret_from(file).reveal() == KEY


@pytest.mark.parametrize("mode", [0o404, 0o444, 0o644, 0o402, 0o420, 0o660, 0o666, 0o777])
def test_file_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(BadValue, match="0400"):
        secret_from(written(tmp_path / "key", mode=mode))


def test_symlinks_are_followed_and_the_mode_is_the_targets(tmp_path: Path) -> None:
    # As a kubelet mounts it: key -> ..data/key, ..data -> ..<time>
    (tmp_path / "..2026").mkdir()
    target = written(tmp_path / "..2026" / "key")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "key").symlink_to("..data/key")
    assert secret_from(tmp_path / "key").reveal() == KEY
    target.chmod(0o444)
    with pytest.raises(BadValue, match="0400"):
        secret_from(tmp_path / "key")


@pytest.mark.parametrize(
    "content",
    [b"", b"short", KEY.encode() + b"\n\n", b"two " + KEY.encode(), b"\xff" * 30, b"x" * 257],
    ids=["empty", "short", "two lines", "a space", "no ASCII", "long"],
)
def test_content_that_is_no_key_is_refused_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(BadValue) as caught:
        secret_from(written(tmp_path / "key", content))
    assert KEY not in str(caught.value)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o400)
    for name in ("absent", "pipe", "."):
        with pytest.raises(BadValue, match="file"):
            secret_from(tmp_path / name)
