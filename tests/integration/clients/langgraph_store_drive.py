"""Runs in the environment of `langgraph-sdk`: what a program does with the store, and what it sees.

Arguments: URL, key, a text that steers. The answers are printed as JSON, without times.
"""

from __future__ import annotations

import json
import sys

from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import PermissionDeniedError

URL, KEY = sys.argv[1:3]
ALICE = ("memories", "alice")
store = get_sync_client(url=URL, api_key=KEY).store
seen: list[object] = []


def note(value: object) -> None:
    seen.append(value)


def plain(item: dict[str, object] | None) -> object:
    return item and {name: item[name] for name in ("namespace", "key", "value")}


for number in range(12):
    store.put_item(ALICE, f"k{number}", {"text": f"Ada keeps {number} bees", "n": number, "f": 1.5})
note(plain(store.get_item(ALICE, "k3")))
note(store.get_item(ALICE, "nope"))
store.put_item(ALICE, "k3", {"text": "Ada keeps 33 bees", "n": 33}, index=False)
note(plain(store.get_item(ALICE, "k3")))
store.delete_item(ALICE, "k4")
store.delete_item(ALICE, "nope")
found = store.search_items(("memories",), filter={"n": 5}, limit=5)
note([plain(one) for one in found["items"]])
found = store.search_items(("memories",), limit=5, offset=2)
note([plain(one) for one in found["items"]])
note(store.list_namespaces(prefix=["memories"], max_depth=3))
try:
    store.put_item(ALICE, "bad", {"text": sys.argv[3]})
    note("stored")
except PermissionDeniedError as error:
    note(str(error))
note(plain(store.get_item(ALICE, "bad")))
sys.stdout.write(json.dumps(seen))
