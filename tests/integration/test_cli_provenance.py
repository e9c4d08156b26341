"""Where a memory came from, through the real command line: what is known, and where it stops."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.integration.cli_process import Place
from tests.integration.models.server import scripted_model
from tests.integration.test_cli_sessions import PAGE, SAID, note_of_a_page, served


async def test_a_memory_is_followed_to_its_leaves_its_session_and_its_parents(
    tmp_path: Path,
) -> None:
    place = Place(root=tmp_path)
    async with scripted_model() as model, served(place, model) as sidecar:
        key = sidecar.agent_key()
        _, parent = await sidecar.post(key, "/v1/memories", {"text": "Ada collects old clocks."})
        _, gone = await sidecar.post(key, "/v1/memories", {"text": "Ada sold a clock."})
        await note_of_a_page(sidecar, key)
        listed = await sidecar.command("memory", "list")
        (noted,) = [one for one in listed["memories"] if PAGE in (one["text"] or "")]
        said = {"id": noted["memory_id"]}
        derived = {"text": "Trains it is.", "derived_from": [said["id"], parent["id"], gone["id"]]}
        _, child = await sidecar.post(key, "/v1/memories", derived)
        await sidecar.command("memory", "purge", gone["id"], "--yes")

        traced = await sidecar.command("provenance", "show", child["id"])
        nodes = {one["memory_id"]: one for one in traced["memories"]}
        assert traced["memories"][0]["memory_id"] == child["id"]
        assert set(nodes[child["id"]]["parents"]) == {said["id"], parent["id"], gone["id"]}
        # What is lost is named, and nothing behind it is told.
        assert (nodes[gone["id"]]["status"], nodes[gone["id"]]["steps"]) == ("lost", [])
        (step,) = nodes[said["id"]]["steps"]
        assert (step["basis"], step["trust"], step["known"]) == ("unproven", "trusted", True)
        assert "fetch" in {one["tool"] for one in step["segments"]}
        listed = await sidecar.command("session", "list")
        assert step["session"] in {one["session"] for one in listed["sessions"]}
        assert step["verdict"]["leaf_index"] > step["intercepted"]["leaf_index"]
        # A session that began later is in no step of what was there before it.
        (first,) = nodes[parent["id"]]["steps"]
        assert (first["session"], first["segments"]) == (None, [])

        dot = await asyncio.to_thread(
            place.command, "provenance", "show", child["id"], "--format", "dot"
        )
        assert dot.out.startswith("digraph provenance {")
        assert f'"{said["id"]}" -> "{child["id"]}" [label="derived"];' in dot.out
        assert "fetch" in dot.out
        told = await asyncio.to_thread(place.command, "provenance", "show", child["id"])
        assert f"{gone['id']} (lost)" in told.out
        for text in (PAGE, SAID):
            assert text not in told.out + dot.out
