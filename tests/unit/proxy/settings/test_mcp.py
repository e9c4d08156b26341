"""`[[mcp]]` tables: what they may say, and that a bad one stops the start without a secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proxy.settings.load import load_settings
from proxy.settings.table import SettingsError
from proxy.settings.values import BadValue
from tests.unit.proxy.tabled import tables_of

URL: dict[str, Any] = {"name": "far", "url": "https://memory.example/mcp"}
RUN: dict[str, Any] = {"name": "near", "command": ["memory-server", "--stdio"]}
SECRETS = {"MNEMOGATE_OPERATOR_KEY": "k" * 20, "OTEL_EXPORTER_OTLP_HEADERS": "k=v"}


def closed(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def test_a_url_with_its_credential(tmp_path: Path) -> None:
    file = closed(tmp_path / "headers", "# ours alone\nAuthorization: Bearer upstream-secret\n\n")
    (server,) = tables_of("mcp", [{**URL, "headers_file": file, "map": "server-memory"}])
    assert server.headers == (("Authorization", "Bearer upstream-secret"),)
    assert server.tool_map is not None
    assert (server.command, server.principals) == (None, None)


def test_a_command_inherits_six_variables_and_no_key_of_ours() -> None:
    ours = {"PATH": "/bin", "HOME": "/h", "MNEMOGATE_OPERATOR_KEY": "k", "OTHER": "x"}
    ours["MEMORY_KEY"] = "secret=${PATH}"
    env = {"FILE": "/m.jsonl", "API_KEY": "${MEMORY_KEY}", "TEXT": "a ${OTHER}"}
    (server,) = tables_of("mcp", [{**RUN, "env": env}])
    assert server.environment(ours, frozenset({"MNEMOGATE_OPERATOR_KEY"})) == {
        "PATH": "/bin",
        "HOME": "/h",
        "FILE": "/m.jsonl",
        "API_KEY": "secret=${PATH}",
        "TEXT": "a ${OTHER}",
    }
    assert server.cwd == "/"
    assert server.command == ("memory-server", "--stdio")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"name": "x"}, "exactly one of url, command"),
        ({**URL, "command": ["x"]}, "exactly one of url, command"),
        ({**URL, "name": "UPPER"}, "name"),
        ({**URL, "name": "a/b"}, "name"),
        ({**URL, "url": "ftp://x/"}, "http:// or https://"),
        ({**URL, "url": "https://u:p@x/"}, "http:// or https://"),
        ({**URL, "url": "https://x/?key=1"}, "http:// or https://"),
        ({**URL, "url": "https://[/"}, "http:// or https://"),
        ({**URL, "env": {"A": "b"}}, "env belongs to a command"),
        ({**RUN, "headers_file": "/x"}, "belongs to a url"),
        ({**RUN, "command": []}, "command: must be a list"),
        ({**RUN, "command": "a string"}, "command: must be a list"),
        ({**RUN, "cwd": "here"}, "absolute"),
        ({**RUN, "env_file": "/secrets"}, "env_file: no such setting; `env` takes"),
        ({**RUN, "idle_seconds": 60}, "idle_seconds: no such setting; an unused"),
        ({**RUN, "map": "no-such-map"}, "no such map"),
        ({**RUN, "principals": []}, "principals: must be a list"),
        ({**RUN, "sessions_max": 0}, "sessions_max: must be a whole number from 1 to 4096"),
        ({**RUN, "unheard": 1}, "unheard"),
        ("not a table", "must be tables"),
    ],
)
def test_a_bad_table_is_named_with_what_is_allowed(table: object, says: str) -> None:
    with pytest.raises(BadValue, match="table 2: ") as error:
        tables_of("mcp", [RUN, table])
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("1A", "b", "no environment can hold"),
        ("A", "${UNSET}", "env: A: names no variable"),
        ("A", "${MNEMOGATE_OPERATOR_KEY}", "env: A: names no variable"),
        ("A", "${OTEL_EXPORTER_OTLP_HEADERS}", "env: A: names no variable"),
    ],
)
def test_a_command_gets_no_secret_of_the_sidecar(
    tmp_path: Path, name: str, value: str, says: str
) -> None:
    file = tmp_path / "mnemogate.toml"
    file.write_text(f'[[mcp]]\nname = "memory"\ncommand = ["x"]\nenv = {{ {name} = "{value}" }}\n')
    with pytest.raises(SettingsError, match="mcp, table 1: ") as error:
        load_settings(environment={"HOME": str(tmp_path), **SECRETS}, config=file)
    assert says in str(error.value)


def test_two_servers_of_one_name_are_refused() -> None:
    with pytest.raises(BadValue, match="same name"):
        tables_of("mcp", [URL, {**RUN, "name": "far"}])


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        ("Authorization: hunter2\n", 0o644, "others cannot read"),
        ("no separator hunter2\n", 0o600, "NAME: VALUE"),
        ("Bad Name: hunter2\n", 0o600, "not a header"),
        ("Host: hunter2\n", 0o600, "made anew"),
        ("Mcp-Name: hunter2\n", 0o600, "made anew"),
        ("X: hunter2\n" * 5_000, 0o600, "at most"),
        ("X: h\u00fcnter2\n", 0o600, "ASCII"),
    ],
)
def test_a_credential_is_read_from_a_closed_file_and_never_quoted(
    tmp_path: Path, text: str, mode: int, says: str
) -> None:
    file = tmp_path / "headers"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(BadValue) as error:
        tables_of("mcp", [{**URL, "headers_file": str(file)}])
    assert says in str(error.value)
    assert "nter2" not in str(error.value)


def test_a_credential_does_not_cross_a_network_in_the_clear(tmp_path: Path) -> None:
    file = closed(tmp_path / "headers", "X-Key: secret\n")
    for url, fine in (
        ("http://memory.example/mcp", False),
        ("http://10.0.0.1/mcp", False),
        ("http://127.0.0.1:9000/mcp", True),
        ("http://[::1]:9000/mcp", True),
        ("https://memory.example/mcp", True),
    ):
        table = {**URL, "url": url, "headers_file": file}
        if fine:
            assert len(tables_of("mcp", [table])) == 1
        else:
            with pytest.raises(BadValue, match="https"):
                tables_of("mcp", [table])


def test_the_file_of_settings_holds_the_tables(tmp_path: Path) -> None:
    file = tmp_path / "mnemogate.toml"
    file.write_text('[[mcp]]\nname = "memory"\ncommand = ["x"]\n')
    environment = {"HOME": str(tmp_path), "PATH": "/bin"}
    settings = load_settings(environment=environment, config=file)
    assert [server.name for server in settings.mcp] == ["memory"]
    file.write_text('[[mcp]]\nname = "memory"\n')
    with pytest.raises(SettingsError, match="mcp, table 1"):
        load_settings(environment=environment, config=file)
    file.write_text('[mcp]\nname = "memory"\n')
    with pytest.raises(
        SettingsError, match="mcp: must be tables, each below its name in double brackets"
    ):
        load_settings(environment=environment, config=file)
