"""Words that a stranger can follow: short paragraphs and cells, places to link to, a glossary.

A paragraph is a run of lines up to a blank line, a heading, a table, a fenced block or the next
item of a list, which is a paragraph too. A cell is what stands between two bars of a table. Words
are what white space separates; the address of a link is none.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from policy.model import Basis, MemoryClass, SourceKind
from tests.words import DRAWN, document_words, drawn, private_words, wordings

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "tests/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)
PARAGRAPH_WORDS_MAX = 90
CELL_WORDS_MAX = 40
# Of all pages of `docs` together, without decisions and what is printed from the code.
DOCUMENT_WORDS_MAX = 42_000
ARCHITECTURE_WORDS_MAX = 2_500
ITEM = re.compile(r"\s*(?:[-*]|\d+\.) |#")
BAR = re.compile(r"(?<!\\)\|")


def _text(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def _words(text: str) -> int:
    return len(re.sub(r"\]\([^)]*\)|<a id=\"[^\"]*\">", "]", text).split())


def _parts(text: str) -> tuple[list[str], list[str]]:
    """The paragraphs and the cells of a document."""
    paragraphs: list[str] = [""]
    cells: list[str] = []
    for line in re.sub(r"(?ms)^\s*```.*?^\s*```", "", text).splitlines():
        if line.startswith("|"):
            cells += BAR.split(line)[1:-1]
        if line.startswith("|") or not line.strip() or ITEM.match(line):
            paragraphs.append("")
        if not line.startswith("|"):
            paragraphs[-1] += f"{line} "
    return paragraphs, cells


def _too_long(text: str) -> list[str]:
    paragraphs, cells = _parts(text)
    return [
        f"{words} words: {part.strip()[:60]}"
        for parts, most in ((paragraphs, PARAGRAPH_WORDS_MAX), (cells, CELL_WORDS_MAX))
        for part in parts
        if (words := _words(part)) > most
    ]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_paragraph_is_above_90_words_and_no_cell_above_40(document: str) -> None:
    assert _too_long(_text(document)) == []


def test_the_pages_together_are_read_in_a_day() -> None:
    counted = document_words()
    assert sum(counted.values()) <= DOCUMENT_WORDS_MAX
    assert counted["architecture.md"] <= ARCHITECTURE_WORDS_MAX


def test_control_a_printed_table_does_not_count_and_another_does(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "settings.md"
    page.parent.mkdir()
    page.write_text("# Settings\n\n## Judges\n\ntwo words\n\n| a | b |\n")
    assert document_words(tmp_path) == {"settings.md": 2 + 2 + 2}
    page.write_text("# Settings\n\n## Hints\n\ntwo words\n\n| a | b |\n")
    assert document_words(tmp_path) == {"settings.md": 2 + 2 + 2 + 5}


@pytest.mark.parametrize(
    "wrong",
    [
        "word " * 91,
        "before\n\n" + "word\n" * 91,
        "- an item\n- " + "word " * 90,
        "| a | b |\n|---|---|\n| x | " + "word " * 41 + "|",
        "```\ncode\n```\n" + "word " * 91,
    ],
)
def test_control_a_long_paragraph_or_cell_is_found(wrong: str) -> None:
    right = "word " * 90 + "\n\n| " + "word " * 40 + "|\n\n```\n" + "word " * 99 + "\n```\n"
    assert _too_long(right) == []
    assert len(_too_long(f"{right}\n{wrong}")) == 1


def _addresses(text: str) -> set[str]:
    """What a link may name behind its `#`: headings as GitHub spells them, and ids."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


def _astray(document: str, text: str) -> list[str]:
    """The links of a document that name a place which the page they lead to does not have."""
    return [
        f"{target}#{place}"
        for target, place in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text)
        if place
        not in _addresses(
            ((ROOT / document).parent / target).read_text(encoding="utf-8") if target else text
        )
    ]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_to_a_place_in_a_page_lead_there(document: str) -> None:
    assert _astray(document, _text(document)) == []


def test_control_a_link_to_no_place_is_found() -> None:
    right = '# A `b` c?\n<a id="row"></a>\n[x](#a-b-c) [y](#row)'
    assert _astray("README.md", right) == []
    assert _astray("README.md", f"{right} [z](#raw)") == ["#raw"]


def test_each_attack_of_the_threat_model_has_an_address_of_its_own() -> None:
    text = _text("docs/threat-model.md")
    tables = text.split("\n## Writes\n")[1]
    rows = [row for row in tables.splitlines() if row.startswith("| ")]
    attacks = [row for row in rows if not row.startswith("| attack |")]
    addresses = re.findall(r'^\| <a id="([a-z0-9-]+)"></a>', tables, re.MULTILINE)
    assert len(attacks) == len(addresses) == len(set(addresses)) > 100
    assert text.index("## The five that matter") < text.index("## Writes")
    tests = tomllib.loads(_text("tests/threats.toml"))
    assert [*tests] == addresses
    assert [one for row in tests.values() for one in row if not (ROOT / one).is_file()] == []
    assert sum(not row for row in tests.values()) < 10


MORE_TERMS = (
    *("A1", "A2", "A3", "A4", "A5", "B0", "B1", "LG", "S3", "S4", "NFR", "PRLR", "the paper"),
    *("source", "basis", "proof", "floor", "read bit", "place", "standing", "epoch", "leaf"),
)


def _explained() -> str:
    """The first cells of the glossary, and the words that its explanations list in code."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", _text("docs/glossary.md"), re.MULTILINE)
    listed = [word for _, meaning in rows for word in re.findall(r"`([^`]+)`", meaning)]
    return "\n".join([*(word for word, _ in rows), *listed])


def _terms_of_readme() -> set[str]:
    """Classes, sources and short forms of its tables: what a stranger cannot look up elsewhere."""
    cells = "\n".join(_parts(_text("README.md"))[1])
    named = {one.value for one in (*MemoryClass, *SourceKind)}
    return {one for one in named if re.search(rf"\b{one}\b", cells)} | set(
        re.findall(r"\b[A-Z]{1,2}[0-9]\b", cells)
    )


def test_the_glossary_has_each_term_of_readmes_tables_and_each_word_of_the_labels() -> None:
    explained, terms = _explained(), _terms_of_readme()
    assert {"L1", "L4", "operator", "tool_result"} <= terms
    wanted = {*terms, *MORE_TERMS, *(basis.value for basis in Basis)}
    assert {one for one in wanted if not re.search(rf"\b{re.escape(one)}\b", explained)} == set()
    assert not re.search(r"\bL5\b", explained), "control: a term that is not there"


def test_comments_cite_pages_that_are_there_and_no_design() -> None:
    said = [(one.file, one.line, one.text) for one in wordings()]
    cited = re.compile(r"\bdesign (?:section )?[0-9]")
    assert [place for *place, text in said if cited.search(text)] == []
    pages = {
        page: file
        for file, _, text in said
        for page in re.findall(r"\bdocs/[\w./-]+?\.md(?:#[\w-]+)?", text)
    }
    assert len(pages) > 3, "control: some are cited"
    for page, file in pages.items():
        path, _, place = page.partition("#")
        assert (ROOT / path).is_file(), f"{file}: {page}"
        assert not place or place in _addresses(_text(path)), f"{file}: {page}"


# They may only fall, and by rewriting a sentence: the word of the field with its own subject.
PRIVATE_WORDS_MAX = {
    "goes on": 0,
    "stands": 11,
    "told": 18,
    "says": 41,
    "behind": 25,
    "nobody": 2,
}


def test_the_words_that_are_this_projects_alone_become_fewer() -> None:
    counted = private_words()
    assert {
        word: counted[word] for word in counted if counted[word] > PRIVATE_WORDS_MAX[word]
    } == {}


def test_a_docstring_that_begins_with_whether_is_of_a_truth() -> None:
    """A first word that promises yes or no, on what returns something else, misleads."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in ("policy", "proxy", "storage", "telemetry")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (ast.get_docstring(node) or "").startswith("Whether ")
        and ("" if node.returns is None else ast.unparse(node.returns)) != "bool"
    ]
    assert wrong == []


def test_a_seed_draws_the_same_places_again_and_another_seed_others() -> None:
    first = drawn("1")
    assert len(first) == len(set(first)) == DRAWN
    assert first == drawn("1")
    assert len(set(first) & set(drawn("2"))) < DRAWN // 2
    assert {one.kind for one in first} == {"docstring", "comment"}
