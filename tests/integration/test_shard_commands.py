"""`mnemogate shard` and `audit verify --shard`: a store moves into a database, and is looked at."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.integration.cli_process import Done, Place
from tests.integration.shard_members import OPERATOR_KEY, ROOT, Member, eventually
from tests.postgres_server import PostgresServer, serving

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(400)]
CREATE = ("shard", "create", "--from")


@pytest.fixture(scope="module")
def server() -> Generator[PostgresServer]:
    with serving() as running:
        yield running


@pytest.fixture
def root(server: PostgresServer) -> Generator[Path]:
    """A short path for the sockets below it, and a database without a shard."""
    server.sql("drop schema if exists mnemogate cascade")
    with tempfile.TemporaryDirectory(prefix="mg-shard-") as place:
        Path(place).chmod(0o700)
        yield Path(place)


def closed(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def configured(root: Path, url: str, state: Path) -> Path:
    """A file of settings for a shard with the secrets of a state directory."""
    secrets, keys = root / "secrets", root / "keys"
    if not secrets.exists():
        shutil.copytree(state / "secrets", secrets)
        closed(secrets / "journal.key", os.urandom(32))
        keys.mkdir(mode=0o700)
    dsn = closed(root / "dsn", url.encode())
    return closed(
        root / "m.toml",
        f'[shard]\nname = "test"\ndsn = "{dsn}"\nsecrets = "{secrets}"\nkeys = "{keys}"\n'
        'peers = "127.0.0.1:0"\n'.encode(),
    )


def written(root: Path) -> Place:
    """A stopped store of a gate without a shard, with two memories."""
    (root / "old").mkdir(mode=0o700)
    place = Place(root=root / "old")
    with place.running() as sidecar:
        for number in (1, 2):
            assert sidecar.write(sidecar.key("agent"), text=f"note {number}")[0] == 201
    return place


# The command line, which is killed once the copy has all rows.
KILLED = """
import os, sys
from storage.audit import Verifier
Verifier.run = lambda _: os.kill(os.getpid(), 9)
from proxy.cli.entry import main
sys.exit(main())
"""


def command(config: Path, *words: str, program: str | None = None) -> Done:
    run = ("-m", "proxy") if program is None else ("-c", program)
    done = subprocess.run(
        [sys.executable, "-P", *run, *words, "--config", str(config)],
        capture_output=True,
        cwd="/",
        env={"PATH": os.environ["PATH"], "HOME": str(config.parent), "PYTHONPATH": str(ROOT)},
        text=True,
        timeout=60,
        check=False,
    )
    return Done(code=done.returncode, out=done.stdout, err=done.stderr)


def refused(config: Path, *words: str, code: int) -> str:
    """The one line with which a command is refused."""
    done = command(config, *words)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1), done
    return done.err


def test_a_store_goes_into_a_shard_and_its_members_have_all_of_it(
    root: Path, server: PostgresServer
) -> None:
    place = written(root)
    before = place.command("audit", "verify", "--json").data
    config = configured(root, server.url(), place.state)
    outside = ("--checkpoint", str(place.checkpoint))
    for words in ("shard status", "shard step-down", "audit verify --shard"):
        assert "shard test: the database has no shard of this name" in refused(
            config, *words.split(), code=3
        )
    # Asking made nothing in the database.
    assert server.sql("select to_regnamespace('mnemogate') is null") == "t"

    made = command(config, *CREATE, str(place.state))
    assert made.code == 0, made.err
    assert "NO ONE; the last one was 127.0.0.1:0" in made.out
    after = command(config, "audit", "verify", "--shard", "--json", *outside)
    assert after.code == 0, after.err
    assert [after.data[name] for name in ("root", "leaves", "version", "problems")] == [
        before[name] for name in ("root", "leaves", "version", "problems")
    ]
    # The copy that was verified is gone.
    assert not [*root.rglob("verified")]
    assert "a store already" in refused(config, *CREATE, str(place.state), code=3)
    assert command(config, "shard", "status").code == 1

    member = Member(root, "first", server.url())
    try:
        eventually(member.is_holder, "the member holds the store", member)
        held = command(config, "shard", "status", "--json")
        assert held.code == 0, held.err
        lease, store = held.data["lease"], held.data["streams"][0]
        assert held.data["holder"] == lease["address"] == f"127.0.0.1:{member.peers}"
        assert 0 < lease["remaining_s"] <= 10
        assert (store["stream"], store["begins"], store["rows"]) == ("store", 1, store["seq"])
        assert (store["missing"], held.data["unreadable"]) == (0, None)
        assert any("without a synchronous standby" in one for one in held.data["remarks"])
        told = command(config, "shard", "status").out
        assert f"127.0.0.1:{member.peers}, for " in told
        assert "keys      the last row opens" in told
        listed = place.command(
            *("memory", "list", "--json", "--admin", f"127.0.0.1:{member.admin}"),
            MNEMOGATE_OPERATOR_KEY=OPERATOR_KEY,
        )
        assert sorted(one["text"] for one in listed.data["memories"]) == ["note 1", "note 2"]
        assert member.problems() == []
        # The journal can be verified while it serves.
        assert command(config, "audit", "verify", "--shard", *outside).code == 0
    finally:
        member.send(signal.SIGTERM)
        member.ended()
    # The directory of a member is a copy.
    assert "no store of its own" in refused(config, *CREATE, str(member.state), code=3)
    assert command(config, "shard", "status").code == 1
    assert "no member holds the shard" in refused(config, "shard", "step-down", code=1)


def test_what_is_no_stopped_store_with_the_secrets_of_the_shard_is_refused(
    root: Path, server: PostgresServer
) -> None:
    place = written(root)
    config = configured(root, server.url(), place.state)
    assert "there is no store in it" in refused(config, *CREATE, str(root / "nothing"), code=3)
    assert not (root / "nothing").exists()
    with place.running() as sidecar:
        busy = refused(config, *CREATE, str(place.state), code=3)
        assert "another gate holds this state directory" in busy
        assert f"stop it with `kill {sidecar.pid}`" in busy
    key = root / "secrets" / "store.key"
    right = key.read_bytes()
    closed(key, os.urandom(32))
    other = refused(config, *CREATE, str(place.state), code=3)
    assert "of another store than the shard's" in other
    closed(key, right)
    assert command(config, *CREATE, str(place.state)).code == 0


def test_a_command_without_the_table_or_without_the_database_names_that(tmp_path: Path) -> None:
    config = closed(tmp_path / "m.toml", b"")
    place = written(tmp_path)
    words = ("shard status", "shard step-down", "audit verify --shard")
    all_words = [*(one.split() for one in words), [*CREATE, str(place.state)]]
    for one in all_words:
        assert "no [shard] table" in refused(config, *one, code=2)
    url = "postgresql://gate:secret-word@127.0.0.1:1/memory"
    config = configured(tmp_path, url, place.state)
    for one in all_words:
        line = refused(config, *one, code=3)
        assert "shard test: no connection to the database" in line
        assert "look at [shard] in the settings" in line
        assert "secret-word" not in line


@pytest.mark.parametrize("by", ["the next command", "the next start"])
def test_the_copy_of_a_verification_that_was_killed_is_removed(
    root: Path, server: PostgresServer, by: str
) -> None:
    place = written(root)
    config = configured(root, server.url(), place.state)
    assert command(config, *CREATE, str(place.state)).code == 0
    member = Member(root, "first", server.url())
    try:
        eventually(member.is_holder, "the member holds the store", member)
        member.send(signal.SIGTERM)
        assert member.ended() == 0
        killed = command(member.config, "audit", "verify", "--shard", program=KILLED)
        assert killed.code == -signal.SIGKILL, killed.err
        # Control: all that was to be verified is readable.
        assert b"note 1" in (member.state / "verified" / "store" / "data.mdb").read_bytes()
        if by == "the next command":
            verified = command(member.config, "audit", "verify", "--shard")
            assert verified.code == 0, verified.err
        else:
            member.start()
            eventually(member.is_holder, "the member holds the store again", member)
        assert not (member.state / "verified").exists()
    finally:
        member.remove()


def test_a_changed_journal_does_not_verify_and_the_status_shows_it(
    root: Path, server: PostgresServer
) -> None:
    place = written(root)
    config = configured(root, server.url(), place.state)
    assert command(config, *CREATE, str(place.state)).code == 0
    assert "the last row opens" in command(config, "shard", "status").out
    server.sql(
        "update mnemogate.journal set body = overlay(body placing '\\x00' from 100 for 1) "
        "where stream = 'store' and seq = 1"
    )
    assert "row 1 of the journal does not open" in refused(
        config, "audit", "verify", "--shard", code=1
    )
    assert "NO: row " in command(config, "shard", "status").out
    server.sql("delete from mnemogate.journal where stream = 'store' and seq = 1")
    assert "1 OF THEM MISSING" in command(config, "shard", "status").out
    assert "row 1 of the journal is missing" in refused(
        config, "audit", "verify", "--shard", code=1
    )
    assert not [*root.rglob("verified")]


def test_a_holder_that_is_asked_to_step_down_stands_by_and_another_member_has_all(
    root: Path, server: PostgresServer
) -> None:
    first = Member(root, "first", server.url())
    members = [first]
    try:
        eventually(first.is_holder, "the first member holds the store", first)
        members.append(Member(root, "second", server.url()))
        second = members[1]
        eventually(second.is_standby, "the second member stands by", second)
        acknowledged: list[str] = []
        for holder, other in ((first, second), (second, first)):
            for number in range(3):
                text = f"note {number} of {holder.home.name}"
                assert holder.write(text) == 201
                acknowledged.append(text)
            assert command(other.config, "shard", "step-down").code == 0
            eventually(other.is_holder, "the other member holds the store", other)
            eventually(holder.is_standby, "the holder stands by, in the same process", holder)
            assert sorted(other.texts()) == sorted(acknowledged)
            assert command(first.config, "shard", "status", "--json").data["holder"] == (
                f"127.0.0.1:{other.peers}"
            )
        assert first.problems() == []
        second.send(signal.SIGTERM)
        assert second.ended() == 0
        # Alone, it has the store again after a moment.
        before = first.log.read_text().count("stopping")
        assert command(first.config, "shard", "step-down").code == 0
        eventually(lambda: first.log.read_text().count("stopping") > before, "it gives it up")
        eventually(first.is_holder, "the one member holds the store again", first)
        assert sorted(first.texts()) == sorted(acknowledged)
    finally:
        for one in members:
            one.remove()
