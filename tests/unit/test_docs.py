"""What the documents say is held against the code: settings, commands, reasons, paths, links."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from policy.ruleset import Ruleset
from policy.verdict import Reason
from proxy.cli.parser import build_parser
from proxy.compose.backends import ADAPTERS
from proxy.compose.dialects import dialects_of
from proxy.dialects.native.decode import ROUTES
from telemetry.events import StoreGauges
from telemetry.metrics import Metrics
from tests import commands_page, settings_page
from tests.benchmarks.__main__ import arguments as bench_arguments
from tests.benchmarks.__main__ import sections as bench_sections
from tests.unit.proxy.tabled import settings_with, tables_of

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "tests/*.md")
    for path in ROOT.glob(pattern)
)
README = (ROOT / "README.md").read_text(encoding="utf-8")
README_LINES_MAX = 200
LOCKS = ("requirements.lock", "requirements-build.lock", "requirements-dev.lock")
TO_COME = " (to come)"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)


def _text(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def test_the_readme_is_read_in_one_sitting() -> None:
    assert len(README.splitlines()) <= README_LINES_MAX


def _rows(text: str, heading: str) -> list[str]:
    """The rows of the first table below a heading, without its head."""
    below = text.split(f"\n{heading}\n", 1)[1]
    table = [line for line in below.split("\n## ", 1)[0].splitlines() if line.startswith("|")]
    return table[2:]


def test_the_page_of_settings_is_printed_from_the_structs_that_read_them() -> None:
    """`python -P -m tests.settings_page` writes it."""
    assert settings_page.printed(_text("docs/settings.md")) == _text("docs/settings.md")
    # Control: each table of the page is one of those.
    rows = sum(len(keys) for keys in settings_page.ROWS.values())
    assert _text("docs/settings.md").count("\n| `") == rows


def test_the_documented_table_of_reads_has_the_defaults() -> None:
    (written,) = re.findall(r"```toml\n(\[after\].*?)```", _text("docs/settings.md"), re.DOTALL)
    assert settings_with(**tomllib.loads(written)).after == settings_with().after


def test_the_readmes_model_tables_are_ones_that_are_taken(tmp_path: Path) -> None:
    written = next(
        block
        for block in re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
        if "[[model]]" in block
    )
    for name in ("anthropic", "openai"):
        headers = tmp_path / f"{name}-headers"
        headers.write_text("X-Key: secret\n")
        headers.chmod(0o600)
    tables = tomllib.loads(written.replace("/run/secrets", str(tmp_path)))
    assert [one.name for one in tables_of("model", tables["model"])] == ["anthropic", "openai"]


def test_the_documented_mcp_tables_are_ones_that_are_taken(tmp_path: Path) -> None:
    written = next(
        block
        for block in re.findall(r"```toml\n(.*?)```", _text("docs/settings.md"), re.DOTALL)
        if "[[mcp]]" in block
    )
    headers = tmp_path / "far-headers"
    headers.write_text("X-Key: secret\n")
    headers.chmod(0o600)
    tables = tomllib.loads(written.replace("/run/secrets", str(tmp_path)))
    assert [server.name for server in tables_of("mcp", tables["mcp"])] == ["memory", "far"]


def test_the_page_of_commands_is_printed_from_the_parser() -> None:
    """`python -P -m tests.commands_page` writes it."""
    assert commands_page.printed(_text("docs/commands.md")) == _text("docs/commands.md")
    assert all(heading in _text("docs/commands.md") for heading in commands_page.tables())


def test_each_dialect_states_its_posture() -> None:
    stated = [
        row.split("|")[1].strip(" `") for row in _rows(_text("docs/clients.md"), "## Dialects")
    ]
    assert stated == [dialect.name for dialect in dialects_of(_no_rules)]


def test_each_adapter_of_a_memory_server_has_its_section() -> None:
    titles = re.findall(r'^## .*\(`adapter = "(\w+)"`\)$', _text("docs/backends.md"), re.MULTILINE)
    assert sorted(titles) == sorted(ADAPTERS)


def _no_rules() -> Ruleset:
    raise NotImplementedError


def test_every_reason_is_explained_once_and_in_order() -> None:
    explained = re.findall(r"^\| `([a-z_]+)` \|", _text("docs/reasons.md"), re.MULTILINE)
    assert explained == [reason.value for reason in Reason]


def test_each_reason_names_a_test_that_speaks_of_it() -> None:
    rows = re.findall(
        r"^\| `([a-z_]+)` \|.*\| `(tests/\S+)` \|$", _text("docs/reasons.md"), re.MULTILINE
    )
    assert [code for code, _ in rows] == [reason.value for reason in Reason]
    silent = [
        (code, test)
        for code, test in rows
        if code not in _text(test) and f"Reason.{code.upper()}" not in _text(test)
    ]
    assert silent == []


def test_each_route_of_the_native_api_is_listed_and_is_one() -> None:
    rows = [re.findall(r"`([^`]+)`", row)[0] for row in _rows(_text("docs/api.md"), "## Routes")]
    assert sorted(rows) == sorted(f"{route.method} {route.template}" for route in ROUTES)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_named_files_exist(document: str) -> None:
    text = _text(document)
    linked = [
        (ROOT / document).parent / target
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    ]
    named = [
        ROOT / path
        for path in re.findall(r"`((?:policy|proxy|storage|telemetry|tests|docs)/[^`…<* ]+)`", text)
        if f"`{path}`{TO_COME}" not in text
    ]
    assert [path for path in (*linked, *named) if not path.exists()] == []
    families = re.findall(
        r"`((?:policy|proxy|storage|telemetry|tests|docs)/[^`…< ]*\*[^`…< ]*)`", text
    )
    assert [family for family in families if not any(ROOT.glob(family))] == []


PLACE = re.compile(r"`((?:policy|proxy|storage|telemetry|tests|docs)/[^`…* ]+)`( \(to come\))?")


def _misplaced(text: str) -> list[str]:
    """Named places that are missing, or that are there and said to come.

    Of `FOLDER/<name>/`, where somebody's own file will be, it is the folder that counts.
    """
    return [
        path
        for path, mark in PLACE.findall(text)
        if (ROOT / re.sub(r"[^/]*<.*", "", path)).exists() is bool(mark)
    ]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_places_for_additions_are_there_or_said_to_come(document: str) -> None:
    assert _misplaced(_text(document)) == []


@pytest.mark.parametrize(
    "wrong",
    ["`proxy/dialects/<name>/` (to come)", "`proxy/dialect/<name>/`", "`proxy/cli/` (to come)"],
)
def test_control_a_place_that_is_told_wrong_is_found(wrong: str) -> None:
    right = "`proxy/dialects/<name>/`, `tests/unit/test_<name>.py`, `proxy/attic/` (to come)"
    assert _misplaced(right) == []
    assert len(_misplaced(f"{right}, {wrong}")) == 1


KINDS = (
    *("A dialect", "A backend behind the gate", "A check", "A front", "A memory layer"),
    *("A journal", "A page"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_contributing_says_where_each_kind_of_addition_goes(kind: str) -> None:
    text = _text("CONTRIBUTING.md")
    place = kind.lower().replace(" ", "-")
    assert f"[{kind[0].lower()}{kind[1:]}](#{place})" in text
    section = text.split(f"\n### {kind}\n")[1].split("\n## ")[0].split("\n### ")[0]
    assert re.search(r"^- `(policy|proxy|storage)/", section, re.MULTILINE), "names where"
    assert "tests/" in section, "names its tests"


def _contracts() -> dict[str, list[str]]:
    """Of each package that has rooms, the layers of its contract, top down."""
    contracts = tomllib.loads(_text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    return {
        package: contract["layers"]
        for contract in contracts
        for package in contract.get("containers", ())
    }


def _pictured(text: str) -> dict[str, list[str]]:
    """The same, as the document draws it: a layer and, two spaces on, what each room is for."""
    picture = text.split("\n## Rooms\n")[1].split("```\n")[1]
    found: dict[str, list[str]] = {}
    for block in picture.strip().split("\n\n"):
        package, *lines = block.splitlines()
        found[package] = []
        for line in lines:
            layer, _, purposes = line.removeprefix("  ").partition("  ")
            assert layer.count(" | ") == purposes.count(" | "), f"one purpose for each: {line}"
            assert purposes.strip(), line
            found[package].append(layer)
    return found


def test_the_picture_of_the_rooms_is_the_one_that_the_import_contracts_hold() -> None:
    contracts = _contracts()
    assert set(contracts) == {"proxy", "storage", "policy"}
    assert _pictured(_text("docs/architecture.md")) == contracts


def test_control_a_picture_with_two_layers_exchanged_or_a_room_left_out_is_another() -> None:
    text = _text("docs/architecture.md")
    exchanged = re.sub(r"(?m)^(  cli .*\n)(  compose .*\n)", r"\2\1", text)
    assert _pictured(exchanged)["proxy"] != _contracts()["proxy"]
    left_out = re.sub(r"(?m)^  settle .*\n", "", text)
    assert _pictured(left_out)["proxy"] != _contracts()["proxy"]


@pytest.mark.parametrize(
    "room",
    [
        f"{package}/{room}"
        for package, layers in _contracts().items()
        for layer in layers
        for room in layer.split(" | ")
    ],
)
def test_each_room_says_what_it_is_and_one_in_brackets_has_no_files(room: str) -> None:
    place = ROOT / room.replace("(", "").replace(")", "")
    sources = [place / "__init__.py", place.with_suffix(".py")]
    there = [source for source in sources if source.is_file()]
    if room.endswith(")"):
        assert (there, place.exists()) == ([], False), "it has files: take the brackets away"
        return
    [source] = there
    assert ast.get_docstring(ast.parse(source.read_bytes())), "a room says what it is"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_make_targets_exist(document: str) -> None:
    makefile = _text("Makefile")
    named = set(re.findall(r"\bmake ([a-z][a-z-]+)\b(?=[`\s])", "\n".join(_code(_text(document)))))
    assert {target for target in named if f"\n{target}:" not in makefile} == set()


def _code(text: str) -> list[str]:
    """Inline code and fenced blocks: prose may use the word "make" as well."""
    return re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL)


def test_decision_numbers_are_unique_and_all_are_listed() -> None:
    files = sorted(path.name for path in (ROOT / "docs/decisions").glob("0*.md"))
    assert len({name[:3] for name in files}) == len(files)
    listed = re.findall(r"\]\((0[^)]+)\)", _text("docs/decisions/README.md"))
    assert listed == files


def test_every_decision_says_what_would_change_our_mind() -> None:
    for path in (ROOT / "docs/decisions").glob("0*.md"):
        headings = re.findall(r"^## (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == ["Options", "Decision", "Drawbacks", "What would change our mind"], path


def _typed(document: str) -> list[list[str]]:
    """Every `mnemogate` line of a document's consoles, as words after the program's name."""
    return [
        shlex.split(line.removeprefix("$ mnemogate "))
        for block in re.findall(r"```console\n(.*?)```", _text(document), re.DOTALL)
        for line in block.splitlines()
        if line.startswith("$ mnemogate ")
    ]


@pytest.mark.parametrize(
    "words",
    [one for page in DOCUMENTS if "examples" not in page for one in _typed(page)],
    ids=" ".join,
)
def test_each_command_of_a_document_is_one_that_the_parser_takes(
    words: list[str],
) -> None:
    asked = build_parser().parse_args(words)
    assert words[: len(asked.command.words)] == list(asked.command.words)


def test_each_metric_of_the_operations_manual_is_exported() -> None:
    metrics = Metrics()
    metrics.set_store(
        StoreGauges(
            version=0,
            epoch=0,
            live_count=0,
            held_count=0,
            leaf_count=0,
            bytes_used=0,
            bytes_quota=0,
            writable=True,
        )
    )
    exported = {
        f"{one.name}_total" if one.type == "counter" else one.name for one in metrics.families()
    }
    named = set(re.findall(r"`(mnemogate_[a-z_]+)", _text("docs/operations.md")))
    assert len(named) > 5, "control: it names some"
    assert named <= exported


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_locks_agree_with_each_other_and_pin_by_hash_alone() -> None:
    pins: dict[str, str] = {}
    for lock in (*LOCKS, "requirements-minilm.lock"):
        text = _text(lock)
        for name, pinned in PINNED.findall(text):
            assert pins.setdefault(_normal(name), pinned) == pinned, f"{lock}: {name}"
        for requirement in re.split(r"\n(?=[A-Za-z0-9])", text):
            assert "==" not in requirement or "--hash=sha256:" in requirement, requirement[:60]
        assert not re.search(r"^-|://|file:|^/", text, re.MULTILINE), lock


def test_the_lock_pins_every_declared_dependency() -> None:
    project = tomllib.loads(_text("pyproject.toml"))
    declared = {
        _normal(re.split(r"[\[<>=!~ ]", requirement)[0])
        for requirement in project["project"]["dependencies"]
    }
    locked = {_normal(name) for name, _ in PINNED.findall(_text("requirements.lock"))}
    assert declared <= locked


def test_what_is_left_out_of_the_lock_is_not_in_it() -> None:
    listed = _text("Makefile").split("NOT_LOCKED := ", 1)[1].split("\n\n", 1)[0]
    left_out = set(listed.replace("\\", " ").split())
    locked = {_normal(name) for name, _ in PINNED.findall(_text("requirements.lock"))}
    assert locked & left_out == set()


HEAVY_TABLES = [
    *("after", "older", "search-quality", "views", "backends", "held", "console", "keys"),
    *("shard", "takeover", "neighbours", "guards"),
]


def test_help_and_documents_name_every_table_of_the_benchmarks() -> None:
    shown = bench_arguments().format_help()
    documented = (
        (ROOT / "tests" / "README.md").read_text(encoding="utf-8").split("## Benchmarks")[1]
    )
    names = {line.split()[0] for line in bench_sections().splitlines()[1:]}
    assert {"search", "startup", "neighbours"} <= names
    for line in bench_sections().splitlines():
        assert line in shown
    for name in names:
        assert f"| `{name}` |" in documented, name
    heavy = [line for line in bench_sections().splitlines() if "only when named" in line]
    assert [line.split()[0] for line in heavy] == HEAVY_TABLES
