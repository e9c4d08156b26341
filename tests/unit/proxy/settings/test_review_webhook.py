"""`[review.webhook]`: what it may say, and that a bad one stops the start without its secret."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from proxy.settings.load import load_settings
from proxy.settings.review_webhook import Receiver
from proxy.settings.table import SettingsError
from proxy.settings.values import BadValue
from tests.unit.proxy.tabled import settings_with

GOOD = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()


def secret(base: Path, text: str = GOOD, mode: int = 0o600, name: str = "secret") -> str:
    file = base / name
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def webhook(base: Path, **more: object) -> Receiver:
    written = {"url": "https://a.example/", "secret_file": secret(base), **more}
    found = settings_with(review={"webhook": written}).review_webhook
    assert found is not None
    return found


def test_a_table_with_two_secrets_and_ranges(tmp_path: Path) -> None:
    second = secret(tmp_path, GOOD, name="second")
    found = webhook(tmp_path, second_secret_file=second, allow=["10.1.0.0/16", "fd00::/8"])
    assert found.keys == (b"0123456789abcdef0123456789abcdef",) * 2
    assert [str(one) for one in found.networks] == ["10.1.0.0/16", "fd00::/8"]
    assert GOOD not in repr(found)
    assert settings_with().review_webhook is None


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"url": "http://a.example/"}, "url: must be https://"),
        ({"url": "ftp://a.example/"}, "url"),
        ({"url": "https://u:p@a.example/"}, "url"),
        ({"url": "https://a.example/?x=1"}, "url"),
        ({"allow": ["10.1.0.1/16"]}, "allow"),
        ({"allow": ["all"]}, "allow"),
        ({"allow": "10.0.0.0/8"}, "allow"),
        ({"secret_file": "/does/not/exist"}, "secret_file: must be a file that"),
        (
            {"second_secret_file": "/does/not/exist"},
            "second_secret_file: must be a file that",
        ),
        ({"retries": 3}, "retries"),
        ({"page_url": "https://gate.example/"}, "page_url: no such setting"),
    ],
)
def test_a_bad_table_says_which_key(tmp_path: Path, more: dict[str, Any], says: str) -> None:
    with pytest.raises(BadValue, match=says):
        webhook(tmp_path, **more)


def test_plain_http_needs_the_range_of_its_receiver(tmp_path: Path) -> None:
    assert webhook(tmp_path, url="http://a.example/", allow=["10.0.0.0/8"]).networks


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (GOOD, 0o644),
        (GOOD, 0o602),
        ("whsec_c2hvcnQgYnV0IGxvbmc=", 0o600),
        (GOOD.removeprefix("whsec_"), 0o600),
        ("whsec_*** not base64 ***", 0o600),
        ("whsec_" + "A" * 120, 0o600),
        ("", 0o600),
    ],
)
def test_a_secret_that_is_none_or_open_to_others_is_refused_without_a_word_of_it(
    tmp_path: Path, text: str, mode: int
) -> None:
    with pytest.raises(BadValue, match="secret_file: must be") as caught:
        webhook(tmp_path, secret_file=secret(tmp_path, text, mode, "other"))
    assert len(text) < 10 or text[6:] not in str(caught.value)


@pytest.mark.parametrize("written", ["review = 1", "[review]", "[review.webhook]", "[[review]]"])
def test_a_file_with_half_a_table_stops_the_start(tmp_path: Path, written: str) -> None:
    config = tmp_path / "mnemogate.toml"
    config.write_text(written)
    with pytest.raises(SettingsError, match="review"):
        load_settings({}, environment={"HOME": str(tmp_path)}, config=config, check_places=False)
