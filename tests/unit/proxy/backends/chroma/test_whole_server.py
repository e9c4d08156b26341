"""A walk over all that a Chroma server has for a tenant, and whether a record is the one sent."""

from __future__ import annotations

import msgspec
import pytest

from policy.model import ForwardStatus, Tenant
from proxy.backends.chroma.chroma import IDS_AT_ONCE, PAGE_LEN
from proxy.seams.faults import MalformedRequest
from proxy.seams.http_backend import ListPart, WalkedPage
from proxy.seams.operation import HttpReply, HttpRequest
from tests.unit.proxy.backends.chroma.sample import (
    ADAPTER,
    COLLECTIONS,
    UUID,
    Json,
    adding,
    answer,
    body_of,
    standing,
    to,
    unsettled,
)

DATABASES = "/api/v2/tenants/default_tenant/databases"
GET = to("get", {"ids": ["r1"], "include": []})


def first() -> HttpRequest:
    return ADAPTER.listing(Tenant("default"))


def part_of(request: HttpRequest, reply: HttpReply) -> ListPart:
    part = ADAPTER.listed(request, reply).part
    assert part is not None
    return part


def below(request: HttpRequest, reply: HttpReply) -> tuple[HttpRequest, ...]:
    """The reads of all that a page of names has."""
    part = part_of(request, reply)
    assert part.below is not None
    return part.below(part.names)


def test_a_walk_goes_from_databases_over_collections_to_pages_of_records() -> None:
    assert first().path == DATABASES
    named = [{"id": "1", "name": "default_database", "tenant": "default_tenant"}]
    (collections,) = below(first(), answer(named))
    assert collections.path == COLLECTIONS
    (ids,) = below(collections, answer([{"id": UUID, "name": "notes"}]))
    assert ids.path == f"{COLLECTIONS}/{UUID}/get"
    assert body_of(ids) == {"limit": IDS_AT_ONCE, "offset": 0, "include": []}
    names = [f"r{number}" for number in range(PAGE_LEN + 1)]
    reads = below(ids, answer({"ids": names}))
    assert [body_of(one)["ids"] for one in reads] == [names[:PAGE_LEN], names[PAGE_LEN:]]
    listed = ADAPTER.listed(reads[1], standing(**{names[-1]: {"document": "tea"}}))
    assert [one.key for one in listed.memories] == [f"{UUID}/{names[-1]}"]
    assert listed.part is None


def test_lists_are_read_in_pages() -> None:
    databases = answer([{"id": str(at), "name": f"d{at}"} for at in range(PAGE_LEN)])
    part = part_of(first(), databases)
    assert (part.is_full, len(below(first(), databases))) == (True, PAGE_LEN)
    assert dict(part.begin(199).query)["offset"] == "199"
    (ids,) = below(HttpRequest(method="GET", path=COLLECTIONS), answer([{"id": UUID, "name": "n"}]))
    assert body_of(part_of(ids, answer({"ids": ["r1"]})).begin(7))["offset"] == 7
    for count, full in ((IDS_AT_ONCE, True), (IDS_AT_ONCE - 1, False)):
        page = answer({"ids": [f"r{at}" for at in range(count)]})
        assert part_of(ids, page).is_full is full


def test_a_tenant_that_the_server_does_not_have_has_nothing_and_another_404_is_a_failure() -> None:
    nobody = answer({"error": "NotFoundError", "message": "Tenant not found"}, 404)
    assert ADAPTER.listed(first(), nobody) == WalkedPage()
    for reply in (answer({"detail": "Not Found"}, 404), HttpReply(status=404), answer({}, 500)):
        with pytest.raises(MalformedRequest):
            ADAPTER.listed(first(), reply)


@pytest.mark.parametrize("name", ["..", "a/b", "a?b", "a%2fb", "", "a b"])
def test_a_name_that_would_be_another_path_ends_the_walk(name: str) -> None:
    with pytest.raises(MalformedRequest):
        ADAPTER.listed(first(), answer([{"id": "1", "name": name}]))


def test_a_record_that_no_write_through_the_gate_could_have_made_is_listed_all_the_same() -> None:
    listed = ADAPTER.listed(GET, standing(long={"document": "much " * 20_000}, good={}))
    assert [(one.key, one.item is None) for one in listed.memories] == [
        (f"{UUID}/long", True),
        (f"{UUID}/good", False),
    ]


def says_same(sent: Json, before: HttpReply, after: Json, *, route: str = "upsert") -> bool:
    """Whether the record that stands there afterwards is the one that was judged."""
    (sending,) = ADAPTER.items(to(route, sent), before)
    (found,) = ADAPTER.listed(GET, standing(r1=after)).memories
    assert found.item is not None
    return ADAPTER.says_same(unsettled(sending), found.item)


def test_a_record_is_the_same_with_all_that_was_sent_and_no_other_text() -> None:
    new = adding("r1", documents=["tea"], metadatas=[{"who": "ada", "n": 3}])
    nothing = standing()
    assert says_same(new, nothing, {"document": "tea", "metadata": {"n": 3, "who": "ada"}})
    for other in (
        {"document": "coffee", "metadata": {"n": 3, "who": "ada"}},
        {"document": "tea", "metadata": {"n": 4, "who": "ada"}},
        {"document": "tea", "metadata": {"n": 3}},
        {"document": "tea", "metadata": {"n": 3, "who": "ada", "and": "obey"}},
        {"document": "tea", "metadata": {"n": 3, "who": "ada"}, "uri": "obey"},
    ):
        assert not says_same(new, nothing, other), other


def test_a_number_that_the_server_rounded_is_the_one_that_was_sent() -> None:
    for sent, told in ((2**64 - 1, 1.8446744073709552e19), (2**63, 2.0**63), (10**18 + 1, 10**18)):
        new = adding("r1", documents=["tea"], metadatas=[{"at": sent}])
        assert says_same(new, standing(), {"document": "tea", "metadata": {"at": told}})
        (sending,) = ADAPTER.items(to("upsert", new), standing())
        there = standing(r1={"document": "tea", "metadata": {"at": told}})
        outcome = ADAPTER.told(unsettled(sending), there)
        assert outcome is not None
        assert outcome.state is ForwardStatus.DONE
        # The control: another number is another record.
        other = {"document": "tea", "metadata": {"at": told * 0.999}}
        assert not says_same(new, standing(), other)


def test_a_vector_beyond_float32_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="out of range"):
        ADAPTER.items(to("add", adding("r1") | {"embeddings": [[1e300]]}), standing())


def test_what_a_merge_left_standing_was_judged_and_is_the_same() -> None:
    before = standing(r1={"document": "tea", "metadata": {"who": "ada", "where": "hall"}})
    change: Json = {"ids": ["r1"], "documents": ["coffee"], "metadatas": [{"who": None}]}
    merged = {"document": "coffee", "metadata": {"where": "hall"}}
    assert says_same(change, before, merged, route="update")
    gone = {"document": "coffee", "metadata": {"n": 1}}
    assert not says_same(change, before, gone, route="update")


def test_the_attempts_of_doctor_are_a_read_and_a_write_that_changes_nothing() -> None:
    _, read, write = ADAPTER.attempts()
    assert (read.method, write.method) == ("GET", "POST")
    assert msgspec.json.decode(write.body) == {}
