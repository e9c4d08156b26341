"""What the documents say is held against the code: settings, commands, reasons, paths, links."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from policy.verdict import Reason
from proxy.cli.parser import COMMANDS, build_parser
from proxy.dialects.mem0 import Mem0Oss, Mem0Platform
from proxy.dialects.native import Native
from proxy.mcp_settings import MEANINGS, mcp_servers
from proxy.model_settings import MEANINGS as MODEL_MEANINGS
from proxy.model_settings import model_upstreams
from proxy.settings import setting_table
from telemetry.events import StoreGauges
from telemetry.metrics import Metrics
from tests.benchmarks.__main__ import arguments as bench_arguments
from tests.benchmarks.__main__ import sections as bench_sections

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "tests/*.md")
    for path in ROOT.glob(pattern)
)
README = (ROOT / "README.md").read_text(encoding="utf-8")
LOCKS = ("requirements.lock", "requirements-build.lock", "requirements-dev.lock")
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)


def _text(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def _rows(text: str, heading: str) -> list[str]:
    """The rows of the first table below a heading, without its head."""
    below = text.split(f"\n{heading}\n", 1)[1]
    table = [line for line in below.split("\n## ", 1)[0].splitlines() if line.startswith("|")]
    return table[2:]


def test_the_readme_lists_every_setting_with_its_default_and_meaning() -> None:
    expected = [
        f"| `{name}` | {f'`{default}`' if default else ''} | {meaning} |"
        for name, _variable, default, meaning in setting_table()
    ]
    assert _rows(README, "## Settings") == expected


def test_the_readme_lists_every_key_of_an_mcp_table() -> None:
    expected = [f"| `{name}` | {meaning} |" for name, meaning in MEANINGS.items()]
    assert _rows(README, "## MCP servers") == expected


def test_the_readme_lists_every_key_of_a_model_table() -> None:
    expected = [f"| `{name}` | {meaning} |" for name, meaning in MODEL_MEANINGS.items()]
    assert _rows(README, "## Model APIs") == expected


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
    assert [one.name for one in model_upstreams(tables["model"])] == ["anthropic", "openai"]


def test_the_readmes_mcp_tables_are_ones_that_are_taken(tmp_path: Path) -> None:
    written = next(
        block for block in re.findall(r"```toml\n(.*?)```", README, re.DOTALL) if "[[mcp]]" in block
    )
    headers = tmp_path / "far-headers"
    headers.write_text("X-Key: secret\n")
    headers.chmod(0o600)
    tables = tomllib.loads(written.replace("/run/secrets", str(tmp_path)))
    assert [server.name for server in mcp_servers(tables["mcp"], {})] == ["memory", "far"]


def test_each_setting_has_the_environment_variable_the_readme_promises() -> None:
    assert all(variable == f"MNEMOGATE_{name.upper()}" for name, variable, _, _ in setting_table())


def test_the_readme_lists_every_command_in_the_parsers_words() -> None:
    expected = [f"| `mnemogate {' '.join(c.words)}` | {c.summary} |" for c in COMMANDS]
    assert _rows(README, "## Commands") == expected


def test_each_dialect_states_its_posture() -> None:
    stated = [row.split("|")[1].strip(" `") for row in _rows(README, "## Dialects")]
    assert stated == [Native.name, Mem0Platform.name, Mem0Oss.name]


def test_every_reason_is_explained_once_and_in_order() -> None:
    explained = re.findall(r"^\| `([a-z_]+)` \|", _text("docs/reasons.md"), re.MULTILINE)
    assert explained == [reason.value for reason in Reason]


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
    ]
    assert [path for path in (*linked, *named) if not path.exists()] == []


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
    assert [name[:3] for name in files] == [f"{number:03}" for number in range(1, len(files) + 1)]
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


@pytest.mark.parametrize("words", _typed("docs/operations.md"), ids=" ".join)
def test_each_command_of_the_operations_manual_is_one_that_the_parser_takes(
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


def test_help_and_documents_name_every_table_of_the_benchmarks() -> None:
    shown = bench_arguments().format_help()
    documented = (
        (ROOT / "tests" / "README.md").read_text(encoding="utf-8").split("## Benchmarks")[1]
    )
    names = {line.split()[0] for line in bench_sections().splitlines()[1:]}
    assert {"search", "growth", "neighbours"} <= names
    for line in bench_sections().splitlines():
        assert line in shown
    for name in names:
        assert f"| `{name}` |" in documented, name
    heavy = [line for line in bench_sections().splitlines() if "only when named" in line]
    assert [line.split()[0] for line in heavy] == ["growth", "neighbours"]
