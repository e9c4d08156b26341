"""`[[backend]]` tables: what they may say, and that no secret is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.settings.backend import Before
from proxy.settings.values import BadValue
from tests.unit.proxy.tabled import tables_of

TABLE: dict[str, object] = {
    "name": "store",
    "adapter": "langgraph",
    "url": "http://127.0.0.1:2024/",
}


def test_a_table_is_one_server_with_the_credential_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("x-api-key: s3cret\n")
    file.chmod(0o600)
    more = {"headers_file": str(file), "before": "hide", "principals": ["ada"]}
    (server,) = tables_of("backend", [{**TABLE, **more}])
    assert (server.url, server.headers) == ("http://127.0.0.1:2024", (("x-api-key", "s3cret"),))
    assert (server.before, server.principals) == (Before.HIDE, frozenset({"ada"}))


def test_unset_keys_show_what_was_there_to_all_principals() -> None:
    (server,) = tables_of("backend", [TABLE])
    assert (server.before, server.principals, server.headers) == (Before.SHOW, None, ())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "Store"}, "name"),
        ({"url": "ftp://x"}, "url"),
        ({"before": "burn"}, "before"),
        ({"more": 1}, "more"),
        ({"headers_file": "/nowhere/at/all"}, "headers_file"),
        ({"answer_seconds": 0}, "answer_seconds"),
    ],
)
def test_a_bad_table_is_named_with_its_key(changed: dict[str, object], said: str) -> None:
    with pytest.raises(BadValue, match=said) as refused:
        tables_of("backend", [TABLE, {**TABLE, "name": "two", "adapter": "other", **changed}])
    assert "table 2" in str(refused.value)


@pytest.mark.parametrize("same", ["name", "adapter"])
def test_two_tables_of_one_name_or_adapter_are_refused(same: str) -> None:
    other = {**TABLE, "name": "two", "adapter": "other", same: TABLE[same]}
    with pytest.raises(BadValue, match=f"same {same}"):
        tables_of("backend", [TABLE, other])
