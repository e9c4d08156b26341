"""The log as tiles: another reader finds all of it, and only that log continues them."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from cryptography.exceptions import InvalidSignature

from storage.audit import WITNESSED, BadCheckpoint, VerdictLeaf, decode_leaf
from storage.embedded import EmbeddedOptions, EmbeddedStore
from storage.ground.errors import StorageError, StoreRolledBack, StoreUnavailable
from storage.ground.state_directory import write_durably
from storage.upkeep import offline as subject
from storage.upkeep.offline import EmbeddedFiles
from storage.values import AuditHead
from tests.fault.test_full_disk import fill, small_disk
from tests.tlog_reader import Unsound, check_public, check_whole, head_of, verified_head
from tests.tlog_witness import Witness
from tests.unit.storage.opening import Bench, candidate_of, submission_of, write

ROOT = Path(__file__).resolve().parents[4]


def grow(bench: Bench, count: int, at: int = 0) -> list[bytes]:
    """Write so many memories; the leaves of the log then."""
    store = bench.open()
    said = [candidate_of(f"fact {at + one} of the log") for one in range(count)]
    write(store, *map(submission_of, said))
    leaves = store.audit.leaves(0, 10_000)
    store.close()
    return list(leaves)


def export(
    bench: Bench, target: Path, *, entries: bool = False, witnessed: bool = False
) -> AuditHead:
    return EmbeddedFiles(bench.state).export_tiles(target, entries=entries, witnessed=witnessed)


def files_in(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def test_an_independent_reader_finds_every_leaf_under_the_signed_head(
    bench: Bench, tmp_path: Path
) -> None:
    leaves = grow(bench, 300)
    done = export(bench, tmp_path / "log", entries=True)
    head, entries = check_whole(tmp_path / "log", done.verifier_key)
    assert (head.size, entries) == (len(leaves), leaves)
    assert head.size > 512, "full tiles, a part, and a second level"
    assert any(isinstance(decode_leaf(one), VerdictLeaf) for one in entries)


@pytest.mark.parametrize(
    "file", ["tile/0/000", "tile/0/001", "tile/1/000.p/*", "tile/entries/001", "checkpoint"]
)
def test_a_changed_byte_anywhere_is_found_by_that_reader(
    bench: Bench, tmp_path: Path, file: str
) -> None:
    """The control of the test above: a reader that found nothing would find this sound too."""
    grow(bench, 300)
    vkey = export(bench, tmp_path / "log", entries=True).verifier_key
    path = next((tmp_path / "log").glob(file))
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    with pytest.raises((Unsound, InvalidSignature, ValueError)):
        check_whole(tmp_path / "log", vkey)


def test_without_entries_no_byte_of_a_leaf_is_in_the_directory(
    bench: Bench, tmp_path: Path
) -> None:
    leaves = grow(bench, 150)
    done = export(bench, tmp_path / "public")
    assert check_public(tmp_path / "public", done.verifier_key).size == len(leaves)
    public = files_in(tmp_path / "public")
    assert not [name for name in public if "entries" in name]
    named = [re.escape(leaf[2:40]) for leaf in leaves]
    assert not any(re.search(b"|".join(named), data) for data in public.values())
    export(bench, tmp_path / "own", entries=True)
    own = files_in(tmp_path / "own")
    assert any(re.search(b"|".join(named), data) for data in own.values()), "control"
    modes = {(tmp_path / "own" / name).stat().st_mode & 0o777 for name in own if "entries" in name}
    assert modes == {0o600}
    assert (tmp_path / "public" / "checkpoint").stat().st_mode & 0o777 == 0o644


def test_an_export_in_steps_is_that_in_one_and_rewrites_nothing_complete(
    bench: Bench, tmp_path: Path
) -> None:
    kept: dict[str, tuple[int, bytes]] = {}
    for step in range(5):
        grow(bench, 61, at=100 * step)
        done = export(bench, tmp_path / "steps", entries=True)
        check_whole(tmp_path / "steps", done.verifier_key)
        for name, (inode, data) in kept.items():
            path = tmp_path / "steps" / name
            assert (path.stat().st_ino, path.read_bytes()) == (inode, data), name
        kept = {
            name: ((tmp_path / "steps" / name).stat().st_ino, data)
            for name, data in files_in(tmp_path / "steps").items()
            if re.fullmatch("tile/[0-9a-z]+/[0-9]{3}", name)
        }
    assert {"tile/0/001", "tile/entries/001"} <= set(kept)
    export(bench, tmp_path / "one", entries=True)
    one, steps = files_in(tmp_path / "one"), files_in(tmp_path / "steps")
    assert {name: steps.get(name) for name in one} == one
    # Besides, there are the parts of the last tiles as earlier heads need them.
    assert {name.partition(".p/")[0] for name in steps.keys() - one.keys()} <= {
        name.partition(".p/")[0] for name in one if ".p/" in name
    }


def test_an_export_of_the_same_head_changes_no_file(bench: Bench, tmp_path: Path) -> None:
    grow(bench, 3)
    export(bench, tmp_path / "log")
    before = files_in(tmp_path / "log")
    export(bench, tmp_path / "log")
    assert files_in(tmp_path / "log") == before


def _forked(bench: Bench, tmp_path: Path, count: int = 3) -> Bench:
    """Another store with the same secrets and the same beginning, that then had another life."""
    grow(bench, 3)
    other = Bench(tmp_path / "other")
    shutil.copytree(bench.state, other.state)
    grow(bench, count, at=100)
    grow(other, count + 2, at=500)
    return other


def test_a_forked_log_is_not_published_where_the_other_was(bench: Bench, tmp_path: Path) -> None:
    other = _forked(bench, tmp_path)
    export(bench, tmp_path / "log")
    before = files_in(tmp_path / "log")
    with pytest.raises(StoreRolledBack, match="not those that were signed"):
        export(other, tmp_path / "log")
    assert files_in(tmp_path / "log") == before
    done = export(other, tmp_path / "elsewhere")
    assert check_public(tmp_path / "elsewhere", done.verifier_key), "control: alone it is sound"


def test_a_log_that_was_rolled_back_is_not_published(bench: Bench, tmp_path: Path) -> None:
    grow(bench, 3)
    shutil.copytree(bench.state, tmp_path / "earlier")
    grow(bench, 3, at=100)
    export(bench, tmp_path / "log")
    before = files_in(tmp_path / "log")
    with pytest.raises(StoreRolledBack, match="an older copy of the store was put in place"):
        EmbeddedFiles(tmp_path / "earlier").export_tiles(
            tmp_path / "log", entries=False, witnessed=False
        )
    assert files_in(tmp_path / "log") == before
    grow(bench, 1, at=200)
    assert export(bench, tmp_path / "log").size > head_of(before["checkpoint"]).size, "control"


def test_a_fork_that_was_killed_before_its_head_leaves_no_tile_to_be_published(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a head in the directory nothing says which log its tiles are of, but their bytes."""
    other = _forked(bench, tmp_path, 150)
    _killed_after(monkeypatch, 2)
    with pytest.raises(Killed):
        export(other, tmp_path / "log")
    monkeypatch.undo()
    assert not (tmp_path / "log" / "checkpoint").exists()
    with pytest.raises(StoreRolledBack, match="other hashes or leaves"):
        export(bench, tmp_path / "log")
    assert not (tmp_path / "log" / "checkpoint").exists()
    assert export(other, tmp_path / "log").size, "control: the log whose tiles are there"


@pytest.mark.parametrize("first", [False, True])
def test_a_directory_has_entries_from_the_beginning_or_never(
    bench: Bench, tmp_path: Path, *, first: bool
) -> None:
    grow(bench, 3)
    export(bench, tmp_path / "log", entries=first)
    grow(bench, 3, at=100)
    before = files_in(tmp_path / "log")
    with pytest.raises(StoreUnavailable, match="--entries"):
        export(bench, tmp_path / "log", entries=not first)
    assert files_in(tmp_path / "log") == before
    export(bench, tmp_path / "log", entries=first)


class Killed(BaseException):
    """`kill -9`: nothing is caught and nothing is cleaned up."""


def _killed_after(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """The export is killed inside its `count`-th write, whose temporary file stays."""
    left = iter(range(count))

    def failing(path: Path, data: bytes, mode: int) -> None:
        if next(left, None) is None:
            path.with_name(f".{path.name}.unfinished").write_bytes(data[:7])
            raise Killed
        write_durably(path, data, mode)

    monkeypatch.setattr(subject, "write_durably", failing)


def test_a_kill_at_any_write_leaves_a_sound_directory_that_the_next_export_completes(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(bench, 150)
    vkey = export(bench, tmp_path / "begun", entries=True).verifier_key
    grow(bench, 140, at=500)
    export(bench, tmp_path / "whole", entries=True)
    writes = 0
    while True:
        target = tmp_path / f"killed-{writes}"
        shutil.copytree(tmp_path / "begun", target)
        _killed_after(monkeypatch, writes)
        try:
            export(bench, target, entries=True)
        except Killed:
            check_whole(target, vkey)
            monkeypatch.undo()
            export(bench, target, entries=True)
        else:
            break
        check_whole(target, vkey)
        whole, found = files_in(tmp_path / "whole"), files_in(target)
        assert {name: found.get(name) for name in whole} == whole
        writes += 1
    assert writes > 5, "as many places as there were writes"


@pytest.mark.parametrize("first", [False, True])
def test_a_first_run_that_was_killed_decides_whether_there_are_entries(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, first: bool
) -> None:
    """Else a later run would go on from a head below which bundles are missing."""
    grow(bench, 300)
    for writes in range(1, 5):
        target = tmp_path / f"killed-{writes}"
        _killed_after(monkeypatch, writes)
        with pytest.raises(Killed):
            export(bench, target, entries=first)
        monkeypatch.undo()
        assert not (target / "checkpoint").exists()
        with pytest.raises(StoreUnavailable, match="--entries"):
            export(bench, target, entries=not first)
        vkey = export(bench, target, entries=first).verifier_key
        assert (check_whole if first else check_public)(target, vkey), "control: as it was begun"


_SLOW = (
    "import sys, time\n"
    "from pathlib import Path\n"
    "from storage.upkeep import offline\n"
    "state, out, gone = map(Path, sys.argv[1:])\n"
    "real = offline.write_durably\n"
    "def write(path, *given):\n"
    "    if path.name == 'checkpoint':\n"
    "        gone.with_suffix('.there').touch()\n"
    "        while gone.exists(): time.sleep(0.02)\n"
    "    real(path, *given)\n"
    "offline.write_durably = write\n"
    "offline.EmbeddedFiles(state).export_tiles(out, entries=False, witnessed=False)\n"
)


def test_an_export_that_began_earlier_does_not_put_the_head_of_another_back(
    bench: Bench, tmp_path: Path
) -> None:
    grow(bench, 3)
    target, hold = tmp_path / "log", tmp_path / "hold"
    hold.touch()

    def started(flag: Path) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-P", "-c", _SLOW, str(bench.state), str(target), str(flag)]
        return subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(ROOT)})

    with started(hold) as earlier:
        while not hold.with_suffix(".there").exists():
            assert earlier.poll() is None
            time.sleep(0.02)
        try:
            grow(bench, 3, at=100)
            later = started(tmp_path / "free")
            waits = re.compile(f"-> FLOCK .* {later.pid} ")
            while not waits.search(Path("/proc/locks").read_text("ascii")):
                assert later.poll() is None, "the later one ended while the earlier was writing"
                time.sleep(0.02)
        finally:
            hold.unlink()
        assert (later.wait(), earlier.wait()) == (0, 0)
    size = head_of((target / "checkpoint").read_bytes()).size
    done = export(bench, target)
    assert size == done.size, "the head of the later one stays"
    check_public(target, done.verifier_key)


def test_a_killed_process_between_two_files_leaves_a_sound_directory(
    bench: Bench, tmp_path: Path
) -> None:
    """The same with a process that really ends by SIGKILL."""
    grow(bench, 150)
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from storage.upkeep import offline\n"
        "real, left = offline.write_durably, iter(range(2))\n"
        "def write(*given):\n"
        "    if next(left, None) is None: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(*given)\n"
        "offline.write_durably = write\n"
        "offline.EmbeddedFiles(Path(sys.argv[1])).export_tiles(\n"
        "    Path(sys.argv[2]), entries=True, witnessed=False)\n"
    )
    words = [sys.executable, "-P", "-c", program, str(bench.state), str(tmp_path / "log")]
    ended = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    assert ended.returncode == -9
    assert not (tmp_path / "log" / "checkpoint").exists()
    assert (tmp_path / "log" / "tile").exists()
    done = export(bench, tmp_path / "log", entries=True)
    check_whole(tmp_path / "log", done.verifier_key)


def test_a_directory_that_others_may_write_gets_nothing(bench: Bench, tmp_path: Path) -> None:
    grow(bench, 3)
    export(bench, tmp_path / "log")
    grow(bench, 3, at=100)
    before = files_in(tmp_path / "log")
    for below in (".", "tile", "tile/0"):
        folder = tmp_path / "log" / below
        folder.chmod(0o777)
        with pytest.raises(StorageError, match="others, who can write"):
            export(bench, tmp_path / "log")
        folder.chmod(0o755)
        assert files_in(tmp_path / "log") == before
    export(bench, tmp_path / "log")


@pytest.mark.parametrize("where", ["log", "log/tile", "log/tile/0"])
def test_a_file_where_a_directory_should_be_is_named(
    bench: Bench, tmp_path: Path, where: str
) -> None:
    grow(bench, 3)
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("in the way")
    with pytest.raises((OSError, StorageError), match="log"):
        export(bench, tmp_path / "log")
    assert path.read_text() == "in the way"


def test_a_link_in_place_of_a_tile_is_not_written_through(bench: Bench, tmp_path: Path) -> None:
    leaves = grow(bench, 3)
    secret = tmp_path / "secret"
    secret.write_text("not for tiles")
    tile = tmp_path / f"log/tile/0/000.p/{len(leaves)}"
    tile.parent.mkdir(parents=True)
    tile.symlink_to(secret)
    with pytest.raises(StorageError):
        export(bench, tmp_path / "log")
    assert secret.read_text() == "not for tiles"
    tile.unlink()
    tile.symlink_to(tmp_path / "nowhere")
    vkey = export(bench, tmp_path / "log").verifier_key
    assert not (tmp_path / "nowhere").exists()
    assert not tile.is_symlink()
    check_public(tmp_path / "log", vkey)


def test_the_checkpoint_of_another_log_is_refused(bench: Bench, tmp_path: Path) -> None:
    grow(bench, 3)
    stranger = Bench(tmp_path / "stranger")
    grow(stranger, 3)
    export(stranger, tmp_path / "log")
    with pytest.raises(StoreRolledBack, match="another store"):
        export(bench, tmp_path / "log")
    (tmp_path / "log" / "checkpoint").write_text("garbage\n")
    with pytest.raises(StoreRolledBack, match="was changed"):
        export(bench, tmp_path / "log")


def _witnessed(bench: Bench, store: EmbeddedStore, note: bytes, witness: Witness) -> bytes:
    whole = note + witness.signed(head_of(note).text)
    store.write_cursor(WITNESSED, msgspec.json.encode(whole.decode()))
    return whole


def test_the_published_head_is_the_one_that_witnesses_cosigned_and_never_goes_back(
    bench: Bench, tmp_path: Path
) -> None:
    grow(bench, 3)
    witness = Witness(tmp_path / "witness.json")
    store = bench.open()
    earlier = store.audit.head().note.encode()
    store.close()
    grow(bench, 3, at=100)
    plain = export(bench, tmp_path / "ahead", witnessed=True)
    store = bench.open()
    cosigned = _witnessed(bench, store, earlier, witness)
    store.close()
    export(bench, tmp_path / "log", witnessed=True)
    assert (tmp_path / "log" / "checkpoint").read_bytes() == cosigned
    head = check_public(tmp_path / "log", plain.verifier_key)
    assert head.size < plain.size
    # A directory that was ahead of the witnesses before the first of them answered stays ahead.
    assert export(bench, tmp_path / "ahead", witnessed=True).size == plain.size
    # Without a table of a witness the newest head is published.
    assert export(bench, tmp_path / "log").size == plain.size


def test_a_kept_head_that_is_damaged_or_of_another_log_is_not_published(
    bench: Bench, tmp_path: Path
) -> None:
    grow(bench, 3)
    stranger = Bench(tmp_path / "stranger")
    grow(stranger, 3)
    foreign = export(stranger, tmp_path / "foreign").note
    kept = bench.state / "cursors" / f"{WITNESSED}.json"
    kept.parent.mkdir(exist_ok=True)
    kept.write_bytes(msgspec.json.encode(foreign))
    with pytest.raises(BadCheckpoint):
        export(bench, tmp_path / "log", witnessed=True)
    assert not (tmp_path / "log").exists()
    kept.write_bytes(b'"cut')
    done = export(bench, tmp_path / "log", witnessed=True)
    assert verified_head(done.note.encode(), done.verifier_key).size == done.size


@pytest.mark.parametrize("count", [0, 3], ids=["rolled back", "forked"])
def test_a_head_that_witnesses_cosigned_and_this_log_does_not_continue_is_not_published(
    bench: Bench, tmp_path: Path, count: int
) -> None:
    """A store that was put back beside the kept head: tiles of one log, and a head of the other."""
    grow(bench, 3)
    other = Bench(tmp_path / "other")
    shutil.copytree(bench.state, other.state)
    grow(bench, 3, at=100)
    if count:
        grow(other, count, at=500)
    store = bench.open()
    cosigned = _witnessed(
        bench, store, store.audit.head().note.encode(), Witness(tmp_path / "witness.json")
    )
    store.close()
    kept = f"cursors/{WITNESSED}.json"
    (other.state / "cursors").mkdir(exist_ok=True)
    (other.state / kept).write_bytes((bench.state / kept).read_bytes())
    with pytest.raises(StoreRolledBack, match="copy of the store was put in place"):
        export(other, tmp_path / "log", witnessed=True)
    assert not (tmp_path / "log").exists()
    vkey = export(bench, tmp_path / "log", witnessed=True).verifier_key
    assert check_public(tmp_path / "log", vkey), "control: the log that was cosigned"
    assert (tmp_path / "log" / "checkpoint").read_bytes() == cosigned


def test_tiles_are_not_written_among_the_keys_of_the_store(bench: Bench, tmp_path: Path) -> None:
    grow(bench, 3)
    before = files_in(bench.state)
    (tmp_path / "link").symlink_to(bench.state)
    for target in (bench.state, bench.state / "secrets", tmp_path / "link" / "public"):
        with pytest.raises(StoreUnavailable, match="not in the state directory"):
            export(bench, target)
    assert files_in(bench.state).keys() == before.keys()
    assert export(bench, bench.state.with_name("public")).size, "control: beside it"


def test_a_reader_with_another_key_opens_nothing(bench: Bench, tmp_path: Path) -> None:
    grow(bench, 3)
    export(bench, tmp_path / "log")
    stranger = Bench(tmp_path / "stranger")
    grow(stranger, 1)
    other = export(stranger, tmp_path / "other").verifier_key
    with pytest.raises(Unsound):
        check_public(tmp_path / "log", other)
    name, hashed, encoded = other.split("+", 2)
    assert len(base64.b64decode(encoded)) == 33
    assert (name, len(hashed)) == ("mnemogate", 8)


def test_a_full_disk_is_named_and_the_next_export_completes_what_was_begun(
    bench: Bench, tmp_path: Path
) -> None:
    grow(bench, 300)
    with small_disk(tmp_path / "disk", "64k") as disk:
        fill(disk / "ballast")
        with pytest.raises(OSError, match="No space left"):
            export(bench, disk / "log", entries=True)
        assert not (disk / "log" / "checkpoint").exists()
        (disk / "ballast").unlink()
        with pytest.raises(OSError, match="No space left"):
            export(bench, disk / "log", entries=True)
        assert (disk / "log" / "tile").exists(), "it was begun"
        assert not (disk / "log" / "checkpoint").exists()
        assert not [name for name in files_in(disk / "log") if "unfinished" in name]
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        done = export(bench, disk / "log", entries=True)
        check_whole(disk / "log", done.verifier_key)


def test_a_log_keeps_the_name_that_it_began_with(bench: Bench, tmp_path: Path) -> None:
    """A witness knows it by that; another name would be another log to everybody."""
    named = EmbeddedOptions(quota_bytes=1 << 28, origin="gate.example/prod")
    bench.open(options=named).close()
    assert export(bench, tmp_path / "log").verifier_key.startswith("gate.example/prod+")
    with pytest.raises(StoreRolledBack, match="If `log_origin` was changed, set it back"):
        bench.open()
    # A host that takes over a shard has no copy of the checkpoint.
    bench.checkpoint.unlink()
    with pytest.raises(StoreRolledBack, match="and not mnemogate: set `log_origin` back to that"):
        bench.open()
    bench.open(options=named).close()
