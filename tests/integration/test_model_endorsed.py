"""Claude Code, with its own reminders and a recall in context, keeps what its person stated.

The recall comes back from a server that nobody vouches for, so the session's taint is unknown and a
preference (L2) would wait for a person. What she said herself in this session is hers all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.integration.hosts.agents import CLAUDE_CODE, Told, served
from tests.integration.hosts.fronted import Fronted, fronted
from tests.integration.hosts.guarded import command_table
from tests.integration.hosts.messages_model import MessagesModel
from tests.integration.hosts.scene import Scene, entity
from tests.integration.running import OPERATOR_KEY

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]

SISTER: Final = "My sister is called Marta."
STATED: Final = "I prefer green tea over coffee."
# Not her words: the model made a preference of it, or turned it round.
OTHERS: Final = ("I prefer coffee over green tea.", "I prefer green tea over coffee and Acme cups.")


async def writes(at: Fronted) -> dict[str, Any]:
    """What the session ledger says of the newest session, and its one write."""
    live = at.sidecar
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    url = f"{live.admin_url}/api/v1/sessions"
    async with live.client.get(url, headers=headers) as answer:
        newest = (await answer.json())["sessions"][0]["session"]
    async with live.client.get(f"{url}/{newest}", headers=headers) as answer:
        return dict(await answer.json())


@pytest.mark.parametrize("said", [STATED, *OTHERS])
async def test_a_stated_preference_is_kept_and_what_she_did_not_say_waits(
    said: str, tmp_path: Path
) -> None:
    scene = Scene(tmp_path, "nothing")
    told: Told = {
        SISTER: [("memory/create_entities", entity("user", "person", SISTER))],
        STATED: [
            ("memory/read_graph", {}),
            ("memory/create_entities", entity("me", "preference", said)),
        ],
    }
    tables = {"memory": command_table(scene.memory_words())}
    async with fronted(tmp_path / "ours", MessagesModel(told), mcp=tables) as at:
        servers = served(at, ("memory",))
        await CLAUDE_CODE.run(at, scene, servers, f"Please remember: {SISTER}")
        await CLAUDE_CODE.run(at, scene, servers, f"Please remember that {STATED}")
        session = await writes(at)
    (write,) = session["writes"]
    assert (write["memory_class"], write["joined"]) == ("L2", "call")
    kept = [text for one in scene.remembered() for text in one["observations"]]
    if said == STATED:
        assert (write["decision"], write["source"], write["basis"]) == (
            *("admit", "user_input"),
            "endorsement",
        )
        assert kept == [SISTER, STATED]
    else:
        assert (write["decision"], write["reason"]) == ("hold", "source_class_forbidden")
        assert (write["source"], write["endorsed"]) == ("unknown", False)
        assert kept == [SISTER]
    # Its reminders are the program's, the recall is nobody's, and only her own words are hers.
    labels = {(one["channel"], one["label"]) for one in session["segments"]}
    assert {("host", "agent_self_edit"), ("system", "agent_self_edit")} <= labels
    assert ("tool", "unknown") in labels
    hers = [one["characters"] for one in session["segments"] if one["label"] == "user_input"]
    assert hers == [len(f"Please remember that {STATED}")]
