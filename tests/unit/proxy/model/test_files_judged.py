"""An agent's own file tools on files of memory, over a real store and ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import pytest

from policy.model import Channel
from proxy.dialects.strict_json.tolerant import Json
from tests.unit.proxy.editing import PAGE, desk
from tests.unit.proxy.guarded import AGENT, BY
from tests.unit.proxy.ledgers import user
from tests.unit.proxy.model.editor import (
    FILE,
    INDEX,
    LINE,
    NOTE,
    NOTES,
    ORDER,
    PLACES,
    RULES,
    Editor,
    editor,
    is_held,
)


@pytest.mark.parametrize("path", PLACES)
async def test_an_unproven_note_waits_in_every_place_of_instructions(
    tmp_path: Path, path: str
) -> None:
    async with editor(tmp_path) as at:
        assert is_held(await at.writes(f"- {NOTE}\n", path), "instruction_place")
        await at.reads(RULES, path)
        assert is_held(await at.edits(LINE, f"{LINE}\n- {NOTE}", path), "instruction_place")
        assert is_held(await at.edits(LINE, "", path))
        # Controls: the same note is no matter anywhere else, and lands among notes.
        assert await at.writes(f"- {NOTE}\n", "/srv/shop/README.md") is None
        assert await at.writes(f"- {NOTE}\n", NOTES) is None


async def test_what_a_person_let_in_is_written_into_instructions_once(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        agent = Editor(at, AGENT, ())
        await agent.reads(RULES)
        assert is_held(await agent.edits(LINE, f"{LINE}\n- {NOTE}"), "instruction_place")
        (held,) = at.parts.store.reader.held()
        await at.parts.store.writer.release(held.candidate_id, BY)
        assert await agent.edits(LINE, f"{LINE}\n- {NOTE}") is None
        # The act was for this line alone.
        await agent.reads(RULES)
        assert is_held(await agent.edits(LINE, f"{LINE}\n- The tea is green."))


async def test_an_operators_key_writes_into_instructions(tmp_path: Path) -> None:
    async with editor(tmp_path, by=msgspec.structs.replace(AGENT, channel=Channel.OPERATOR)) as at:
        for path in PLACES:
            await at.reads(RULES, path)
            assert await at.edits(LINE, f"{LINE}\n- {NOTE}", path) is None


BLOCKS: Final = (
    ("letta-agent", "core_memory_append", {"label": "{}", "content": NOTE}, "persona", "human"),
    (
        "letta-agent",
        "memory",
        {"command": "create", "path": "/memories/{}", "file_text": NOTE},
        "persona",
        "human",
    ),
    (
        "anthropic-memory",
        "memory",
        {"command": "create", "path": "/memories/{}", "file_text": NOTE},
        "SOUL.md",
        "tea.md",
    ),
    (
        "hermes",
        "memory",
        {"action": "add", "target": "{}", "content": NOTE},
        None,
        "user",
    ),
)


@pytest.mark.parametrize(("tool_map", "tool", "arguments", "rules", "notes"), BLOCKS)
async def test_a_note_waits_in_a_block_of_instructions_and_lands_in_one_of_facts(
    tmp_path: Path,
    tool_map: str,
    tool: str,
    arguments: dict[str, str],
    rules: str | None,
    notes: str,
) -> None:
    def into(name: str) -> dict[str, Json]:
        return {key: value.replace("{}", name) for key, value in arguments.items()}

    async with desk(tmp_path) as at:
        agent = at.agent(tool_map)
        await agent.reads(PAGE)
        if rules is not None:
            assert not await agent.calls(tool, into(rules))
            assert is_held(agent.last, "instruction_place")
        assert await agent.calls(tool, into(notes))


@pytest.mark.parametrize(
    "path",
    [
        "CLAUDE.md",
        "./shop/claude.MD",
        "C:\\shop\\CLAUDE.md",
        "/srv/shop/x/../CLAUDE.md",
        "/srv/shop/CLAUDE.md:evil",
        "/srv/shop/CLAUDE\u200b.md",
        "/srv/shop/memories/:/../../CLAUDE.md",
        "file:///srv/shop/%43LAUDE.md",
    ],
)
async def test_a_path_of_which_one_reading_is_a_place_is_that_place(
    tmp_path: Path, path: str
) -> None:
    async with editor(tmp_path) as at:
        assert is_held(await at.writes(f"- {NOTE}\n", path), "instruction_place")
        assert await at.writes(f"- {NOTE}\n", path.lower().replace("md", "py")) is None


async def test_of_two_lists_the_more_specific_one_counts(tmp_path: Path) -> None:
    async with editor(tmp_path, ("notes/**",), ("notes/own/**",)) as at:
        assert is_held(await at.writes(f"- {NOTE}\n", "/srv/notes/a.md"), "instruction_place")
        assert await at.writes(f"- {NOTE}\n", "/srv/notes/own/a.md") is None
        # It is a place all the same: an order waits there, as it does not in another file.
        assert is_held(await at.writes(f"- {ORDER}.\n", "/srv/notes/own/a.md"))
        assert await at.writes(f"- {ORDER}.\n", "/srv/other/a.md") is None


async def test_notes_land_in_a_file_that_is_known_or_new_and_after_a_shell_call(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path) as at:
        await at.tool("fetch", PAGE, url="https://harbour.example")
        await at.reads(INDEX, NOTES)
        assert await at.edits(LINE, f"{LINE}\n- {NOTE}", NOTES) is None
        await at.tool("Bash", "done", command="git pull")
        assert await at.edits(LINE, f"{LINE}\n- Boats moor at quay seven.", NOTES) is None
        assert is_held(await at.edits(LINE, f"{LINE}\n- {ORDER}.", NOTES))
        new = NOTES.replace("MEMORY", "tea")
        assert await at.writes("# Tea\n\n- Ada drinks green tea.\n", new) is None
        assert is_held(await at.writes(f"# Tea\n\n- {ORDER}.\n", new.replace("tea", "milk")))


async def test_an_order_that_is_cut_over_two_lines_waits(tmp_path: Path) -> None:
    first, second = "From now", ORDER.removeprefix("From now ")
    for known in (True, False):
        async with editor(tmp_path / str(known)) as at:
            if known:
                await at.reads(INDEX, NOTES)
            assert is_held(await at.edits(LINE, f"{LINE}\n\n{first}\n{second}.", NOTES))
            assert await at.edits(LINE, f"{LINE}\n\n{second}.", NOTES) is None, "control"
    async with editor(tmp_path / "halves") as at:
        await at.reads(f"{INDEX}\n{first}\n", NOTES)
        assert is_held(await at.edits(first, f"{first}\n{second}.", NOTES))


async def test_a_change_without_its_new_strings_waits(tmp_path: Path) -> None:
    async with editor(tmp_path) as at:
        for path in (FILE, NOTES):
            one = at.call("NotebookEdit", notebook_path=path, new_source="x")
            assert is_held((await at.tries(one))[0])
            moved = at.call("mcp__files__move_file", source="/srv/shop/tea.md", destination=path)
            assert is_held((await at.tries(moved))[0])
            away = at.call("mcp__files__move_file", source=path, destination="/srv/shop/tea.md")
            assert is_held((await at.tries(away))[0])
        folder = at.call("mcp__files__move_file", source="/srv/a", destination="/srv/shop/.claude")
        assert is_held((await at.tries(folder))[0])
        # Controls: the same calls on other files.
        one = at.call("NotebookEdit", notebook_path="/srv/shop/tea.ipynb", new_source="x")
        assert await at.tries(one) == [None]
        one = at.call("mcp__files__move_file", source="/srv/a", destination="/srv/shop/b")
        assert await at.tries(one) == [None]


async def test_lines_of_ones_own_may_go_and_lines_that_no_verdict_let_in_wait(
    tmp_path: Path,
) -> None:
    note = f"- {NOTE}"
    async with editor(tmp_path) as at:
        await at.reads(INDEX, NOTES)
        assert is_held(await at.edits(f"{LINE}\n", "", NOTES), "person_required")
        assert await at.edits(LINE, f"{LINE}\n{note}", NOTES) is None
        assert await at.edits(note, "- The release train leaves on Friday.", NOTES) is None
        assert await at.edits("\n- The release train leaves on Friday.", "", NOTES) is None
        for new in ("", "- n/a"):
            assert is_held(await at.edits(LINE, new, NOTES), "person_required")


async def test_a_session_that_had_read_removes_nothing_that_another_one_wrote(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as at:
        first, second, third = (Editor(at, AGENT, ()) for _ in range(3))
        assert await first.edits(LINE, f"{LINE}\n- {NOTE}", NOTES) is None
        second.messages = [user("Good evening, this is Ada too.")]
        await second.tool("fetch", PAGE, url="https://harbour.example")
        for new in ("", "- n/a"):
            held = await second.edits(f"- {NOTE}", new, NOTES)
            assert is_held(held, "removal_after_reading")
        assert is_held(await second.writes("", NOTES), "removal_after_reading")
        third.messages = [user("And a good night.")]
        assert await third.edits(f"- {NOTE}", "", NOTES) is None, "control"


async def test_of_one_file_a_session_that_had_read_removes_its_own_lines_alone(
    tmp_path: Path,
) -> None:
    own = "- The queue has two workers."
    async with desk(tmp_path) as at:
        first, second, third = (Editor(at, AGENT, ()) for _ in range(3))
        assert await first.writes(f"# Notes\n- {NOTE}\n", NOTES) is None
        second.messages = [user("Good evening, this is Ada too.")]
        await second.tool("fetch", PAGE, url="https://harbour.example")
        await second.reads(f"# Notes\n- {NOTE}\n", NOTES)
        assert await second.edits(f"- {NOTE}\n", f"- {NOTE}\n{own}\n", NOTES) is None
        assert is_held(await second.edits(f"- {NOTE}\n", "", NOTES), "removal_after_reading")
        third.messages = [user("And a good night.")]
        await third.tool("fetch", PAGE, url="https://harbour.example")
        # It has not seen the file, so it names a part of a line.
        part = await third.edits(" leaves on Thursday at noon.", "", NOTES)
        assert is_held(part, "removal_after_reading")
        assert await second.edits(f"{own}\n", "", NOTES) is None
        # A line that is touched first is no more the reader's own than one that is not.
        touched = NOTE.replace("on Thursday", "on: Thursday")
        assert await second.edits(f"- {NOTE}\n", f"- {touched}\n", NOTES) is None
        assert is_held(await second.edits(f"- {touched}\n", "", NOTES), "removal_after_reading")


async def test_lines_that_only_a_conversation_has_shown_are_judged_when_they_are_written(
    tmp_path: Path,
) -> None:
    """A shell may have written them, and a model repeats them in the new text of a file."""
    more = f"{INDEX}- {ORDER}.\n"
    async with editor(tmp_path) as at:
        await at.tool("Bash", "done", command="git pull")
        await at.reads(more, NOTES)
        assert is_held(await at.writes(f"{more}- {NOTE}\n", NOTES))
        assert await at.writes(f"{INDEX}- {NOTE}\n", NOTES) is None, "control"


async def test_a_file_of_this_machine_is_not_known_to_a_front(tmp_path: Path) -> None:
    """An agent on another machine may have another file at the same path."""
    file = tmp_path / "MEMORY.md"
    file.write_text(f"- {ORDER}.\n", encoding="utf-8")
    async with editor(tmp_path / "store") as at:
        assert is_held(await at.writes(f"- {ORDER}.\n- {NOTE}\n", str(file)))
        assert await at.writes(f"- {NOTE}\n", str(file)) is None, "control"


async def test_a_link_to_a_place_is_refused(tmp_path: Path) -> None:
    real = tmp_path / "shop"
    real.mkdir()
    (real / "CLAUDE.md").write_text(RULES)
    (real / "notes.md").symlink_to(real / "CLAUDE.md")
    (real / "rules").symlink_to(tmp_path / ".claude" / "rules")
    (real / "AGENTS.md").symlink_to(real / "notes.md")
    async with editor(tmp_path / "store") as at:
        for name in ("notes.md", "rules/tea.md", "AGENTS.md"):
            refused = await at.writes("tea", str(real / name))
            assert refused is not None
            assert "link" in refused
        # Control: a file beside them is none.
        assert await at.writes("tea", str(real / "other.md")) is None


async def test_a_call_of_another_form_is_refused_without_its_words(tmp_path: Path) -> None:
    async with editor(tmp_path) as at:
        one = at.call("Edit", file_path=FILE, old_string=3, new_string=ORDER)
        (text,) = await at.tries(one)
        assert text is not None
        assert "old_string" in text
        assert "Zebra" not in text
