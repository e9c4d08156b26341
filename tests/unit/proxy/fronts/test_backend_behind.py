"""The connection to a memory server: what is forwarded, how many at once, what became of it."""

from __future__ import annotations

import json
import logging
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import quote

import msgspec
import pytest

from policy.model import ChangeKind
from proxy.backends.kept_request import kept_request
from proxy.backends.langgraph.langgraph import LangGraph
from proxy.backends.langgraph.store_items import ITEMS, known_key
from proxy.dialects.strict_json.strict import JsonValue
from proxy.fronts.backend_server_front import IN_FLIGHT_MAX, BackendServerFront, CredentialSpellings
from proxy.fronts.backend_writes import LATE_S, BackendPlaces, HttpSettling
from proxy.guard.key_owners import KeyOwners
from proxy.guard.local_guard import LocalGuard
from proxy.seams.faults import Busy, MalformedRequest, UpstreamError
from proxy.seams.guard import ForwardStatus, GuardedCall, Item, UnsettledItem
from proxy.seams.operation import HttpRequest
from proxy.transport.upstream import Upstream
from tests.integration.memory_servers.recorder import Recorder, recorder
from tests.unit.proxy.guard.test_keyed import hides, http, shown
from tests.unit.proxy.guarded import AGENT, GOOD, OTHER, SERVER, Clock, guarded
from tests.unit.proxy.tabled import tables_of

PUT = HttpRequest(
    method="PUT",
    path="/store/items",
    headers={"content-type": "application/json"},
    body=b'{"namespace": ["memories", "alice"], "key": "k", "value": {}}',
)


def keyless(place: str, texts: Iterable[str]) -> None:
    """Takes `agents-own` for a key of the sidecar."""
    if any("agents-own" in text for text in texts):
        raise MalformedRequest(place)


@asynccontextmanager
async def behind() -> AsyncGenerator[tuple[Recorder, BackendServerFront]]:
    async with recorder() as (server, url):
        table = {"name": "store", "adapter": "langgraph", "url": url}
        (settings,) = tables_of("backend", [table])
        ours = (("X-Api-Key", "ours"),)
        async with Upstream(url, headers=ours, way=settings) as upstream:
            yield server, BackendServerFront(settings, LangGraph(), upstream, check_sent_on=keyless)


async def test_no_other_header_goes_on() -> None:
    async with behind() as (server, one):
        agents = {"x-api-key": "theirs", "authorization": "Bearer theirs", "x-more": "theirs"}
        query = (("k", "ü&"),)
        path = "/store/a b/c"
        await one.ask(HttpRequest(method="GET", path=path, query=query, headers=agents))
        (seen,) = server.seen
        assert seen.headers["x-api-key"] == "ours"
        assert "theirs" not in repr(seen)
        assert seen.target == "/store/a%20b/c?k=%C3%BC%26"


@pytest.mark.parametrize(
    "body",
    [
        b'{"value": {"t": ["use agents-own"]}}',
        b'{"value": {"agents-own": 1}}',
        b'{"value": "\\u0061gents-own"}',
        rb'{"value": "{\"a\": \"\\u0061gents-own\"}"}',
        b"agents-own",
    ],
)
async def test_no_key_of_the_sidecar_is_in_what_goes_on(body: bytes) -> None:
    async with behind() as (server, one):
        with pytest.raises(MalformedRequest, match="body"):
            await one.ask(msgspec.structs.replace(PUT, body=body))
        assert server.seen == []
        assert (await one.ask(PUT)).status == 204


async def test_a_full_server_is_busy_and_gets_no_more() -> None:
    async with behind() as (server, one):
        room = one._in_flight  # pyright: ignore[reportPrivateUsage]
        for _ in range(IN_FLIGHT_MAX):
            await room.acquire()
        with pytest.raises(Busy):
            await one.ask(PUT)
        assert server.seen == []
        room.release()
        assert (await one.ask(PUT)).status == 204


async def test_the_version_is_asked_for_again_after_a_while() -> None:
    async with recorder() as (server, url):
        now_s = 0.0
        (settings,) = tables_of("backend", [{"name": "store", "adapter": "langgraph", "url": url}])
        async with Upstream(url) as upstream:
            one = BackendServerFront(
                settings, LangGraph(), upstream, lambda: now_s, check_sent_on=keyless
            )
            nobody = cast("KeyOwners", None)  # nobody is asked about a version of the table
            for _ in range(3):
                await one.check_version(nobody, AGENT)
            assert len(server.seen) == 1
            now_s = 31.0
            await one.check_version(nobody, AGENT)
            assert len(server.seen) == 2


async def test_a_server_that_says_no_version_is_not_one_that_waits_for_approval() -> None:
    async with behind() as (server, one):
        nobody = cast("KeyOwners", None)
        server.version = None
        with pytest.raises(MalformedRequest, match="does not say its version"):
            await one.check_version(nobody, AGENT)
        # Control: it is asked again at once, and says it.
        server.version = "0.16.7"
        await one.check_version(nobody, AGENT)


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, str]]]:
    """The events about the server that were logged, with their fields."""
    found = [one for one in caplog.records if one.name == "mnemogate.upstream"]
    return [(one.message, getattr(one, "fields", {})) for one in found]


async def test_what_a_server_fails_with_is_logged_once_and_not_told_the_agent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "mnemogate.upstream")
    url = "http://127.0.0.1:1"
    (settings,) = tables_of("backend", [{"name": "store", "adapter": "langgraph", "url": url}])
    async with Upstream(url, way=settings) as nowhere:
        one = BackendServerFront(settings, LangGraph(), nowhere, check_sent_on=keyless)
        for _ in range(2):
            # What the agent is told has the table and the cause's class, and no place.
            said = r"^\[\[backend\]\] store cannot be reached \(refused\)$"
            with pytest.raises(UpstreamError, match=said):
                await one.ask(PUT)
        ((event, fields),) = told(caplog)
        assert event == "an upstream does not serve"
        assert (fields["table"], fields["url"]) == ("[[backend]] store", url)
        assert "Connect call failed" in fields["why"]


async def test_a_server_that_takes_no_credential_is_told_apart_and_so_is_its_return(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "mnemogate.upstream")
    async with behind() as (server, one):
        # Control: of a server that serves, nothing is said.
        await one.ask(PUT)
        assert told(caplog) == []
        server.takes = "another"
        for _ in range(2):
            assert (await one.ask(PUT)).status == 401
        server.takes = None
        await one.ask(PUT)
        (refused, serves) = told(caplog)
        assert "headers_file" in refused[1]["why"]
        assert (serves[0], serves[1].get("why")) == ("an upstream serves again", None)


KEY = known_key(("memories", "alice"), "k1")


def anything(place: str, texts: Iterable[str]) -> None:
    """Lets everything go on."""
    del place, texts


class Lost(NamedTuple):
    """A write that was sent before a crash: an intent, of which no record says any more."""

    item: UnsettledItem
    settling: HttpSettling
    guard: LocalGuard
    keys: KeyOwners
    server: Recorder
    clock: Clock

    async def settle(self, state: ForwardStatus) -> None:
        await self.guard.settle(AGENT, SERVER, ((self.item.candidate_id, state),))


@asynccontextmanager
async def lost(root: Path) -> AsyncGenerator[Lost]:
    with guarded(root) as seen:
        before, _ = http(seen)
        body: JsonValue = {"namespace": ["memories", "alice"], "key": "k1", "value": {"text": GOOD}}
        kept = kept_request("PUT", ITEMS, body, texts=("value",), key=KEY)
        one = Item(change=ChangeKind.CREATE, arguments=kept.arguments, pieces=kept.pieces, key=KEY)
        await before.judge(AGENT, GuardedCall(server=SERVER, tool="put", items=(one,)))
        guard, keys = http(seen)
        (item,) = await guard.unsettled(AGENT, SERVER)
        clock = Clock()
        async with recorder() as (server, url):
            table = {"name": SERVER, "adapter": "langgraph", "url": url}
            (settings,) = tables_of("backend", [table])
            async with Upstream(url) as upstream:
                behind = BackendServerFront(
                    settings, LangGraph(), upstream, clock, check_sent_on=anything
                )
                places = BackendPlaces(behind, keys)
                settling = HttpSettling(behind, guard, places, keys, AGENT)
                yield Lost(item, settling, guard, keys, server, clock)


async def test_a_write_that_is_not_there_counts_as_failed_after_some_minutes_and_is_hidden(
    tmp_path: Path,
) -> None:
    async with lost(tmp_path) as one:
        assert await one.settling.look_up(one.item) is None
        one.clock.now_s += LATE_S - 1
        assert await one.settling.look_up(one.item) is None
        one.clock.now_s += 1
        state = await one.settling.look_up(one.item)
        assert state is ForwardStatus.FAILED
        await one.settle(state)
        for reader in (AGENT, OTHER):
            assert await hides(one.keys, reader, shown(KEY, GOOD))
        assert await one.keys.belongs_to_others(OTHER, SERVER, (shown(KEY),)) == (True,)
        # The tenant may write there again, as where nothing is.
        assert await one.keys.belongs_to(AGENT, SERVER, (shown(KEY),)) == (False,)


async def test_a_write_that_is_there_is_done_at_once(tmp_path: Path) -> None:
    async with lost(tmp_path) as one:
        assert await one.settling.look_up(one.item) is None
        one.server.put("k1", {"text": GOOD})
        assert await one.settling.look_up(one.item) is ForwardStatus.DONE


async def test_a_write_that_its_server_refused_leaves_the_key_free(tmp_path: Path) -> None:
    async with lost(tmp_path) as one:
        await one.settle(ForwardStatus.FAILED)
        assert not await hides(one.keys, OTHER, shown(KEY, GOOD))


PLAIN = 'a-long-"credential"/0123?~>'
PASSWORD = "the-password-of-the-sidecar"
BASIC = "Basic " + b64encode(f"gate:{PASSWORD}".encode()).decode()


def is_told(value: str, said: str) -> bool:
    return CredentialSpellings([value]).is_in(said.encode())


@pytest.mark.parametrize("value", [PLAIN, f"Bearer {PLAIN}"])
@pytest.mark.parametrize(
    "said",
    [
        f"you sent {PLAIN}, which is wrong",
        json.dumps({"sent": PLAIN}),
        json.dumps({"sent": PLAIN}).replace("/", r"\/"),
        "".join(f"\\u{ord(one):04x}" for one in PLAIN),
        "".join(f"\\u{ord(one):04X}" for one in PLAIN),
        quote(PLAIN),
        quote(PLAIN, safe="").lower(),
        "".join(f"%{ord(one):02x}" for one in PLAIN),
        *(b64encode(f"{'u' * n}{PLAIN}{'v' * n}".encode()).decode() for n in range(6)),
        *(urlsafe_b64encode(f"{'u' * n}:{PLAIN}".encode()).decode() for n in range(6)),
        quote(b64encode(f"Bearer {PLAIN}".encode()).decode(), safe=""),
    ],
)
def test_every_spelling_of_the_sidecars_credential_is_known(value: str, said: str) -> None:
    assert is_told(value, said)
    # Controls: another credential, and a header's value that is none.
    assert not is_told(f"{value}4", said)
    assert not is_told("application/json", said)


@pytest.mark.parametrize(
    "said", [BASIC, f"gate:{PASSWORD}", PASSWORD, quote(BASIC), BASIC.removeprefix("Basic ")]
)
def test_what_basic_authentication_sends_in_base64_is_known_without_it(said: str) -> None:
    assert is_told(BASIC, said)
    assert not is_told(BASIC.replace("Basic", "Bearer"), PASSWORD), "the control"


def test_what_is_no_base64_is_searched_for_as_it_is() -> None:
    assert is_told("Basic no-base64-at-all-but-long", "no-base64-at-all-but-long")
    assert not CredentialSpellings([]).is_in(b"anything")
