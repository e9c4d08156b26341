"""What every MCP client is made to do with a server, as data that a driver of any language reads.

A step is `[kind, name, arguments]`. With a server that calls back, the driver says yes to what a
person is asked, and answers sampling with one fixed sentence.
"""

from __future__ import annotations

from typing import Any, Final

Step = tuple[str, str, dict[str, Any]]

ALICE: Final = {"name": "Alice", "entityType": "person", "observations": ["likes tea — très"]}
LIVES: Final = {"from": "Alice", "to": "Lisbon", "relationType": "lives in"}

SERVER_MEMORY: Final[tuple[Step, ...]] = (
    ("tools", "", {}),
    ("call", "create_entities", {"entities": [ALICE]}),
    (
        "call",
        "add_observations",
        {
            "observations": [
                {"entityName": "Alice", "contents": ["lives in Lisbon", "has two cats"]}
            ]
        },
    ),
    ("call", "create_relations", {"relations": [LIVES]}),
    ("call", "read_graph", {}),
    ("call", "search_nodes", {"query": "tea"}),
    ("call", "open_nodes", {"names": ["Alice"]}),
    # What the server refuses by itself is shown as it said it.
    (
        "call",
        "add_observations",
        {"observations": [{"entityName": "Nobody", "contents": ["is nowhere"]}]},
    ),
    ("resources", "", {}),
    ("resource", "memory://knowledge-graph", {}),
    (
        "call",
        "delete_observations",
        {"deletions": [{"entityName": "Alice", "observations": ["has two cats"]}]},
    ),
    ("call", "delete_relations", {"relations": [LIVES]}),
    ("call", "delete_entities", {"entityNames": ["Alice"]}),
    ("call", "read_graph", {}),
)

NOTES: Final[tuple[Step, ...]] = (
    ("tools", "", {}),
    ("prompts", "", {}),
    ("resources", "", {}),
    ("call", "write_note", {"title": "tea", "text": "Alice likes tea."}),
    ("call", "find_notes", {"word": "tea"}),
    ("resource", "notes://all", {}),
    ("prompt", "recall_prompt", {"word": "tea"}),
    ("call", "summarise_notes", {}),
    ("call", "ask_person", {}),
    ("call", "find_notes", {"word": "tea"}),
)
