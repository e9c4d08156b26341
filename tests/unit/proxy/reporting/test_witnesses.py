"""Witnesses: a refusal is seen, an answer is checked, and no verdict waits for one."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from proxy.reporting import witnesses as subject
from proxy.reporting.witnesses import Witnesses
from proxy.seams.environment import Environment
from proxy.seams.readiness import Readiness
from proxy.settings.witness import WitnessTable
from storage.audit import WITNESSED
from storage.embedded import EmbeddedStore
from storage.upkeep.offline import EmbeddedFiles
from tests.tlog_reader import check_public, cosigned_at, head_of, verified_head
from tests.tlog_witness import Answer, Trusting, Witness, serving
from tests.unit.storage.opening import Bench, say
from tests.unit.storage.shards import Shard

READY = Readiness(status="ready", reason=None, mode="enforce")
HOUR_S = 3_600


class Clock:
    """The time of the machine, put forward by so many seconds."""

    def __init__(self) -> None:
        self.ahead_s = 0

    def __call__(self) -> int:
        return time.time_ns() + self.ahead_s * 1_000_000_000


class Scene:
    """A store, and the client of its witnesses."""

    def __init__(self, root: Path) -> None:
        self.bench = Bench(root)
        self.store: EmbeddedStore = self.bench.open()
        self.clock = Clock()
        self.tables: tuple[WitnessTable, ...] = ()
        self.required = 1
        self.client = self.anew()

    def anew(self) -> Witnesses:
        """A client that knows nothing, as after a start or at a new holder of a shard."""
        self.around = Environment(
            clock_ns=self.clock, random_hex=lambda count: "0" * count, record=lambda _event: None
        )
        self.client = Witnesses(self.tables, self.required, self.store, self.around)
        return self.client

    def asks(self, *tables: WitnessTable, required: int = 1) -> None:
        self.tables, self.required = tables, required
        self.anew()

    @property
    def vkey(self) -> str:
        return self.store.audit.head().verifier_key

    def turn(self) -> Readiness:
        """A round; what `/readyz` shows after it."""
        asyncio.run(self.client.turn())
        return self.client.shown(READY)

    def grow(self, count: int = 3) -> None:
        for at in range(count):
            say(self.store, f"fact {at} at {time.monotonic_ns()}")

    def kept(self) -> bytes:
        """The head that was kept with its cosignatures; b"" before the first."""
        data = self.store.read_cursor(WITNESSED)
        return b"" if data is None else msgspec.json.decode(data, type=str).encode()


@pytest.fixture
def scene(tmp_path: Path) -> Generator[Scene]:
    made = Scene(tmp_path / "log")
    yield made
    made.bench.close()


@pytest.fixture
def servers() -> Generator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def table(servers: ExitStack, witness: Witness, name: str = "w1") -> WitnessTable:
    # With the slash that a submission prefix may end in.
    url = f"{servers.enter_context(serving(witness))}/"
    return WitnessTable(name=name, url=url, key=witness.vkey)


def strict(scene: Scene, root: Path, number: int = 1, kind: type[Witness] = Witness) -> Witness:
    made = kind(root / f"witness-{number}.json", f"witness.example/w{number}")
    made.knows(scene.vkey)
    return made


def test_heads_are_cosigned_by_each_witness_and_kept_with_what_they_signed(
    scene: Scene, servers: ExitStack, tmp_path: Path
) -> None:
    two = [strict(scene, tmp_path, number) for number in (1, 2)]
    scene.asks(*(table(servers, one, f"w{at}") for at, one in enumerate(two)), required=2)
    sizes = list[int]()
    for _ in range(3):
        scene.grow(40)
        assert scene.turn() == READY
        head = verified_head(scene.kept(), scene.vkey)
        sizes.append(head.size)
        for one in two:
            assert abs(cosigned_at(scene.kept(), one.vkey) - time.time()) < HOUR_S
            assert one.kept() == {"mnemogate": (head.size, head.root.hex())}
    first, second, third = sizes
    assert two[0].asked == [(0, first), (first, second), (second, third)]
    # An unchanged head is cosigned again, so that the time in it is young.
    assert scene.turn() == READY
    assert two[0].asked[-1] == (third, third)


def test_a_new_holder_goes_on_from_the_size_that_the_witness_has(
    scene: Scene, servers: ExitStack, tmp_path: Path
) -> None:
    witness = strict(scene, tmp_path)
    scene.asks(table(servers, witness))
    scene.grow()
    scene.turn()
    before = witness.asked[-1][1]
    scene.grow(20)
    scene.anew()
    assert scene.turn() == READY
    now = scene.store.audit.head().size
    assert witness.asked[1:] == [(0, now), (before, now)]
    assert head_of(scene.kept()).size == now


def _other_life(scene: Scene, root: Path, count: int) -> Scene:
    """The scene at the same log's earlier state, from which it had another life since."""
    earlier = Scene.__new__(Scene)
    earlier.__dict__.update(vars(scene))
    earlier.bench = Bench(root)
    earlier.store = earlier.bench.open()
    earlier.grow(count)
    earlier.anew()
    return earlier


@pytest.mark.parametrize(
    ("count", "status", "said"),
    [(40, 422, "rolled back or forked"), (1, 409, "it cosigned a longer log")],
    ids=["forked", "rolled back"],
)
@pytest.mark.parametrize("kind", [Witness, Trusting])
def test_a_log_that_was_forked_or_rolled_back_gets_no_cosignature_and_shows_it(
    scene: Scene,
    servers: ExitStack,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    kind: type[Witness],
    count: int,
    status: int,
    said: str,
) -> None:
    scene.grow()
    scene.store.close()
    shutil.copytree(scene.bench.state, tmp_path / "other" / "state")
    scene.store = scene.bench.open()
    witness = strict(scene, tmp_path, kind=kind)
    scene.asks(table(servers, witness))
    scene.grow(10)
    assert scene.turn() == READY
    before = witness.kept()
    other = _other_life(scene, tmp_path / "other", count)
    assert head_of(other.store.audit.head().note.encode()).size != scene.store.audit.head().size
    caplog.set_level(logging.INFO)
    (other.bench.state / "cursors" / f"{WITNESSED}.json").unlink(missing_ok=True)
    shown = other.turn()
    if kind is Trusting:
        assert shown == READY, "control: what does not check cosigns it"
        assert other.kept()
    else:
        assert shown.status == "degraded"
        assert said in str(shown.reason)
        assert str(shown.reason).startswith("no head of the log has 1 fresh cosignatures; [[wit")
        assert str(status) in str(shown.reason)
        assert not re.search(r"[0-9]{2,}", str(shown.reason).replace(str(status), "")), "no numbers"
        assert not other.kept()
        assert witness.kept() == before
        [state] = other.around.serving.upstreams
        assert state.cause in str(shown.reason)
        lines = [one for one in caplog.records if one.message == "an upstream does not serve"]
        assert len(lines) == 1
        # The same refusal in the next rounds is not a further line.
        other.turn()
        other.turn()
        assert caplog.text.count("an upstream does not serve") == 1
        assert "serves again" not in caplog.text
    other.bench.close()


class Bad(Witness):
    """A witness that gives one answer to everything, after so many seconds."""

    def __init__(self, witness: Witness, status: int, body: bytes, wait_s: float = 0) -> None:
        self._witness = witness
        self._bad = status, body, wait_s
        self.count = 0
        self.mended = False

    @property
    def vkey(self) -> str:
        return self._witness.vkey

    def cosign(self, body: bytes) -> bytes:
        self.count += 1
        if self.mended:
            return self._witness.cosign(body)
        status, answer, wait_s = self._bad
        time.sleep(wait_s)
        raise Answer(status, answer)


BAD = {
    "empty": (200, b""),
    "garbage": (200, b"<html>\xff\xfe</html>\n"),
    "10 MB": (200, b"\xe2\x80\x94 w x\n" * (10 * 1024 * 1024 // 8)),
    "10 MB of a refusal": (422, bytes(10 * 1024 * 1024)),
    "redirect": (302, b""),
    "failure": (500, b"down for maintenance"),
    "unknown log": (404, b""),
    "unknown key": (403, b""),
    "conflict without a size": (409, b"what?\n"),
    "conflict with a sign": (409, b"-1\n"),
    "conflict with a number without end": (409, b"9" * 5_000),
    "conflict for ever": (409, b"0\n"),
    "conflict with digits of another script": (409, "٣\n".encode()),
    "conflict with more than a size": (409, b"3\nmore\n"),
    "no credential": (401, b""),
    "too many": (429, b"later"),
    "slow": (200, b""),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_witness_is_named_and_delays_nothing_but_its_own_answer(
    scene: Scene,
    servers: ExitStack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    limits = msgspec.structs.replace(subject.LIMITS, head_seconds=1.0, body_seconds=5.0)
    monkeypatch.setattr(subject, "LIMITS", limits)
    good = strict(scene, tmp_path)
    bad = Bad(strict(scene, tmp_path, 2), *BAD[what], 5 if what == "slow" else 0)
    scene.asks(table(servers, bad, "bad"), table(servers, good, "good"))
    began = time.monotonic()
    shown = scene.turn()
    assert time.monotonic() - began < 20
    assert bad.count <= 2
    assert shown.status == "ready", "one of two is enough here"
    assert str(shown.reason).startswith("[[witness]] bad: ")
    assert "good" not in str(shown.reason)
    assert "maintenance" not in str(shown.reason)
    assert cosigned_at(scene.kept(), good.vkey)
    assert scene.kept().count(b"\n\xe2\x80\x94 ") == 2, "the log's line and that of one witness"
    scene.asks(table(servers, bad, "bad"))
    assert scene.turn().status == "degraded"
    assert say(scene.store, "a fact beside it").decision.value == "admit"


def test_a_conflict_without_an_end_is_one_line_of_the_log_and_no_recovery(
    scene: Scene, servers: ExitStack, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    witness = strict(scene, tmp_path)
    bad = Bad(witness, 409, b"0\n")
    scene.asks(table(servers, bad))
    caplog.set_level(logging.INFO)
    for _ in range(4):
        assert "409" in str(scene.turn().reason)
    assert bad.count == 8
    assert caplog.text.count("an upstream does not serve") == 1
    assert "serves again" not in caplog.text
    bad.mended = True
    assert scene.turn() == READY
    assert caplog.text.count("an upstream serves again") == 1, "control: it recovers"


def test_a_witness_that_is_down_is_named_and_counts_again_when_it_is_back(
    scene: Scene, tmp_path: Path
) -> None:
    witness = strict(scene, tmp_path)
    with serving(witness) as url:
        pass
    gone = WitnessTable(name="w1", url=url, key=witness.vkey)
    scene.asks(gone)
    assert "[[witness]] w1" in str(scene.turn().reason)
    with serving(witness) as url:
        scene.tables = (msgspec.structs.replace(gone, url=url),)
        scene.anew()
        assert scene.turn() == READY


def test_the_cosignature_of_another_key_does_not_count(
    scene: Scene, servers: ExitStack, tmp_path: Path
) -> None:
    witness, other = strict(scene, tmp_path), strict(scene, tmp_path, 2)
    other.name = witness.name
    url = servers.enter_context(serving(witness))
    scene.asks(WitnessTable(name="w1", url=url, key=other.vkey))
    shown = scene.turn()
    assert shown.status == "degraded"
    assert "does not count" in str(shown.reason)
    assert not scene.kept()
    scene.asks(WitnessTable(name="w1", url=url, key=witness.vkey))
    assert scene.turn() == READY, "control: its own key"


def test_as_many_witnesses_as_are_required_must_have_cosigned_within_the_hour(
    scene: Scene, servers: ExitStack, tmp_path: Path
) -> None:
    three = [strict(scene, tmp_path, number) for number in (1, 2, 3)]
    tables = [table(servers, one, f"w{at}") for at, one in enumerate(three, 1)]
    scene.asks(*tables, required=2)
    assert scene.client.shown(READY).status == "degraded", "before the first round"
    assert scene.turn() == READY
    three[0].logs.clear()
    scene.grow()
    shown = scene.turn()
    assert (shown.status, "[[witness]] w1" in str(shown.reason)) == ("ready", True)
    three[1].logs.clear()
    held = scene.kept()
    scene.grow()
    shown = scene.turn()
    assert shown.status == "ready", "the head of the last round is young"
    assert scene.kept() == held, "a head with fewer cosignatures is not kept"
    scene.clock.ahead_s = HOUR_S + 60
    assert scene.client.shown(READY).status == "degraded"
    reason = msgspec.structs.replace(READY, reason="no checkpoint copy")
    assert str(scene.client.shown(reason).reason).startswith("no checkpoint copy; no head")
    scene.clock.ahead_s = 0
    three[1].knows(scene.vkey)
    assert scene.turn().status == "ready"


def test_an_old_cosignature_sent_again_does_not_make_a_head_young(
    scene: Scene, servers: ExitStack, tmp_path: Path
) -> None:
    class Replaying(Witness):
        at_s: int | None = None

        def signed(self, text: str, at_s: int | None = None) -> bytes:
            return super().signed(text, self.at_s)

    witness = strict(scene, tmp_path, kind=Replaying)
    assert isinstance(witness, Replaying)
    scene.asks(table(servers, witness))
    witness.at_s = int(time.time()) - 2 * HOUR_S
    assert scene.turn().status == "degraded"
    witness.at_s = int(time.time()) + 1_000 * HOUR_S
    assert scene.turn().status == "ready"
    scene.clock.ahead_s = 2 * HOUR_S
    assert scene.client.shown(READY).status == "degraded", "a clock that is ahead gives no more"


def test_without_a_witness_nothing_is_shown(scene: Scene) -> None:
    assert scene.client.shown(READY) is not None
    assert scene.client.shown(READY) == READY


def test_nothing_is_sent_once_another_process_may_hold_the_store(
    scene: Scene, servers: ExitStack, tmp_path: Path
) -> None:
    witness = strict(scene, tmp_path)
    scene.asks(table(servers, witness))
    scene.around.serving.holds = lambda: False
    assert scene.turn().status == "degraded"
    assert witness.asked == []
    scene.around.serving.holds = lambda: True
    assert scene.turn() == READY


def test_after_a_takeover_the_new_holder_goes_on_and_so_do_the_tiles(
    tmp_path: Path, servers: ExitStack
) -> None:
    shard, out = Shard(tmp_path / "shard"), tmp_path / "out"
    witness = Witness(tmp_path / "witness.json")
    around = Environment(
        clock_ns=time.time_ns, random_hex=lambda count: "0" * count, record=lambda _event: None
    )
    sizes = list[int]()
    for name in ("a", "b"):
        journal = shard.journal()
        holder = shard.open(name, journal)
        say(holder, f"what {name} wrote")
        head = holder.audit.head()
        witness.knows(head.verifier_key)
        client = Witnesses((table(servers, witness),), 1, holder, around)
        asyncio.run(client.turn())
        assert client.shown(READY).status == "ready"
        holder.close()
        journal.release()
        files = EmbeddedFiles(tmp_path / "shard" / name / "state")
        files.export_tiles(out, entries=False, witnessed=True)
        assert check_public(out, head.verifier_key).size == head.size
        assert cosigned_at((out / "checkpoint").read_bytes(), witness.vkey)
        sizes.append(head.size)
    # The new holder learned from the witness where the old one had been.
    first, second = sizes
    assert witness.asked == [(0, first), (0, second), (first, second)]
