"""Files that an operator names: nobody else's, nothing that blocks, and no further than a bound."""

from __future__ import annotations

import ast
import grp
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from storage.ground.trusted_files import Trust, UnfitFile, read_file, refuse_replaceable
from tests.unit.proxy.doctor.as_user import as_user, needs_root

STRANGER = 1234
ROOT = Path(__file__).resolve().parents[4]


def written(path: Path, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"content")
    path.chmod(mode)
    return path


def test_a_file_of_this_user_is_read_and_so_is_one_that_all_may_read(tmp_path: Path) -> None:
    assert read_file(written(tmp_path / "file", 0o644), 7) == b"content"


def test_a_longer_file_is_refused_and_not_read_to_its_end(tmp_path: Path) -> None:
    with pytest.raises(UnfitFile, match="at most 6 bytes"):
        read_file(written(tmp_path / "file"), 6)
    with pytest.raises(UnfitFile, match="at most 100 bytes"):
        read_file(Path("/dev/zero"), 100, Trust.ANYBODYS)


@pytest.mark.parametrize("trust", [Trust.PLAIN, Trust.OURS, Trust.SECRET])
def test_what_never_ends_or_blocks_is_refused_at_once(tmp_path: Path, trust: Trust) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for place in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), Path("/dev/stdin")):
        with pytest.raises(UnfitFile, match="a regular file"):
            read_file(place, 100, trust)


def test_a_person_at_a_terminal_may_name_a_pipe(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"piped")
    os.close(writing)
    assert read_file(Path(f"/dev/fd/{reading}"), 100, Trust.ANYBODYS) == b"piped"
    os.close(reading)


@pytest.mark.parametrize("mode", [0o602, 0o622, 0o666])
def test_a_file_that_strangers_can_write_is_refused_with_the_fix(tmp_path: Path, mode: int) -> None:
    file = written(tmp_path / "file", mode)
    with pytest.raises(UnfitFile, match=f"chmod go-w {file}"):
        read_file(file, 100)


@needs_root
def test_another_users_file_is_refused_and_a_signed_ones_owner_does_not_count(
    tmp_path: Path,
) -> None:
    file = written(tmp_path / "file")
    os.chown(file, STRANGER, 0)
    with pytest.raises(UnfitFile, match=f"uid {STRANGER}.*{file} belongs"):
        read_file(file, 100)
    assert read_file(file, 100, Trust.PLAIN) == b"content"


@needs_root
def test_a_file_below_another_users_directory_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "theirs" / "ours" / "file")
    os.chown(tmp_path / "theirs", STRANGER, 0)
    with pytest.raises(UnfitFile, match=f"{tmp_path / 'theirs'} belongs"):
        read_file(file, 100)
    refuse_replaceable(tmp_path / "not-there-yet" / "below")
    with pytest.raises(UnfitFile, match="belongs"):
        refuse_replaceable(tmp_path / "theirs" / "not-there-yet")


@needs_root
def test_a_symlink_of_another_user_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    # A directory as /tmp is: the stranger's link lies beside our file, and may be led elsewhere.
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    target = written(shared / "ours")
    link = shared / "link"
    link.symlink_to(target)
    assert read_file(link, 100) == b"content"
    os.lchown(link, STRANGER, 0)
    with pytest.raises(UnfitFile, match=f"{link} belongs"):
        read_file(link, 100)


def test_a_directory_that_others_can_write_needs_the_sticky_bit(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    file = written(shared / "file")
    shared.chmod(0o777)
    with pytest.raises(UnfitFile, match=f"chmod go-w {shared}"):
        read_file(file, 100)
    shared.chmod(0o1777)
    assert read_file(file, 100) == b"content"


def test_a_group_counts_by_who_else_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "group" / "file")
    file.parent.chmod(0o2775)
    own = SimpleNamespace(pw_uid=os.geteuid(), pw_gid=file.stat().st_gid, pw_name="own")
    other = SimpleNamespace(pw_uid=STRANGER, pw_gid=STRANGER, pw_name="other")
    members: list[str] = []
    monkeypatch.setattr("storage.ground.trusted_files.pwd.getpwall", lambda: [own, other])

    def group(_: int) -> SimpleNamespace:
        return SimpleNamespace(gr_mem=members)

    monkeypatch.setattr(grp, "getgrgid", group)
    assert read_file(file, 100) == b"content"
    members.append("other")
    with pytest.raises(UnfitFile, match=f"chmod g-w {file.parent}"):
        read_file(file, 100)
    members.clear()
    other.pw_gid = file.stat().st_gid
    with pytest.raises(UnfitFile, match="chmod g-w"):
        read_file(file, 100)


def test_a_projected_volume_is_taken_as_kubernetes_mounts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # key -> ..data/key, ..data -> ..2026; the directory is 0777 and mounted read-only
    volume = tmp_path / "volume"
    written(volume / "..2026" / "key", 0o440)
    (volume / "..data").symlink_to("..2026")
    (volume / "key").symlink_to("..data/key")
    volume.chmod(0o777)
    with pytest.raises(UnfitFile, match="chmod go-w"):
        read_file(volume / "key", 100, Trust.SECRET)

    def mounted(place: Path) -> bool:
        return place == volume

    def flags(_: Path) -> SimpleNamespace:
        return SimpleNamespace(f_flag=os.ST_RDONLY)

    monkeypatch.setattr(os.path, "ismount", mounted)
    monkeypatch.setattr(os, "statvfs", flags)
    assert read_file(volume / "key", 100, Trust.SECRET) == b"content"


def test_a_circle_of_symlinks_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(UnfitFile, match="circle"):
        refuse_replaceable(tmp_path / "a")


def test_a_way_over_parents_and_relative_links_is_followed(tmp_path: Path) -> None:
    file = written(tmp_path / "one" / "file")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "link").symlink_to("../one/../one/file")
    assert read_file(tmp_path / "two" / ".." / "two" / "link", 100) == file.read_bytes()


@needs_root
def test_an_owner_outside_the_user_namespace_cannot_be_told_from_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "file")
    os.chown(file, 65_534, 0)
    with pytest.raises(UnfitFile, match="uid 65534"):
        read_file(file, 100)
    real = Path.read_text

    def mapped(path: Path, encoding: str | None = None) -> str:
        return "0 1000 1\n" if path.name == "uid_map" else real(path, encoding)

    monkeypatch.setattr(Path, "read_text", mapped)
    assert read_file(file, 100) == b"content"


@needs_root
def test_an_ordinary_user_takes_its_own_files_and_roots(tmp_path: Path) -> None:
    for above in (tmp_path, *tmp_path.parents):
        if above.parent in (above, Path("/")):
            break
        above.chmod(above.stat().st_mode | 0o055)
    roots, own = written(tmp_path / "roots", 0o644), tmp_path / "own"
    own.mkdir()
    os.chown(own, STRANGER, STRANGER)

    def act() -> list[str]:
        mine = written(own / "mine")
        return [read_file(file, 100).decode() for file in (roots, mine)]

    assert as_user(STRANGER, act, list[str]) == ["content", "content"]


# Bytes of our own, of the system, or of the evaluation's, and the files of a state directory that
# is closed to others before anything in it is opened.
_NO_OPERATORS_FILES = {
    "storage/ground/trusted_files.py",
    "storage/ground/state_directory.py",  # the state's own marker
    "storage/sealed_log/sealed_file.py",  # the state's own
    "storage/shipped.py",  # the state's own mark of a copy
    "storage/journal/lease.py",  # /proc
    "proxy/admin/insight.py",  # the shipped categories
    "storage/staging/staging.py",
    "storage/upkeep/backup.py",  # hashed in pieces: a store may be of any length
    "storage/upkeep/restore.py",  # the copy that it has just made
    "proxy/settings/table.py",  # the packaged ruleset
    "proxy/settings/tool_maps.py",  # the shipped maps
    "proxy/settings/wider.py",  # the packaged ruleset
    "proxy/doctor/examine.py",  # /proc
    "proxy/doctor/locate.py",
    "proxy/doctor/hosts.py",  # the settings of agents' hosts, of which nothing is believed
    "proxy/embed/weights.py",  # an installed package's
    "proxy/dialects/files/shipped_places.py",  # the shipped places
    "proxy/console/console.py",  # its own stylesheet and script
    "proxy/cli/review.py",  # the file that its caller names, as its caller
}


def test_nothing_else_reads_a_file_by_its_name() -> None:
    readers = set[str]()
    for package in ("proxy", "storage", "telemetry"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            text = path.read_text("utf-8")
            if "read_bytes" not in text and "read_text" not in text:
                continue
            called = {
                node.func.attr
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            }
            if called & {"read_bytes", "read_text"}:
                readers.add(name)
    assert readers - _NO_OPERATORS_FILES == set()


def test_modes_of_secrets_are_those_of_an_orchestrator(tmp_path: Path) -> None:
    for mode, taken in ((0o400, True), (0o440, True), (0o600, True), (0o644, False)):
        file = written(tmp_path / "key", mode)
        assert stat.S_IMODE(file.stat().st_mode) == mode
        if taken:
            assert read_file(file, 100, Trust.SECRET) == b"content"
        else:
            with pytest.raises(UnfitFile, match="0400, 0440 or 0600"):
                read_file(file, 100, Trust.SECRET)
        file.unlink()
