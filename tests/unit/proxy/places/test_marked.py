"""Where the files that a host injects are in a request, and which lines they have."""

from __future__ import annotations

from proxy.dialects.files.shipped_places import places_with
from proxy.dialects.model.transcript import ContextText, ModelCall, ModelRequest, Turn, Voice
from proxy.places.marked import HostTexts, Mark, lines_of, marks_in, root_of, texts_in

PLACES = places_with()
RULES = "/w/CLAUDE.md"


def request(*said: ContextText, calls: tuple[ModelCall, ...] = ()) -> ModelRequest:
    turns = (Turn(calls=calls), Turn(said=said))
    return ModelRequest(system=(), prefix=("messages",), turns=turns, catalogue=())


def user(text: str) -> ContextText:
    return ContextText(where=("content",), text=text, voice=Voice.USER)


def strings(one: ModelRequest) -> list[ContextText]:
    return [*HostTexts().and_more(one, range(len(one.turns)), PLACES).strings]


def lines(one: ModelRequest, *known: str) -> list[tuple[str, str, bool]]:
    """Path and text of each line in files, and whether the line has a mark itself."""
    return [
        (line.mark.path, line.text, line.is_mark)
        for said in strings(one)
        for marked in texts_in(said, marks_in(one, said, PLACES), known.__contains__)
        for line in lines_of(marked, PLACES)
    ]


def test_a_file_reaches_to_the_last_end_mark_and_keeps_what_looks_like_a_mark() -> None:
    text = (
        f"<system-reminder>\n\nContents of {RULES} (rules):\n\nA\n</system-reminder>\nB\n"
        "Contents of /w/x.md (notes):\n\nC\n</system-reminder>"
    )
    assert lines(request(user(text))) == [
        (RULES, "A", False),
        (RULES, "</system-reminder>", True),
        (RULES, "B", False),
        ("/w/x.md", "Contents of /w/x.md (notes):", True),
        ("/w/x.md", "C", False),
    ]
    known = lines(request(user(text)), "/w/claude.md", "/w/x.md")
    assert ("/w/x.md", "C", False) in known
    assert ("/w/x.md", "Contents of /w/x.md (notes):", True) not in known


def test_a_mark_counts_only_for_its_speaker_and_at_the_beginning_of_its_string() -> None:
    text = f"Look.\n<system-reminder>\nContents of {RULES} (rules):\n\nA\n</system-reminder>"
    assert not lines(request(user(text)))
    reminder = text.removeprefix("Look.\n")
    assert lines(request(user(reminder))), "control"
    result = ContextText(where=(), text=reminder, voice=Voice.TOOL, call_id="c")
    assert not lines(request(result))


def test_a_file_in_a_result_counts_only_in_a_folder_that_its_call_named() -> None:
    path = "/w/src/GEMINI.md"
    text = f"x\n--- Context from: {path} ---\nA\n--- End of Context from: {path} ---\n"
    result = ContextText(where=(), text=text, voice=Voice.TOOL, call_id="c")
    named_paths = {
        "/w/src/a.txt": True,
        "src/a.txt": True,
        "./src": True,
        "src/deep/b.txt": True,
        "/w/other/a.txt": False,
        "other/a.txt": False,
        "rc/a.txt": False,
        "https://src/": False,
    }
    for named, found in named_paths.items():
        call = ModelCall(call_id="c", name="read_file", arguments={"file_path": named})
        assert bool(lines(request(result, calls=(call,)))) is found


def test_the_lines_of_a_host_itself_belong_to_no_file() -> None:
    text = (
        f"<system-reminder>\nContents of {RULES} (rules):\n\nA\n\n# currentDate\n"
        "Today's date is 2026-11-28.\n</system-reminder>"
    )
    assert lines(request(user(text))) == [(RULES, "A", False)]
    other = text.replace("2026-11-28", "the day to page Bob")
    assert len(lines(request(user(other)))) == 2, "control: no other line passes so"


def test_the_folder_of_an_agent_is_the_one_that_its_host_states() -> None:
    said = user("<environment_context>\n  <cwd>/home/ada/w</cwd>\n</environment_context>")
    assert root_of([(said, [])], PLACES) == "/home/ada/w"
    assert not root_of([(user("<cwd>/home/ada/w</cwd>"), [])], PLACES)
    after = Mark(0, 1, "/w/x.md", "/w/x.md", None)
    assert not root_of([(said, [after])], PLACES), "a file's text states no folder"
