"""A removed command, or option, is refused by name: the error contains its successor."""

from __future__ import annotations

import pytest

from proxy.cli.entry import main
from proxy.cli.parser import build_parser

RENAMED = {
    "memory parole": "memory unhide",
    "review vouch": "memory confirm",
    "review settle": "review resolve",
    "review adopt": "backend import",
    "backend adopt": "backend import",
}


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_word_is_refused_with_the_new_one(
    old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*old.split(), "an-id", "--yes"]) == 2
    said = capsys.readouterr()
    assert (said.out, f"it is `{new}`" in said.err) == ("", True)
    # Control: the successor is a command, and the old word is no alias of it.
    words = tuple(new.split())
    more = ["done"] if new == "review resolve" else []
    assert build_parser(*words).parse_args([*words, "an-id", *more]).command.words == words


def test_an_old_option_is_refused_with_the_new_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backend", "import", "--vouch", "0" * 64, "notes"]) == 2
    assert "takes no --vouch; --confirm" in capsys.readouterr().err


def test_a_word_that_never_was_has_no_successor(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["memory", "pardon", "an-id"])
    assert "it is `" not in capsys.readouterr().err
