"""Runs inside an environment that holds an unmodified `langgraph` and `langgraph-sdk`.

    python langgraph_drive.py EXAMPLES URL KEY ORDER

`MnemogateStore` against LangGraph's own `InMemoryStore`, and the client of LangGraph's server.
Prints what the client saw, and how many operations the two stores did alike.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, TypeAlias

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import PermissionDeniedError

EXAMPLES, URL, KEY, ORDER = sys.argv[1:]
sys.path.insert(0, EXAMPLES)
from mnemogate_langgraph import MemoryRefused, MnemogateStore  # noqa: E402

STORE = MnemogateStore(URL, KEY)
BELOW = ((), ("b",), ("b", "c"), ("bc",), ("x", "c"))
TAGS = ("red", "blue", "")
Op: TypeAlias = "PutOp | GetOp | SearchOp | ListNamespacesOp"
ALIKE = {"batches": 0, "operations": 0, "refused": 0}

numbers = st.integers(-2, 2)
tags = st.sampled_from(TAGS)
values = st.fixed_dictionaries(
    {"n": numbers},
    optional={
        "tag": tags,
        "more": st.fixed_dictionaries({"flag": st.booleans(), "tag": tags}),
        "list": st.lists(tags, max_size=2),
        "half": st.just(0.5),
        "none": st.none(),
    },
)
filters = st.one_of(
    st.none(),
    st.fixed_dictionaries({"n": numbers}, optional={"tag": tags}),
    st.fixed_dictionaries(
        {
            "n": st.dictionaries(
                st.sampled_from(("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")), numbers, min_size=1
            )
        }
    ),
    st.fixed_dictionaries({"tag": st.fixed_dictionaries({"$ne": tags})}),
    st.fixed_dictionaries({"more": st.fixed_dictionaries({"flag": st.booleans()})}),
    st.fixed_dictionaries({"missing": st.none()}),
)
keys = st.sampled_from(("k1", "k2"))
below = st.sampled_from(BELOW)


def put(place: tuple[str, ...], key: str, value: dict[str, Any] | None) -> PutOp:
    return PutOp(place, key, value)


def op_of(root: str) -> st.SearchStrategy[Op]:
    """An operation below one label, which keeps the runs of one store apart."""
    places = below.map(lambda labels: (root, *labels))
    words = st.lists(st.sampled_from(("b", "c", "*")), min_size=1, max_size=2).map(tuple)
    listing = st.builds(
        lambda suffix, depth: ListNamespacesOp(
            match_conditions=(
                MatchCondition(match_type="prefix", path=(root,)),
                *((MatchCondition(match_type="suffix", path=suffix),) if suffix else ()),
            ),
            max_depth=depth,
            limit=100,
            offset=0,
        ),
        st.one_of(st.none(), words),
        st.one_of(st.none(), st.integers(1, 3)),
    )
    return st.one_of(
        st.builds(put, places, keys, values),
        st.builds(put, places, keys, st.one_of(st.none(), st.just({"text": ORDER}))),
        st.tuples(places, keys).map(lambda given: GetOp(*given)),
        st.builds(lambda place, asked: SearchOp(place, asked, 100), places, filters),
        listing,
    )


def is_bad(op: Op) -> bool:
    return isinstance(op, PutOp) and op.value == {"text": ORDER}


def shown(result: Any) -> object:  # noqa: ANN401 - an item, a list of items or of labels
    """A result without times, scores and the order in which a search lists."""
    if isinstance(result, list):
        return sorted((shown(one) for one in result), key=repr)
    return (result.namespace, result.key, result.value) if hasattr(result, "value") else result


class Alike(RuleBasedStateMachine):
    runs = 0

    def __init__(self) -> None:
        super().__init__()
        self.model = InMemoryStore()
        Alike.runs += 1
        self.root = f"run{Alike.runs}"

    @rule(data=st.data(), on_a_thread=st.booleans())
    def batch(self, data: st.DataObject, *, on_a_thread: bool) -> None:
        ops = data.draw(st.lists(op_of(self.root), min_size=1, max_size=6))
        # LangGraph's store lists a namespace that was asked for once, though nothing is in it.
        ops.sort(key=lambda op: not isinstance(op, ListNamespacesOp))
        for namespace in [one for one, items in self.model._data.items() if not items]:
            del self.model._data[namespace]
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        bad = {place for place, op in puts.items() if is_bad(op)}
        reads = [op for op in ops if not isinstance(op, PutOp)]
        wanted = [shown(one) for one in self.model.batch(reads)]
        self.model.batch([op for place, op in puts.items() if place not in bad])
        refused = []
        try:
            results = asyncio.run(STORE.abatch(ops)) if on_a_thread else STORE.batch(ops)
        except MemoryRefused as error:
            results, refused = error.results, error.refused
        assert {(one.namespace, one.key) for one in refused} == bad, refused
        told = zip(ops, results, strict=True)
        assert [shown(one) for op, one in told if not isinstance(op, PutOp)] == wanted, ops
        ALIKE["batches"] += 1
        ALIKE["operations"] += len(ops)
        ALIKE["refused"] += len(refused)

    def teardown(self) -> None:
        everything = SearchOp((self.root,), None, 100)
        assert shown(STORE.batch([everything])) == shown(self.model.batch([everything]))


def client_saw() -> dict[str, Any]:
    store = get_sync_client(url=URL, api_key=KEY).store
    place = ["docs", "ann"]
    seen: dict[str, Any] = {}
    store.put_item(place, key="k1", value={"text": "likes tea", "n": 1}, index=False, ttl=60)
    store.put_item(place, key="k2", value={"text": "likes cake"})
    item = store.get_item(place, key="k1")
    seen["got"] = {**item, "created_at": "", "updated_at": ""}
    seen["missing"] = store.get_item(place, key="none")
    found = store.search_items(["docs"], filter={"n": 1}, query="tea", limit=5)
    seen["found"] = [(one["key"], one["score"] is not None) for one in found["items"]]
    seen["namespaces"] = store.list_namespaces(prefix=["docs"], max_depth=2)
    try:
        store.put_item(place, key="k3", value={"text": ORDER})
    except PermissionDeniedError as error:
        seen["refused"] = str(error)
    store.delete_item(place, key="k2")
    store.delete_item(place, key="k2")
    seen["left"] = [one["key"] for one in store.search_items(place)["items"]]
    return seen


seen = client_saw()
run_state_machine_as_test(
    Alike,
    settings=settings(
        max_examples=5,
        stateful_step_count=8,
        deadline=None,
        derandomize=True,
        database=None,
        # A run is a life of the sidecar's store: making a failure smaller would take minutes.
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    ),
)
sys.stdout.write(json.dumps({"client": seen, "alike": ALIKE}))
