"""Places by their paths and names, however spelled; what of a candidate a person decides on."""

from __future__ import annotations

import msgspec
import pytest

from policy.labels.forwarded_call import ForwardedCall, place_of, texts_of
from policy.lines import LINES_MAX, lines_of
from policy.model import ChangeKind, Scope
from policy.places import PlaceKind, Places, parse_hosts
from policy.text.paths import BadPattern
from proxy.dialects.files.shipped_places import places_with
from tests.unit.storage.opening import candidate_of

PLACES = places_with()


def kind_of(path: str, places: Places = PLACES) -> PlaceKind | None:
    found = places.of_path(path)
    return None if found is None else found.kind


@pytest.mark.parametrize(
    "path",
    [
        "/home/ada/shop/CLAUDE.md",
        "claude.MD",
        "/a/b/../CLAUDE.md",
        "/a/.claude/rules/tea.md",
        "/a/CLAUDE.md/.",
        "//a///AGENTS.md",
        "~/memories/tea.md",
        "/memories/2026/tea.md",
        "/a/.github/copilot-instructions.md",
        "C:\\shop\\Claude.md",
        "C:\\shop\\CLAUDE.md::$DATA",
        "/a/CLAUDE.md. ",
        "/a/cl\u200baude.md",
        "/a/\uff23LAUDE.md",
        "file:///a/GEMINI.md",
        "file:///a/%43LAUDE.md",
        "FILE:/a/%2e%63laude%2Frules%2Ftea.md",
        "/a/CLAUDE.md\0.txt",
        "file:/a/CLAUDE.md%00.txt",
        "/a/.clinerules/style.md",
        "/a/.windsurf/rules/style.md",
        "/a/.github/instructions/style.instructions.md",
        "/srv/shop/.cursor/rules/style.mdc",
        "AGENTS.override.md",
        # Only another system, or nobody, reads these names as steps.
        "/a/.claude/rules/:/../tea.md",
        "/a/.claude/rules/ ../ ../tea.md",
        "/a/memories/\\..\\..\\tea.md",
        "/a/memories/\uff0f..\uff0f../tea.md",
        "memories/x/\u2025/\u2025/tea.md",
        ".github/:/../copilot-instructions.md",
    ],
)
def test_every_spelling_of_a_place_is_one(path: str) -> None:
    assert PLACES.of_path(path) is not None


@pytest.mark.parametrize(
    "path",
    [
        *("/a/CLAUDE.md/../notes.md", "/a/MY_CLAUDE.md", "/a/memories", "/a/claude.md.txt"),
        *("/a/b.py", "/a/%43LAUDE.md", "file:///a/b.py%00CLAUDE.md"),
    ],
)
def test_other_files_are_none(path: str) -> None:
    assert PLACES.of_path(path) is None


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/a/CLAUDE.md", PlaceKind.INSTRUCTIONS),
        ("/a/AGENTS.md", PlaceKind.INSTRUCTIONS),
        ("/h/.openclaw/workspace/SOUL.md", PlaceKind.INSTRUCTIONS),
        ("/h/.openclaw/workspace/MEMORY.md", PlaceKind.FACTS),
        ("/h/.claude/projects/-shop/memory/MEMORY.md", PlaceKind.FACTS),
        ("/h/.claude/projects/-shop/memory/tea.md", PlaceKind.FACTS),
        ("/h/.claude/agent-memory-local/reviewer/MEMORY.md", PlaceKind.FACTS),
        ("/h/.claude/output-styles/short.md", PlaceKind.INSTRUCTIONS),
        ("/h/.claude.json", PlaceKind.INSTRUCTIONS),
        ("/h/.letta/lc-local-backend/memfs/a1/memory/human.md", PlaceKind.FACTS),
        ("/h/.letta/lc-local-backend/memfs/a1/memory/projects/shop.md", PlaceKind.FACTS),
        ("/h/.letta/lc-local-backend/memfs/a1/memory/persona.md", PlaceKind.INSTRUCTIONS),
        ("/h/.letta/lc-local-backend/memfs/a1/memory/skills/pay/SKILL.md", PlaceKind.INSTRUCTIONS),
        ("/memories/tea.md", PlaceKind.FACTS),
        # A file that a host loads by its name, or in a folder of rules, is no note.
        ("/h/.claude/projects/-shop/memory/CLAUDE.md", PlaceKind.INSTRUCTIONS),
        ("/a/.claude/rules/MEMORY.md", PlaceKind.INSTRUCTIONS),
        ("/memories/AGENTS.md", PlaceKind.INSTRUCTIONS),
        # One system reads a note here, another one the rules.
        ("/a/memories/:/../../CLAUDE.md", PlaceKind.INSTRUCTIONS),
        ("/a/.claude/rules/:/../../../memories/tea.md", PlaceKind.FACTS),
    ],
)
def test_a_place_is_of_one_kind(path: str, kind: PlaceKind) -> None:
    assert kind_of(path) is kind


def test_of_two_lists_the_more_specific_pattern_wins_and_of_equal_ones_instructions() -> None:
    own = places_with(("tea.md", "notes/**"), ("notes/own/**", "tea.md", "/srv/CLAUDE.md"))
    assert kind_of("/x/notes/a.md", own) is PlaceKind.INSTRUCTIONS
    assert kind_of("/x/notes/own/a.md", own) is PlaceKind.FACTS
    assert kind_of("/x/tea.md", own) is PlaceKind.INSTRUCTIONS
    assert kind_of("/srv/CLAUDE.md", own) is PlaceKind.FACTS
    # What an operator lists is added: the shipped places stay.
    assert kind_of("/x/CLAUDE.md", own) is PlaceKind.INSTRUCTIONS
    assert kind_of("/x/tea.md") is None


def test_a_folder_is_moved_with_the_places_in_it_and_counts_as_the_strictest_of_them() -> None:
    for path, kind in (
        ("/a/.claude", PlaceKind.INSTRUCTIONS),
        (".GitHub", PlaceKind.INSTRUCTIONS),
        ("C:\\a\\.claude\\", PlaceKind.INSTRUCTIONS),
        ("/a/CLAUDE.md", PlaceKind.INSTRUCTIONS),
        ("/a/memories/", PlaceKind.FACTS),
    ):
        found = PLACES.of_folder(path)
        assert found is not None
        assert found.kind is kind
    assert PLACES.of_folder("/a/docs") is None
    assert PLACES.of_path("/a/.claude") is None
    own = places_with((), ("/srv/notes/**",))
    assert own.of_folder("/srv") is not None
    assert own.of_folder("/x/srv") is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("persona", PlaceKind.INSTRUCTIONS),
        ("Persona ", PlaceKind.INSTRUCTIONS),
        ("/memories/persona", PlaceKind.INSTRUCTIONS),
        ("human", PlaceKind.FACTS),
        ("persona_notes", None),
        ("/a/CLAUDE.md", None),
    ],
)
def test_a_block_is_known_by_its_name(name: str, kind: PlaceKind | None) -> None:
    found = PLACES.of_block(name)
    assert (None if found is None else found.kind) is kind
    assert PLACES.of_path("persona") is None


def test_stars_stand_for_names() -> None:
    own = Places((), ("a/**/b/*.md", "rules-*.md", "/srv/**"))
    assert kind_of("/x/a/b/c.md", own) is PlaceKind.INSTRUCTIONS
    assert kind_of("/x/a/y/z/b/c.md", own) is PlaceKind.INSTRUCTIONS
    assert kind_of("/x/Rules-tea.md", own) is PlaceKind.INSTRUCTIONS
    assert kind_of("/srv/a/b", own) is PlaceKind.INSTRUCTIONS
    for other in ("/x/a/yb/c.md", "/x/a/b/c/d.md", "/x/srv/a", "/srv", "/x/CLAUDE.md"):
        assert kind_of(other, own) is None


@pytest.mark.parametrize("pattern", ["", "/", "../a", "a**", "**", "**/a", "block:"])
def test_a_pattern_that_cannot_be_meant_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        Places((), (pattern,))


def test_every_shipped_host_names_its_release_and_an_unknown_key_is_refused() -> None:
    (host,) = parse_hosts('[[host]]\nname = "a"\nversion = "1"\nfacts = ["b.md"]')
    assert (host.name, host.version, host.facts) == ("a", "1", ("b.md",))
    with pytest.raises(ValueError, match="version"):
        parse_hosts('[[host]]\nname = "a"')
    with pytest.raises(ValueError, match="rules"):
        parse_hosts('[[host]]\nname = "a"\nversion = "1"\nrules = ["b.md"]')


FILE = "/home/ada/CLAUDE.md"


def edit(*pieces: str, came: int, place: str = FILE) -> tuple[str, str]:
    return texts_of(
        ForwardedCall(tool="Edit", arguments="{}", key=place, pieces=pieces, place=place, came=came)
    )


def test_a_file_s_lines_come_or_go_and_blank_ones_do_not_count() -> None:
    text, metadata = edit("- One.\n\n  Two.\n- One.", "- Old.", came=1)
    candidate = candidate_of(text, metadata_json=metadata, target="mcp/files")
    assert place_of(candidate) == FILE
    lines = lines_of(candidate)
    expected = [("- One.", True), ("  Two.", True), ("- Old.", False)]
    assert [(one.text, one.comes) for one in lines] == expected
    assert not any(one.whole for one in lines)


def test_a_line_is_let_in_by_its_bytes_and_denied_by_its_words() -> None:
    def line(text: str, came: int = 1) -> tuple[bytes, bytes]:
        said, metadata = edit(text, came=came)
        (one,) = lines_of(candidate_of(said, metadata_json=metadata, target="mcp/files"))
        return one.exact, one.shape

    exact, shape = line("- Always use tabs.")
    assert line("* always USE tabs!") != (exact, shape)
    assert line("* always USE tabs!")[1] == shape
    assert line("- Always use tabs. ")[0] != exact
    assert line("- Always use tabs.", came=0)[0] != exact
    assert line("- Always use tabs.", came=0)[1] != shape, "to take a line away is another thing"


@pytest.mark.parametrize(
    ("pieces", "came"),
    [
        (("One.",), -1),
        ((" \n ",), 1),
        (("\n".join(f"Line {number}." for number in range(LINES_MAX + 1)),), 1),
    ],
)
def test_what_has_no_known_lines_is_one_whole(pieces: tuple[str, ...], came: int) -> None:
    text, metadata = edit(*pieces, came=came)
    candidate = candidate_of(text, metadata_json=metadata, target="mcp/files")
    (one,) = lines_of(candidate)
    assert (one.whole, place_of(candidate)) == (True, FILE)
    other = msgspec.structs.replace(candidate, nonce="another")
    assert lines_of(other) == (one,), "whatever its nonce is"
    moved = msgspec.structs.replace(candidate, scope=Scope(user_id="bo"))
    assert lines_of(moved)[0].exact != one.exact


def test_any_other_place_is_what_is_done_and_where() -> None:
    candidate = candidate_of("The ferry leaves at nine.")
    assert place_of(candidate) == "create in memories"
    removal = msgspec.structs.replace(candidate, change=ChangeKind.DELETE, text=None)
    assert place_of(removal) == "delete in memories"
    assert [one.comes for of in (candidate, removal) for one in lines_of(of)] == [True, False]
    # A client's own metadata names no place.
    text, metadata = edit("One.", came=1)
    assert place_of(candidate_of(text, metadata_json=metadata)) == "create in memories"
