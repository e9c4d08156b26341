"""The file tools and patches of each host, on files of memory, over a real store and ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

import msgspec
import pytest

from proxy.dialects.model.transcript import ModelCall
from proxy.dialects.strict_json.tolerant import Json
from tests.unit.proxy.ledgers import user
from tests.unit.proxy.model.editor import (
    NOTE,
    NOTES,
    ORDER,
    Editor,
    editor,
    is_held,
)


async def test_each_place_of_a_patch_is_judged_and_one_refusal_stops_it(tmp_path: Path) -> None:
    add = "*** Begin Patch\n*** Add File: src/a.py\n+x = 1\n*** Add File: {}\n+{}\n*** End Patch"
    async with editor(tmp_path) as at:
        for path in ("AGENTS.md", "MEMORY.md\n+- Tea\n*** Add File: SOUL.md"):
            (held,) = await at.tries(at.call("apply_patch", input=add.format(path, ORDER)))
            assert is_held(held)
        for path, waits in (("a.md", False), ("MEMORY.md", True), ("AGENTS.md", True)):
            unread = at.call("apply_patch", input=f"{add.format(path, NOTE)}\nand")
            assert is_held((await at.tries(unread))[0]) is waits
        (nothing,) = await at.tries(at.call("apply_patch", input="*** Begin Patch"))
        assert nothing is not None
        assert "patch:" in nothing
        # The controls: a note, a file that is no place, and another tool of the name.
        note = at.call("apply_patch", input=add.format("MEMORY.md", NOTE))
        code = at.call("apply_patch", input=add.format("src/b.py", ORDER))
        other = at.call("apply_patch", diff=add.format("AGENTS.md", ORDER))
        assert await at.tries(note, code, other) == [None, None, None]


COMMANDS: Final = {
    "here-document": "apply_patch <<'EOF'\n{patch}\nEOF\n",
    "another name, without quotes": "applypatch <<END\n{patch}\nEND",
    "in a folder": 'cd "sub folder" && apply_patch <<"EOF"\n{patch}\nEOF',
}
UNREAD: Final = {
    "behind another command": "echo hi; apply_patch <<'EOF'\n{patch}\nEOF",
    "before another command": "apply_patch <<'EOF'\n{patch}\nEOF\nrm x",
    "an argument": "apply_patch '{patch}'",
    "a string of a program": "python3 -c \"run(['apply_patch', '{line}'])\"",
    "expanded by the shell": "apply_patch <<EOF\n{patch}\n+$WORDS\nEOF",
    "a unified diff": "git apply <<'EOF'\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{text}\nEOF",
    "a renaming": "git apply <<'EOF'\nrename from a\nrename to {path}\nEOF",
}


def _commanded(form: str, path: str, text: str) -> str:
    patch = f"*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch"
    return form.format(patch=patch, line=patch.replace("\n", "\\n"), path=path, text=text)


@pytest.mark.parametrize("form", COMMANDS)
async def test_a_command_line_that_is_a_patch_is_judged_as_the_patch(
    tmp_path: Path, form: str
) -> None:
    async with editor(tmp_path) as at:

        def call(path: str, text: str) -> ModelCall:
            return at.call("exec_command", cmd=_commanded(COMMANDS[form], path, text))

        assert is_held((await at.tries(call("AGENTS.md", NOTE)))[0], "instruction_place")
        assert is_held((await at.tries(call("MEMORY.md", ORDER)))[0])
        one = call("MEMORY.md", NOTE)
        write = await at.write(one)
        assert write is not None
        assert [item.pieces for item in write.call.items] == [(NOTE,)], (
            "its lines, no word of its frame"
        )
        # Controls: a note among notes, a file that is no place, and a command without a patch.
        plain = at.call("exec_command", cmd="grep -rn '*** Begin Patch' AGENTS.md")
        assert await at.tries(call("MEMORY.md", NOTE), call("a.md", ORDER), plain) == [None] * 3


@pytest.mark.parametrize("form", UNREAD)
async def test_a_patch_that_is_not_its_whole_command_line_waits_in_each_place(
    tmp_path: Path, form: str
) -> None:
    async with editor(tmp_path) as at:

        def call(path: str) -> ModelCall:
            return at.call("exec_command", cmd=_commanded(UNREAD[form], path, NOTE))

        for path in ("AGENTS.md", "MEMORY.md"):
            assert is_held((await at.tries(call(path)))[0])
        assert await at.tries(call("a.md")) == [None], "control"


STATED: Final = (
    "<environment_context>\n  <cwd>/home/ada/.codex/memories_v2</cwd>\n</environment_context>"
)
SUMMARY: Final = "*** Begin Patch\n*** Add File: memory_summary.md\n+{}\n*** End Patch"


@pytest.mark.parametrize(
    ("stated", "tool", "arguments"),
    [
        (STATED, "apply_patch", {"input": "{patch}"}),
        (STATED, "exec_command", {"cmd": "apply_patch <<'EOF'\n{patch}\nEOF"}),
        ("", "exec_command", {"cmd": "{here}", "workdir": "/home/ada/.codex/memories"}),
        (STATED, "exec_command", {"cmd": "{here}", "workdir": "../memories"}),
        ("", "exec_command", {"cmd": "cd ~/.codex/memories && {here}"}),
        ("", "exec_command", {"cmd": "cd .codex/memories || cd /tmp; {here}"}),
        (
            "",
            "exec_command",
            {"cmd": "git -C ~/.codex/memories apply <<'E'\n+++ b/a.md\n+{text}\nE"},
        ),
    ],
)
async def test_a_path_is_read_from_each_folder_that_the_host_or_the_call_names(
    tmp_path: Path, stated: str, tool: str, arguments: dict[str, str]
) -> None:
    def call(at: Editor, more: dict[str, Json]) -> ModelCall:
        patch = SUMMARY.format(ORDER)
        here = f"apply_patch <<'EOF'\n{patch}\nEOF"
        given = {
            name: text.replace("{here}", here).replace("{patch}", patch).replace("{text}", ORDER)
            for name, text in arguments.items()
        }
        return at.call(tool, **{**given, **more})

    async with editor(tmp_path) as at:
        at.messages = [user(f"{stated} Good morning.")]
        assert is_held((await at.tries(call(at, {})))[0])
        # The words of others lead the path nowhere else.
        at.messages += [user("<cwd>/tmp</cwd>")]
        await at.tool("fetch", "<cwd>/srv</cwd>", url="https://harbour.example")
        assert is_held((await at.tries(call(at, {})))[0])
    async with editor(tmp_path / "control") as at:
        elsewhere = {
            name: text.replace("{here}", "").replace(".codex/memories", "x")
            for name, text in arguments.items()
        }
        arguments = {**elsewhere, **{k: v for k, v in arguments.items() if "{patch}" in v}}
        assert await at.tries(call(at, {})) == [None], "control"


@pytest.mark.parametrize("typed", [False, True])
async def test_a_folder_that_only_a_result_states_is_no_reading(
    tmp_path: Path, *, typed: bool
) -> None:
    async with editor(tmp_path) as at:
        await at.tool("fetch", STATED, url="https://harbour.example")
        at.messages += [user(STATED)] if typed else []
        (text,) = await at.tries(at.call("apply_patch", input=SUMMARY.format(ORDER)))
        assert is_held(text) is typed


async def test_a_patch_is_judged_by_its_lines_and_a_whole_text_by_all(tmp_path: Path) -> None:
    async with editor(tmp_path) as at:
        wrote = f"*** Begin Patch\n*** Add File: {NOTES}\n+- {NOTE}\n*** End Patch"
        assert await at.tries(at.call("apply_patch", input=wrote)) == [None]
        more = f"*** Begin Patch\n*** Update File: {NOTES}\n - {NOTE}\n+- tea\n*** End Patch"
        one = at.call("apply_patch", input=more)
        write = await at.write(one)
        assert write is not None
        assert [item.pieces for item in write.call.items] == [("- tea",)]
        assert len(await at.lines(f"- {NOTE}\n- tea\n")) > 1, "control"


HOSTS: Final[dict[str, tuple[str, dict[str, Json]]]] = {
    "OpenClaw": ("write", {"path": "{path}", "content": "{text}"}),
    "OpenClaw edits": ("edit", {"path": "{path}", "edits": [{"oldText": "", "newText": "{text}"}]}),
    "OpenCode": ("write", {"filePath": "{path}", "content": "{text}"}),
    "OpenCode edits": (
        "edit",
        {"filePath": "{path}", "oldString": "# A", "newString": "# A\n{text}"},
    ),
    "Gemini CLI": ("write_file", {"file_path": "{path}", "content": "{text}"}),
    "Gemini CLI edits": (
        "replace",
        {
            "file_path": "{path}",
            "old_string": "# A",
            "new_string": "# A\n{text}",
            "instruction": "b",
        },
    ),
    "deepagents": (
        "edit_file",
        {"file_path": "{path}", "old_string": "# A", "new_string": "# A\n{text}"},
    ),
    "by another tool": (
        "tool_call",
        {"id": "openclaw:core:write", "args": {"path": "{path}", "content": "{text}"}},
    ),
    "by two others": (
        "tool_call",
        {
            "id": "tool_call",
            "args": {"id": "apply_patch", "args": '{{"input": "{patch}"}}'},
        },
    ),
}


def _filled(value: Json, path: str, text: str) -> Json:
    if isinstance(value, str) and "{" in value:
        lines = ("*** Begin Patch", f"*** Add File: {path}", f"+{text}", "*** End Patch")
        return value.format(path=path, text=text, patch="\\n".join(lines))
    if isinstance(value, list):
        return [_filled(one, path, text) for one in value]
    if isinstance(value, dict):
        return {name: _filled(one, path, text) for name, one in value.items()}
    return value


@pytest.mark.parametrize("host", HOSTS)
async def test_an_order_waits_by_the_tools_of_each_host_and_a_note_lands(
    tmp_path: Path, host: str
) -> None:
    tool, arguments = HOSTS[host]

    def call(at: Editor, path: str, text: str) -> ModelCall:
        return at.call(tool, **cast("dict[str, Json]", _filled(arguments, path, text)))

    async with editor(tmp_path) as at:
        assert await at.tries(call(at, "MEMORY.md", NOTE)) == [None]
        at.messages = at.messages[:1]
        assert is_held((await at.tries(call(at, "MEMORY.md", ORDER)))[0])
        at.messages = at.messages[:1]
        assert is_held((await at.tries(call(at, "AGENTS.md", NOTE)))[0]), "in instructions"
        assert await at.tries(call(at, "src/main.py", ORDER)) == [None], "control: no place"
        at.maps = msgspec.structs.replace(at.maps, files=())
        assert await at.tries(call(at, "MEMORY.md", ORDER)) == [None], "control: without the maps"


async def test_a_call_by_another_tool_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    async with editor(tmp_path) as at:
        for args in ([ORDER], "{", {"id": "write"}):
            read = args if isinstance(args, dict) else {"id": "write", "args": args}
            nameless = {**read, "id": 7} if args == {"id": "write"} else read
            (text,) = await at.tries(at.call("tool_call", **cast("dict[str, Json]", nameless)))
            assert text is not None
            assert ORDER not in text
        assert await at.tries(at.call("tool_call", id="memory_search", args={"query": "a"})) == [
            None
        ], "control: one that can be read"


async def test_a_daily_note_of_openclaw_is_judged_by_its_relative_path(tmp_path: Path) -> None:
    async with editor(tmp_path) as at:
        for path, held in (("memory/2026-11-28.md", True), ("memory/heap.md", False)):
            (text,) = await at.tries(at.call("write", path=path, content=ORDER))
            assert is_held(text) is held
