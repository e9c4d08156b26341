"""An act on one key decodes no other key, whatever their number."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from policy.model import PrincipalId
from proxy.transport.auth import mint_key
from storage.features.registered import PutKey
from storage.tables.names import KEYS
from storage.values import KeyRecord
from tests.bound import bound
from tests.integration.running import Running, running

COUNT = 300
BY = PrincipalId("test")


async def test_an_act_on_one_key_decodes_no_stored_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[str] = []
    decode = KEYS.decoded

    def counting(data: bytes) -> KeyRecord:
        record = decode(data)
        decoded.append(record.key_id)
        return record

    async with running(tmp_path) as live:
        made = [mint_key(bound(f"p-{number}", "default"), number) for number in range(COUNT)]
        writer = live.sidecar.store.writer
        await asyncio.gather(*(writer.order(PutKey(one.record, BY)) for one in made))
        monkeypatch.setattr(KEYS, "decoded", counting)
        live.sidecar.keys_changed()
        assert (await live.call("GET", "/v1/whoami", made[0].plain))[0] == 200
        assert len(decoded) >= COUNT, "control: the count sees a reading of all keys"
        decoded.clear()

        added = await live.operate("POST", "/keys", {"name": "ada"})
        assert await _whoami(live, added["plain"]) == 200
        rotated = await live.operate("POST", f"/keys/{added['key']['key_id']}/rotate", {})
        assert await _whoami(live, added["plain"]) == 401
        later = await live.operate(
            "POST", f"/keys/{rotated['key']['key_id']}/rotate", {"grace_seconds": 600}
        )
        assert await _whoami(live, rotated["plain"]) == 200
        await live.operate("POST", f"/keys/{later['key']['key_id']}/revoke", {})
        assert await _whoami(live, later["plain"]) == 401
        await live.operate("POST", "/keys", {"name": "ada", "tenant": "other"}, status=409)
        await live.operate("POST", "/keys/nothing/revoke", {}, status=404)
        asked = {"principal": "ada", "text": "Tea is at four.", "to_class": "L2"}
        await live.operate("POST", "/tokens", {**asked, "source": "user_input"})
        assert (await live.operate("GET", f"/ids?kind=key&begins={made[7].record.key_id}"))["total"]
        listed = (await live.operate("GET", "/keys"))["keys"]
        assert decoded == []

        # The book and the store agree, in the store's order.
        stored = live.sidecar.store.reader.keys()
        assert [one["key_id"] for one in listed] == [one.key_id for one in stored]
        ends = {one["key_id"]: one["revoked_at_ms"] for one in listed}
        assert ends == {one.key_id: one.revoked_at_ms for one in stored}


async def _whoami(live: Running, key: str) -> int:
    return (await live.call("GET", "/v1/whoami", key))[0]
