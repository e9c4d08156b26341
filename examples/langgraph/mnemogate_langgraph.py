"""A LangGraph store whose every put is judged by Mnemogate before it is stored.

The process that uses it has the agent's key and nothing else: no connection to a database, and no
credential of one. It needs `langgraph` (which brings `httpx`), and is one file on purpose.

    store = MnemogateStore("http://127.0.0.1:7077", os.environ["MNEMOGATE_AGENT_KEY"])
    graph = builder.compile(store=store)
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import httpx
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langgraph.store.base import Op, Result, TTLConfig

_LOG = logging.getLogger(__name__)
# Answers that say why one item was not stored. Any other error concerns the whole connection.
_OF_ONE_ITEM = frozenset({400, 403, 413, 422, 429})


@dataclass(frozen=True)
class Refused:
    """One put or deletion that was not done.

    `observation` says why, for the agent: it has a reason and what to do next, and no content.
    """

    namespace: tuple[str, ...]
    key: str
    observation: str
    reason: str | None
    held: bool


class MemoryRefused(Exception):  # noqa: N818 - a refusal is an answer, not a fault
    """Some puts or deletions of a batch were not done; all others of the batch were.

    `results` are the results of the batch, in the order of its operations.
    """

    def __init__(self, refused: list[Refused], results: list[Result]) -> None:
        super().__init__("\n".join(dict.fromkeys(one.observation for one in refused)))
        self.refused = refused
        self.results = results


class MnemogateStore(BaseStore):
    """LangGraph's store over `/store` of a Mnemogate sidecar. May be used by several threads.

    Reads of a batch see the store as it was before the batch, and of several puts of one key the
    last one counts, as in LangGraph's own stores. A read does not extend the life of an item.
    """

    supports_ttl = True

    def __init__(
        self,
        url: str,
        key: str,
        *,
        on_refused: Literal["raise", "observe"] = "raise",
        ttl: TTLConfig | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        """`key` is the agent's key. `ttl["default_ttl"]` is in minutes.

        `on_refused="observe"` logs an observation where "raise" raises `MemoryRefused`.
        """
        self.ttl_config = ttl
        self._raises = on_refused == "raise"
        # The environment may name a proxy, which would see the key.
        self._client = httpx.Client(
            base_url=url, headers={"x-api-key": key}, timeout=timeout_s, trust_env=False
        )

    def close(self) -> None:
        """Close the connections; the store cannot be used any more."""
        self._client.close()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of all operations, in order; None for a put.

        Raises:
            MemoryRefused: Some puts were not done, after everything else was.
            httpx.HTTPError: The sidecar could not be reached, or could not decide.
            ValueError: A search or a listing asks for what the sidecar does not have.
        """
        given = list(ops)
        results: list[Result] = [None] * len(given)
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for at, op in enumerate(given):
            if isinstance(op, PutOp):
                puts[op.namespace, op.key] = op
            else:
                results[at] = self._read(op)
        refused = [one for op in puts.values() if (one := self._put(op)) is not None]
        if refused and self._raises:
            raise MemoryRefused(refused, results)
        for one in refused:
            _LOG.warning("%s", one.observation)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same, on a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: GetOp | SearchOp | ListNamespacesOp) -> Result:
        if isinstance(op, GetOp):
            query = {"namespace": ".".join(op.namespace), "key": op.key}
            found = self._told(self._client.get("/store/items", params=query))
            return None if found is None else Item(**_dated(found))
        if isinstance(op, SearchOp):
            body = {
                "namespace_prefix": list(op.namespace_prefix),
                "filter": op.filter,
                "limit": op.limit,
                "offset": op.offset,
                "query": op.query,
            }
            told = self._told(self._client.post("/store/items/search", json=body))
            return [SearchItem(**_dated(item)) for item in told["items"]]
        body = {"max_depth": op.max_depth, "limit": op.limit, "offset": op.offset}
        for one in op.match_conditions or ():
            if one.match_type in body:
                raise ValueError(f"two conditions on the {one.match_type} of a namespace")
            body[one.match_type] = list(one.path)
        told = self._told(self._client.post("/store/namespaces", json=body))
        return [tuple(labels) for labels in told["namespaces"]]

    def _told(self, answer: httpx.Response) -> Any:  # noqa: ANN401 - an object, or null
        if answer.status_code in _OF_ONE_ITEM:
            raise ValueError(answer.json()["detail"])
        answer.raise_for_status()
        return answer.json()

    def _put(self, op: PutOp) -> Refused | None:
        body: dict[str, Any] = {"namespace": list(op.namespace), "key": op.key}
        if op.value is not None:
            body |= {"value": op.value, "index": op.index, "ttl": op.ttl}
        method = "DELETE" if op.value is None else "PUT"
        answer = self._client.request(method, "/store/items", json=body)
        if answer.status_code not in _OF_ONE_ITEM:
            answer.raise_for_status()
            return None
        told = answer.json()
        return Refused(
            namespace=op.namespace,
            key=op.key,
            observation=told["detail"],
            reason=told.get("reason"),
            held=told.get("decision") == "hold",
        )


def _dated(item: dict[str, Any]) -> dict[str, Any]:
    times = {name: datetime.fromisoformat(item[name]) for name in ("created_at", "updated_at")}
    # The labels beside the value have no place in LangGraph's `Item`.
    plain = {name: one for name, one in item.items() if not name.startswith("source_")}
    return {**plain, **times, "namespace": tuple(item["namespace"])}
