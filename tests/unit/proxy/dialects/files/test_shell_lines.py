"""Command lines: which paths a line names where it may write."""

from __future__ import annotations

import pytest

from proxy.dialects.files.edits import read_file_calls
from proxy.dialects.files.shell_lines import WORDS_MAX, written_paths
from proxy.dialects.mcp.file_rules import FileRule

HERE = "\n".join
PLACE = "AGENTS.md"
ENDED = ("*** End Patch", "EOF")
WRITES = {
    "a redirection": f"printf 'x' > {PLACE}",
    "an appending one without blanks": f"echo x>>{PLACE}",
    "one that overrides noclobber": f"echo x >| {PLACE}",
    "both streams": f"make &> {PLACE}",
    "quotes": f'echo x > "{PLACE}"',
    "a pipe": f"echo x | tee -a {PLACE}",
    "an edit in place": f"sed -i s/a/b/ {PLACE}",
    "an edit in place among other flags": f"sed -Ei.bak s/a/b/ {PLACE}",
    "a copy": f"cp /tmp/x {PLACE}",
    "an argument with a name": f"dd if=/tmp/x of={PLACE}",
    "a program's word": f'python3 -c \'open("{PLACE}", "w").write("x")\'',
    "a shell in a shell": f"bash -lc 'echo x > {PLACE}'",
    "behind a read": f"cat notes.txt && rm {PLACE}",
    "on another line": f"ls\nmv x {PLACE}",
    "a broken line": f"ls \\\n  && mv x {PLACE}",
    "a subshell": f"(echo x > {PLACE})",
    "a here-document's target": HERE(["cat <<'EOF' > AGENTS.md", "x", "EOF"]),
    "a here-document for a shell": HERE(["bash <<EOF", "echo x > AGENTS.md", "EOF"]),
    "a here-document through a pipe": HERE(["cat <<EOF | bash", "echo x > AGENTS.md", "EOF"]),
    "a patch": HERE(
        ["apply_patch <<'EOF'", "*** Begin Patch", "*** Add File: AGENTS.md", "+x", *ENDED]
    ),
    "behind a here-document": HERE(["cat > n.txt <<EOF", "x", "EOF", "rm AGENTS.md"]),
    "unclosed quotes": f"echo 'x > {PLACE}",
    "git": f"git checkout main -- {PLACE}",
    "an unknown program": f"notes --write {PLACE}",
}
READS = {
    "cat": f"cat {PLACE}",
    "sed": f"sed -n '1,200p' {PLACE}",
    "grep": f"grep -n port {PLACE} | head -3",
    "errors": f"cat {PLACE} 2>/dev/null",
    "git": f"git add {PLACE} && git commit -m 'Mend {PLACE}'",
    "a here-document that names it": HERE(["cat > n.txt <<EOF", "See AGENTS.md.", "EOF"]),
    "nothing": "",
}


@pytest.mark.parametrize("line", WRITES.values(), ids=WRITES)
def test_what_a_line_may_write_is_named(line: str) -> None:
    assert PLACE in written_paths(line)


@pytest.mark.parametrize("line", READS.values(), ids=READS)
def test_what_a_line_reads_is_not(line: str) -> None:
    assert PLACE not in written_paths(line)


def test_a_path_is_read_from_the_folders_that_the_line_enters_too() -> None:
    rule = FileRule(patch="command", command=True)
    line = "cd ~/.codex && cat >> config.toml"
    (one,) = read_file_calls(rule, {"command": line})
    assert "~/.codex/config.toml" in {read.path for read in one.located(("/w",))}
    assert {read.path for read in one.located(())} >= {"config.toml"}, "control: as it is written"


def test_a_line_that_is_a_patch_is_read_as_one_and_not_twice() -> None:
    rule = FileRule(patch="command", command=True)
    (one,) = read_file_calls(rule, {"command": WRITES["a patch"]})
    assert (one.path, one.text) == (PLACE, "x\n")
    more = WRITES["a patch"] + "\necho x > CLAUDE.md"
    calls = read_file_calls(rule, {"command": more})
    assert {(one.path, one.unread) for one in calls} >= {(PLACE, True), ("CLAUDE.md", False)}


def test_a_path_that_a_line_computes_is_not_seen() -> None:
    assert PLACE not in written_paths("A=AGENTS; echo x > $A.md")


def test_a_long_line_takes_no_time() -> None:
    for line in ("rm x.y " * 50_000, "<<EOF\n" * 50_000, "x > a.b;" * 50_000, "sed -n " * 50_000):
        assert len(written_paths(line)) <= WORDS_MAX
    many = " ".join(f"{at}.md" for at in range(999))
    assert len(written_paths(f"rm {many}")) == WORDS_MAX
