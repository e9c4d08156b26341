"""The patch reader beside the real Codex: what Codex writes, the reader has read."""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from proxy.dialects.files.edits import read_file_calls
from proxy.dialects.files.patch import read_patch
from proxy.dialects.mcp.file_rules import FileRule
from proxy.seams.faults import MalformedRequest
from tests.integration.hosts.hosts import Codex, Settings, ask_configured, codex_program
from tests.unit.proxy.dialects.files.test_patch import BEFORE, FORMS, applied, patch

pytestmark = [pytest.mark.heavy, pytest.mark.share(of=3, turn=2), pytest.mark.timeout(600)]
MARGINS: Final = ("", "", "", " ", "\t")
RANDOM_COUNT: Final = 600
# What Codex 0.169 does not apply at all.
NOT_APPLIED: Final = frozenset({"environment"})


@pytest.fixture(scope="module")
def program() -> Path:
    root = codex_program().parents[1] / "@openai"
    return next(root.glob("codex-*/vendor/*/bin/codex"))


async def codex(program: Path, folder: Path, text: str) -> dict[str, str] | None:
    """The files of a folder after Codex applied a patch there; None if it refused the patch."""
    words = (program, "--codex-run-as-apply-patch", text)
    done = await asyncio.create_subprocess_exec(
        *words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return None if await done.wait() else files_in(folder)


def files_in(folder: Path) -> dict[str, str]:
    files = (one for one in folder.rglob("*") if one.is_file())
    return {str(one.relative_to(folder)): one.read_bytes().decode() for one in files}


def read(text: str, before: dict[str, str]) -> dict[str, str | None] | None:
    """The files after a patch as the reader has them, None for a text that is unknown.

    None if the reader refuses the patch.
    """
    files: dict[str, str | None] = {**before}
    try:
        found = read_patch(text)
    except MalformedRequest:
        return None
    for one in found:
        known = files.pop(one.path, None)
        made = one.text
        if one.edits or one.to:
            # Where a host inserts lines that replace none depends on the patch's hints.
            clear = known is not None and all(old for old, _, _ in one.edits)
            made = applied(one.edits, known) if known is not None and clear else None
        if one.text != "":
            files[one.to or one.path] = made
    return files


@pytest.mark.parametrize("form", sorted(FORMS.keys() - NOT_APPLIED - {"absolute path"}))
async def test_each_form_is_read_as_codex_applies_it(
    program: Path, tmp_path: Path, form: str
) -> None:
    given, made = FORMS[form]
    for path, _, _ in made:
        if form not in {"add", "tilde", "dot dot"} and path != "c.md":
            (tmp_path / path).write_text(BEFORE, encoding="utf-8")
    before = files_in(tmp_path)
    after = await codex(program, tmp_path, given)
    assert after is not None
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert changed, "control: Codex applies it"
    named = {Path(one).name for path, to, _ in made for one in (path, to) if one is not None}
    assert {Path(name).name for name in changed} == named
    for path, to, text in made:
        name = (to or path).replace("b/../", "")
        assert after.get(name, "") == text


# Each command with what Codex makes of it: as a patch it reads the first three.
COMMANDS: Final = {
    "h1.md": "apply_patch <<'EOF'\n{}EOF",
    "sub folder/h2.md": "cd 'sub folder' && apply_patch <<'EOF'\n{}EOF",
    "h3.md": "applypatch <<EOF\n{}EOF",
    "h4.md": "echo hi; apply_patch <<'EOF'\n{}EOF",
    "h5.md": "apply_patch '{}'",
    "h6.md": "git apply <<'EOF'\n--- /dev/null\n+++ b/h6.md\n@@ -0,0 +1 @@\n+x\nEOF",
}
READ_COUNT: Final = 3
RULE: Final = FileRule(patch="cmd", command=True)


async def test_each_command_with_a_patch_is_read_as_codex_runs_it(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "sub folder").mkdir(parents=True)
    lines = {
        name: form.format(patch(f"*** Add File: {Path(name).name}", "+x"))
        for name, form in COMMANDS.items()
    }
    settings = Settings(text="", servers=())
    calls = [("/exec_command", {"cmd": line}) for line in lines.values()]
    host = Codex("gpt-5.5", sandboxed=False)
    ran = await ask_configured(host, tmp_path, settings, *calls)
    assert len(ran.results) == len(COMMANDS)
    wrote = files_in(folder)
    assert wrote.keys() >= {*[*COMMANDS][:READ_COUNT], "h6.md"}, "control: Codex applies them"
    for at, (name, line) in enumerate(lines.items()):
        found = [one.located(())[0] for one in read_file_calls(RULE, {"cmd": line})]
        assert name in {one.path.removeprefix("b/") for one in found}, "the place is judged"
        assert [one.unread for one in found] == [at >= READ_COUNT] * len(found)
        if at < READ_COUNT:
            assert found[0].text == wrote[name] == "x\n"


def chunks(lines: list[str], dice: random.Random) -> Iterator[str]:
    at = dice.randint(0, len(lines))
    if dice.random() < 0.7:
        yield dice.choice(["@@", "@@", f"@@ {dice.choice(lines)}", "@@ ", f"@@{lines[0]}"])
    for line in lines[at : at + dice.randint(0, 3)]:
        sign = dice.choice([" ", " ", "-"])
        yield sign + dice.choice([line, line, line, f"{line}  ", f" {line}"])
        if dice.random() < 0.4:
            yield f"+new {dice.randint(0, 9)}"
    if dice.random() < 0.3:
        yield "+tail"
    if dice.random() < 0.2:
        yield dice.choice(["", "*** End of File", "*** End of File "])


def sections(dice: random.Random) -> Iterator[str]:
    margin, end = dice.choice(MARGINS), dice.choice(MARGINS)
    kind = dice.random()
    if kind < 0.25:
        yield f"{margin}*** Add File: new.md{end}"
        yield from (f"+line {at}" for at in range(dice.randint(1, 3)))
    elif kind < 0.35:
        yield f"{margin}*** Delete File: b.md{end}"
    else:
        yield f"{margin}*** Update File: {dice.choice(['a.md', 'b.md'])}{end}"
        if dice.random() < 0.2:
            yield f"{dice.choice(MARGINS)}*** Move to: moved.md"
        for _ in range(dice.choice([0, 1, 1, 1, 2])):
            yield from chunks([*BEFORE.split("\n")[:-1]], dice)


async def test_whatever_codex_applies_is_read_the_same(program: Path, tmp_path: Path) -> None:
    dice = random.Random(20_261_128)  # noqa: S311 - draws cases of a test
    counts = {"applied": 0, "read": 0}
    for number in range(RANDOM_COUNT):
        given = patch(*(line for _ in range(dice.choice([1, 1, 2])) for line in sections(dice)))
        folder = tmp_path / str(number)
        folder.mkdir()
        before = {"a.md": BEFORE, "b.md": BEFORE}
        for name, text in before.items():
            (folder / name).write_text(text, encoding="utf-8")
        after = await codex(program, folder, given)
        ours = read(given, before)
        if after is None:
            continue
        assert ours is not None, given
        counts["applied"] += 1
        assert ours.keys() == after.keys(), given
        for name, known in ours.items():
            assert known in {None, after[name]}, given
            counts["read"] += known not in {None, before.get(name)}
    assert counts["applied"] > RANDOM_COUNT / 10, "control: Codex applies many of them"
    assert counts["read"] > RANDOM_COUNT / 20, "control: and their texts are known"
