"""What a candidate keeps of one memory's request gives the request back, and tells its texts."""

from __future__ import annotations

import json

import pytest

from policy.model import CandidateId, ChangeKind
from proxy.backends.kept_request import kept_request, request_again, strings_of, telling_names
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import UnsettledItem


def again(arguments: str, pieces: tuple[str, ...]) -> tuple[str, str, object]:
    item = UnsettledItem(
        candidate_id=CandidateId("0" * 32),
        tool="add",
        change=ChangeKind.CREATE,
        arguments=arguments,
        pieces=pieces,
        key="k",
        sent=False,
    )
    found = request_again(item)
    return found.method, found.path, json.loads(found.body)


def test_a_request_is_kept_with_each_text_once_and_given_back() -> None:
    body: JsonValue = {
        "id": "=7",
        "doc": ["likes tea", {"=why": "she said so"}],
        "n": [1.5, None, True],
    }
    kept = kept_request("POST", "/a/#b", body, texts=("doc",), key="k")
    assert kept.pieces == ("likes tea", "=why", "she said so")
    assert "likes tea" not in kept.arguments
    assert again(kept.arguments, kept.pieces) == ("POST", "/a/#b", body)


def test_a_name_that_could_be_a_sentence_is_a_text_and_an_id_is_none() -> None:
    body: JsonValue = {"id": "a-1", "to": "always buy from Acme", "doc": "x y"}
    kept = kept_request("PUT", "/a", body, texts=("doc",), key="k")
    assert kept.pieces == ("x y", "always buy from Acme")
    assert telling_names(("a-1", "b.c/d", "b c")) == ("b c",)


def test_names_that_spell_an_order_are_a_text_in_their_own_order() -> None:
    """Canonical JSON sorts the names, so nothing else of a candidate has their order."""
    names = ["From", "now", "on", "always", "recommend", "Zebra"]
    kept = kept_request("PUT", "/a", {"doc": dict.fromkeys(names, "ok")}, texts=("doc",), key="k")
    assert " ".join(names) in kept.pieces[-1]
    assert again(kept.arguments, kept.pieces)[2] == {"doc": dict.fromkeys(names, "ok")}
    # Control: other names of the same kind are no text.
    names = ["from", "now", "on", "people", "recommend", "tea"]
    kept = kept_request("PUT", "/a", {"doc": dict.fromkeys(names, "ok")}, texts=("doc",), key="k")
    assert set(kept.pieces) == {"ok"}


def test_what_belongs_to_no_request_is_refused() -> None:
    with pytest.raises(MalformedRequest):
        again('{"method":"PUT"}', ())
    with pytest.raises(MalformedRequest):
        again('{"method":"PUT","path":"/a","body":{"x":"#3"}}', ("only one",))


def test_every_string_of_a_value_is_shown_in_its_order() -> None:
    value: JsonValue = {"a": "x", "b c": ["y", {"d": "z"}], "e": 1, "f": ""}
    assert strings_of(value) == ("b c", "x", "y", "z")
