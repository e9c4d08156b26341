"""Agmi's nine edits of a store's file, T1 to T9, against a real sidecar that is started anew.

    python -P -m tests.boards.agmi.at_rest read|audit|off

Runs with agmi on the path. The editor can write every file of the store but has not read
`secrets/store.key`, corrects what the header counts, and cannot reach the copy of the checkpoint.
`read` asks the start and the reads: it notices what the start refuses, and what an answer leaves
out while `/readyz` names it. `audit` asks `mnemogate audit verify`. `off` is the control: as
`read`, without the comparison of digests and without the copy.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import lmdb
import msgspec
from agmi.adapters.base import MemoryAdapter, Record
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT

from policy.model import MemoryId, SourceKind
from storage.ground.errors import StorageError
from storage.tables.codec import Digests, encode, ordinal_key
from storage.tables.names import IDS, ROWS, TABLES, VECTORS
from storage.values import Row
from tests.fault.editing import Editor, payload_alone, without_key
from tests.integration.cli_process import Place
from tests.integration.running import AGENT_KEY, Running, running

WAYS: Final = ("read", "audit", "off")
VICTIM: Final = "victim"
OTHER: Final = "other"


class SidecarAtRest(MemoryAdapter):
    """Agmi's interface to a memory at rest, over the files of a sidecar that is not running."""

    name = "mnemogate"
    supports_replay = supports_metadata = supports_snapshot = True

    def __init__(self, way: str) -> None:
        self._way = way
        self._said = 0
        self.verify_detail: str | None = None

    def setup(self) -> None:
        self._base = Path(tempfile.mkdtemp(prefix="mnemogate-board-"))
        self._place = Place(root=self._base)
        self._place.checkpoint.parent.mkdir()

    def teardown(self) -> None:
        shutil.rmtree(self._base)

    # ---- the sidecar's own API -------------------------------------------------------------------

    @asynccontextmanager
    async def _started(self) -> AsyncGenerator[Running]:
        flags = {"checkpoint": str(self._place.checkpoint)}
        async with running(self._base, flags=flags) as sidecar:
            yield sidecar

    async def _write(self, user_id: str, count: int) -> None:
        async with self._started() as sidecar:
            for _ in range(count):
                self._said += 1
                text = f"Note {self._said} of {user_id} is about a topic."
                status, answer = await sidecar.write(AGENT_KEY, {"text": text, "user_id": user_id})
                if status != 201:
                    raise RuntimeError(f"a note was answered {status}: {answer}")

    def seed(self, n: int) -> None:
        asyncio.run(self._write(VICTIM, n))

    def seed_other(self, n: int) -> None:
        asyncio.run(self._write(OTHER, n))

    def append_genuine(self) -> None:
        asyncio.run(self._write(VICTIM, 1))

    def reload(self) -> None:
        """Do nothing: `verify` starts what it asks anew."""

    def verify(self) -> bool:
        if self._way == "audit":
            done = self._place.command("audit", "verify")
            self.verify_detail = " ".join((done.err or done.out).split())[:160]
            return done.code == 0
        return asyncio.run(self._served())

    async def _served(self) -> bool:
        """Whether the sidecar starts, lists and searches, and reports no value that was altered."""
        asked = {"query": "a topic", "filters": {"user_id": VICTIM}}
        try:
            async with self._started() as sidecar:
                listed, _ = await sidecar.call("GET", "/v1/memories?limit=1000", AGENT_KEY)
                found, _ = await sidecar.call("POST", "/v1/search", AGENT_KEY, asked)
                async with sidecar.client.get(f"{sidecar.admin_url}/readyz") as answer:
                    told: dict[str, Any] = await answer.json()
        except StorageError as error:
            self.verify_detail = str(error)[:160]
            return False
        if (listed, found) != (200, 200):
            raise RuntimeError(f"a list and a search were answered {listed} and {found}")
        self.verify_detail = str(told.get("reason"))[:160]
        return not told.get("mismatched")

    # ---- the files -------------------------------------------------------------------------------

    @contextmanager
    def _editing(self) -> Generator[Editor]:
        env = lmdb.open(str(self._place.state / "store"), max_dbs=len(TABLES), map_size=1 << 28)
        try:
            tables = {name: env.open_db(name) for name in TABLES}
            with env.begin(write=True) as transaction:
                yield Editor(transaction, tables)
        finally:
            env.close()

    def _records(self, user_id: str) -> list[Record]:
        with self._editing() as editor:
            ordinals = [int.from_bytes(key, "big") for key in editor.keys(ROWS)]
            rows = [(ordinal, editor.row(ordinal)) for ordinal in ordinals]
        mine = [(ordinal, row) for ordinal, row in rows if row.scope.user_id == user_id]
        return [
            Record(seq=at, fields={"ordinal": ordinal, "row": row})
            for at, (ordinal, row) in enumerate(mine)
        ]

    def read_all_raw(self) -> list[Record]:
        return self._records(VICTIM)

    def read_other_raw(self) -> list[Record]:
        return self._records(OTHER)

    def write_raw(self, record: Record) -> None:
        slots = self.read_all_raw()
        if record.seq < len(slots):
            self.replay_onto(record.seq, record)
            return
        row: Row = record.fields["row"]
        ordinal = record.fields["ordinal"]
        with self._editing() as editor:
            editor.put_row(ordinal, row)
            editor.put(IDS, b"f" * 16, encode((ordinal, "live")))
            vector = editor.payload(VECTORS, ordinal_key(ordinal - 1))
            editor.put(VECTORS, ordinal_key(ordinal), vector)
            editor.correct_header()

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        """Put a record's content into a slot that keeps its id, owner and version."""
        slot = self.read_all_raw()[victim_seq].fields
        content: Row = donor.fields["row"]
        row = msgspec.structs.replace(slot["row"], canonical=content.canonical, salt=content.salt)
        with self._editing() as editor:
            editor.put_row(slot["ordinal"], row)

    def delete_raw(self, seq: int) -> None:
        ordinal = self.read_all_raw()[seq].fields["ordinal"]
        with self._editing() as editor:
            editor.delete(VECTORS, ordinal_key(ordinal))
            editor.delete(IDS, editor.id_of(ordinal))
            editor.delete(ROWS, ordinal_key(ordinal))
            editor.correct_header()

    def mutate_payload(self, record: Record) -> Record:
        row: Row = record.fields["row"]
        canonical = row.canonical.replace(b"is about a topic", b"names account 7")
        altered = msgspec.structs.replace(row, canonical=canonical)
        return Record(seq=record.seq, fields={**record.fields, "row": altered})

    def forge_record(self, template: Record) -> Record:
        ordinal = template.fields["ordinal"] + 1
        row = msgspec.structs.replace(
            template.fields["row"], memory_id=MemoryId("forged"), version=ordinal + 1
        )
        record = Record(seq=template.seq + 1, fields={"ordinal": ordinal, "row": row})
        return self.mutate_payload(record)

    def read_meta(self, seq: int) -> dict[str, Any]:
        row: Row = self.read_all_raw()[seq].fields["row"]
        return {"source": row.source, "at_ms": row.at_ms}

    def write_meta(self, seq: int, _meta: dict[str, Any]) -> None:
        """Raise the label to a person's, whatever mark agmi asks for."""
        slot = self.read_all_raw()[seq].fields
        row = msgspec.structs.replace(slot["row"], source=SourceKind.USER_INPUT)
        with self._editing() as editor:
            editor.put_row(slot["ordinal"], row)

    def identity_of(self, record: Record) -> str:
        return str(record.fields["row"].memory_id)

    def payload_of(self, record: Record) -> str:
        canonical: bytes = record.fields["row"].canonical
        return canonical.decode()

    def owner_of(self, record: Record) -> str | None:
        owner: str | None = record.fields["row"].scope.user_id
        return owner

    def snapshot_store(self) -> str:
        return str(self._copy_store(self._place.state))

    def restore_store(self, token: str) -> None:
        self._restore_store(token, self._place.state)
        shutil.rmtree(Path(token).parent)
        if self._way == "off":
            self._place.checkpoint.unlink()


def main() -> None:
    """Print agmi's verdicts as JSON: the status and its detail, T1 to T9."""
    (way,) = sys.argv[1:]
    if way not in WAYS:
        raise SystemExit(f"no such way: {way}; one of {', '.join(WAYS)}")
    if way == "off":
        setattr(Digests, "unframe", payload_alone)  # noqa: B010 - as a test's monkeypatch does
        setattr(Digests, "of", without_key)  # noqa: B010
    adapter = SidecarAtRest(way)
    found = [attack().run(adapter) for attack in AT_REST_ATTACKS_WITH_SNAPSHOT]
    cells = [
        {"attack": one.attack, "status": one.status, "detail": one.guard or one.error or one.detail}
        for one in found
    ]
    sys.stdout.write(f"\n{json.dumps(cells)}\n")


if __name__ == "__main__":
    main()
