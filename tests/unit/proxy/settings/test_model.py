"""`[[model]]` tables: what they may say, and that a bad one stops the start without a secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policy.ruleset import ClassMap
from proxy.dialects.mem0 import Mem0Oss
from proxy.fronts.admin import admin_routes
from proxy.seams.operation import HttpRequest
from proxy.settings.load import load_settings
from proxy.settings.model import RESERVED, Api
from proxy.settings.table import SettingsError
from proxy.settings.values import BadValue
from tests.unit.proxy.tabled import tables_of

TABLE: dict[str, Any] = {"name": "openai", "api": "openai", "url": "https://api.example/"}


def test_a_table_with_its_credential(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("x-api-key: provider-secret\n")
    file.chmod(0o600)
    table = {"name": "anthropic", "api": "anthropic", "url": "https://api.example"}
    (one,) = tables_of("model", [{**table, "headers_file": str(file)}])
    assert (one.api, one.headers) == (Api.ANTHROPIC, (("x-api-key", "provider-secret"),))
    assert one.principals is None
    (other,) = tables_of("model", [{**TABLE, "principals": ["a"]}])
    assert (other.url, other.principals) == ("https://api.example", frozenset({"a"}))


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"name": "x"}, "api"),
        ({**TABLE, "api": "mistral"}, "api: must be one of anthropic, openai, gemini"),
        ({**TABLE, "name": "v1"}, "another front"),
        ({**TABLE, "name": "a/b"}, "name"),
        ({**TABLE, "url": "ftp://x/"}, "http:// or https://"),
        ({**TABLE, "url": "https://u:p@x/"}, "http:// or https://"),
        ({**TABLE, "headers_file": "/does/not/exist"}, "headers_file"),
        ({**TABLE, "hosted_state": "allow"}, "hosted_state: no such setting; what writes"),
        ({**TABLE, "answer_seconds": 0}, "answer_seconds"),
        ({**TABLE, "request_bytes_max": 1}, "request_bytes_max"),
        ({**TABLE, "unheard": 1}, "unheard"),
        ("not a table", "must be tables"),
    ],
)
def test_a_bad_table_is_named_with_what_is_allowed(table: object, says: str) -> None:
    with pytest.raises(BadValue, match="table 2: ") as error:
        tables_of("model", [{**TABLE, "name": "first"}, table])
    assert says in str(error.value)


def test_user_turns_are_foreign_only_where_the_operator_says_so() -> None:
    plain: dict[str, object] = {"name": "one", "api": "anthropic", "url": "http://127.0.0.1:1"}
    assert not tables_of("model", [plain])[0].reads_foreign
    assert tables_of("model", [{**plain, "reads_foreign": True}])[0].reads_foreign


@pytest.mark.parametrize("key", ["user_turns", "system_text"])
def test_a_setting_that_went_names_what_replaced_it(key: str) -> None:
    plain: dict[str, object] = {"name": "one", "api": "anthropic", "url": "http://127.0.0.1:1"}
    with pytest.raises(BadValue, match=f"{key}: no such setting"):
        tables_of("model", [{**plain, key: "person"}])


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(BadValue, match="same name"):
        tables_of("model", [TABLE, TABLE])


def test_a_credential_does_not_travel_in_the_clear(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer provider-secret\n")
    file.chmod(0o600)
    table = {**TABLE, "url": "http://api.example", "headers_file": str(file)}
    with pytest.raises(BadValue, match="https") as error:
        tables_of("model", [table])
    assert "provider-secret" not in str(error.value)
    assert tables_of("model", [{**table, "url": "http://127.0.0.1:9/v1"}])


def test_no_name_may_be_another_fronts_first_segment() -> None:
    dialect = Mem0Oss(_no_classes)
    claimed = {
        one for one in RESERVED if dialect.claims(HttpRequest(method="POST", path=f"/{one}"))
    }
    assert {"memories", "search", "entities", "configure", "reset"} <= claimed
    admin = {route.split("/")[1] for route in admin_routes() if route.startswith("/")}
    assert admin <= RESERVED
    assert {"v1", "v2", "v3", "mem0", "mcp", "api", "store"} <= RESERVED


def _no_classes() -> ClassMap:
    raise NotImplementedError


def test_the_file_of_settings_names_them(tmp_path: Path) -> None:
    config = tmp_path / "mnemogate.toml"
    config.write_text('[[model]]\nname = "local"\napi = "openai"\nurl = "http://127.0.0.1:9/v1"\n')
    environment = {"HOME": str(tmp_path)}
    (one,) = load_settings(environment=environment, config=config).model
    assert one.name == "local"
    config.write_text("model = 3\n")
    with pytest.raises(SettingsError, match="model: must be tables, each below its name in double"):
        load_settings(environment=environment, config=config)


@pytest.mark.parametrize(
    "removed", [{"confirm": "reply"}, {"confirm": "page"}, {"confirm_tools": []}]
)
def test_a_removed_setting_is_an_error_that_names_its_successor(removed: dict[str, object]) -> None:
    (key,) = removed
    with pytest.raises(BadValue) as error:
        tables_of("model", [{**TABLE, **removed}])
    message = str(error.value)
    assert message.startswith(f"model, table 1: {key}: no such setting; a person decides on")
    assert "\n" not in message
    for successor in ("the page", "`mnemogate review`", "`[review.webhook]`"):
        assert successor in message
    # Control: the error of a key that never was names no successor.
    with pytest.raises(BadValue, match=r"confirms: no such setting$") as error:
        tables_of("model", [{**TABLE, "confirms": "page"}])
    assert "review" not in str(error.value)
