"""Which package may import what, as allowlists: a new import is a decision, not an accident.

`lint-imports` holds the layers; this holds everything else, third-party and standard library.
"""

from __future__ import annotations

import ast
import sys

import pytest

from tests.trees import nodes_of, shipped_trees

BROAD = {"Exception", "BaseException"}

# Modules of the standard library that read no clock, draw no number and open nothing.
PURE = frozenset({
    "__future__", "array", "base64", "binascii", "bisect", "collections", "difflib", "enum",
    "functools", "hashlib",
    "heapq", "html", "itertools", "math", "operator", "re", "string", "struct", "types", "typing",
    "posixpath", "unicodedata", "zlib",
})  # fmt: skip

# The longest matching folder decides. A name allows itself and everything below it.
ALLOWED: dict[str, frozenset[str]] = {
    # What was read of a long text is kept, and long texts are read on threads as well. Its
    # word lists come with the package.
    "policy": PURE
    | {"policy", "msgspec", "threading.Lock", "tomllib", "urllib.parse", "importlib.resources"},
    "proxy/dialects": PURE
    | {"policy", "msgspec", "rfc8785", "proxy.dialects", "proxy.seams"}
    # Parsing only: a test below refuses the calls that read the clock.
    | {"datetime", "json", "tomllib", "urllib.parse", "uuid"}
    # For the lists of places that the package brings.
    | {"importlib.resources"},
    "proxy/backends": PURE
    | {"policy", "msgspec", "proxy.backends", "proxy.dialects", "proxy.seams"}
    # Parsing only, as above.
    | {"datetime", "json"},
    "telemetry": PURE
    | {"policy.bounded", "policy.model", "policy.verdict", "telemetry", "msgspec", "opentelemetry"}
    | {"prometheus_client", "contextlib", "http", "json", "logging", "socket", "ssl", "threading"}
    | {"time", "urllib.parse", "hmac.compare_digest", "os.write", "select.select"},
    "storage": PURE
    | {"policy", "storage", "msgspec", "lmdb", "faiss", "numpy", "cryptography"}
    | {"Stemmer", "re", "unicodedata"}
    | {
        "array",
        "asyncio",
        "concurrent",
        "contextlib",
        "datetime",
        "errno",
        "fcntl",
        "grp",
        "os",
        "pathlib",
        "pwd",
        "stat",
    }
    | {"hmac.compare_digest", "io.BytesIO", "queue", "secrets", "shutil", "threading", "time"},
    "proxy": frozenset(sys.stdlib_module_names)
    | {"policy", "proxy", "telemetry", "msgspec", "rfc8785", "aiohttp", "jinja2", "markupsafe"}
    # Of the store its values, the names of its parts, and the one place that opens it.
    | {"storage.audit", "storage.ground.clock", "storage.ground.errors"}
    | {"storage.interfaces", "storage.opening", "storage.shard"}
    | {"storage.ground.trusted_files"}
    | {"storage.questions", "storage.values"}
    | {"storage.features"}
    | {"brotli", "cryptography", "multidict", "numpy", "tokenizers", "zstandard"},
}

# The one sink whose SDK is an extra, and the one journal whose client is an extra.
ALLOWED["proxy/reporting"] = ALLOWED["proxy"] | {"sentry_sdk"}
ALLOWED["storage/journal"] = ALLOWED["storage"] | {"asyncpg", "ipaddress", "urllib.parse"}

# Attribute -> the one file that may use it.
ONE_PLACE = {
    "os.environ": {"proxy/settings/load.py"},
    "os.environb": set[str](),
    "os.getenv": set[str](),
    "os.putenv": set[str](),
    "json.load": set[str](),
    "json.loads": {"proxy/dialects/strict_json/strict.py"},
}
# The gate turns a check that raises into a refusal, the front turns the rest into an answer, and
# the search for a culprit leaves a case to a person, as the watch of rules opens none.
BROAD_EXCEPT = {
    "policy/gate.py": 1,
    "proxy/transport/responses.py": 1,
    "proxy/seams/slices.py": 1,
    "proxy/aftermath/blame_search.py": 1,
    "proxy/aftermath/rule_watch.py": 1,
    "proxy/cli/hook.py": 1,
    "storage/shard.py": 1,
}


def _folder(path: str) -> str:
    return max((folder for folder in ALLOWED if path.startswith(f"{folder}/")), key=len)


def _imports(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def _covered(name: str, allowed: frozenset[str]) -> bool:
    return any(name == entry or name.startswith(f"{entry}.") for entry in allowed)


def _dotted(node: ast.Attribute) -> str:
    return f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else ""


def test_each_module_imports_only_what_its_package_may() -> None:
    more = {
        path: {name for name in _imports(tree) if not _covered(name, ALLOWED[_folder(path)])}
        for path, tree in shipped_trees().items()
    }
    assert {path: names for path, names in more.items() if names} == {}


def _of_tests(tree: ast.Module) -> set[str]:
    """What a module names of the tests: in an import, or in a text that may become one."""
    texts = {
        node.value
        for node in nodes_of(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {name for name in _imports(tree) | texts if _covered(name, frozenset({"tests"}))}


def test_no_product_code_names_a_module_of_the_tests() -> None:
    # What is wrong on purpose is there, and is not installed with the program.
    named = {path: _of_tests(tree) for path, tree in shipped_trees().items()}
    assert {path: names for path, names in named.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import tests.evaluate.unsafe",
        "from tests.evaluate import unsafe",
        "def f():\n    from tests import evaluate",
        "if TYPE_CHECKING:\n    import tests",
        "importlib.import_module('tests.evaluate.unsafe')",
        "run(sys.executable, '-m', 'tests.evaluate')",
    ],
)
def test_control_a_module_of_the_tests_is_seen_however_it_is_named(line: str) -> None:
    assert _of_tests(ast.parse(line)) != set()


@pytest.mark.parametrize(
    "folder", ["policy", "proxy/backends", "proxy/dialects", "storage", "telemetry"]
)
def test_no_allowance_outlives_its_last_use(folder: str) -> None:
    used = {
        name
        for path, tree in shipped_trees().items()
        if _folder(path) == folder
        for name in _imports(tree)
    }
    unused = {
        entry
        for entry in ALLOWED[folder] - PURE
        if not any(_covered(name, frozenset({entry})) for name in used)
    }
    assert unused == set()


def test_environment_and_untyped_json_are_read_in_one_place() -> None:
    elsewhere: list[str] = []
    for path, tree in shipped_trees().items():
        used = {_dotted(node) for node in nodes_of(tree) if isinstance(node, ast.Attribute)}
        used |= _imports(tree)  # `from os import environ` is the same thing
        elsewhere += [
            f"{path}: {name}"
            for name, where in ONE_PLACE.items()
            if name in used and path not in where
        ]
    assert elsewhere == []


def test_no_table_of_an_engine_is_reached_for_from_outside_storage() -> None:
    reaching = [
        path
        for path, tree in shipped_trees().items()
        if not path.startswith("storage/")
        and any(isinstance(node, ast.Attribute) and node.attr == "lmdb" for node in nodes_of(tree))
    ]
    assert reaching == []


def _is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in BROAD for node in ast.walk(handler.type))


def _broad_handlers(tree: ast.Module) -> int:
    handlers = [node for node in nodes_of(tree) if isinstance(node, ast.ExceptHandler)]
    calls = [node for node in nodes_of(tree) if isinstance(node, ast.Call)]
    suppressed = [
        argument
        for call in calls
        if getattr(call.func, "attr", getattr(call.func, "id", "")) == "suppress"
        for argument in call.args
        if isinstance(argument, ast.Name) and argument.id in BROAD
    ]
    return sum(map(_is_broad, handlers)) + len(suppressed)


def test_exceptions_are_caught_broadly_where_the_answer_is_no_or_they_are_raised_again() -> None:
    found = {path: _broad_handlers(tree) for path, tree in shipped_trees().items()}
    assert {path: count for path, count in found.items() if count} == BROAD_EXCEPT


def test_shipped_code_has_no_assert_because_dash_o_removes_it() -> None:
    asserting = [
        path
        for path, tree in shipped_trees().items()
        if any(isinstance(node, ast.Assert) for node in nodes_of(tree))
    ]
    assert asserting == []


IMPURE_CALLS = {"open", "print", "input", "eval", "exec", "compile", "__import__"}
CLOCK_CALLS = {"now", "today", "utcnow", "uuid1", "uuid4"}


def _impurities(tree: ast.Module) -> list[str]:
    """What waits, reads a clock or reaches outside, with its line."""
    return [
        f"{node.lineno}: {ast.unparse(node)[:60]}"
        for node in nodes_of(tree)
        if isinstance(node, ast.AsyncFunctionDef | ast.Await)
        or (
            isinstance(node, ast.Call)
            and (
                (isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS)
                or (isinstance(node.func, ast.Attribute) and node.func.attr in CLOCK_CALLS)
            )
        )
    ]


def test_policy_and_dialects_wait_for_nothing_and_read_no_clock() -> None:
    pure = {"policy", "proxy/backends", "proxy/dialects"}
    found = {
        path: _impurities(tree) for path, tree in shipped_trees().items() if _folder(path) in pure
    }
    assert {path: where for path, where in found.items() if where} == {}
    assert _impurities(ast.parse("at = datetime.now()")) == ["1: datetime.now()"], "control"


def test_the_broad_handler_search_finds_one_when_it_is_there() -> None:
    source = (
        "try:\n    x()\nexcept (KeyError, Exception):\n    pass\nwith suppress(Exception):\n    y()"
    )
    assert _broad_handlers(ast.parse(source)) == 2


def test_the_allowlist_refuses_a_sibling_with_a_similar_name() -> None:
    assert not _covered("proxy.seams_lax", ALLOWED["proxy/dialects"])
    assert not _covered("os", ALLOWED["policy"])
