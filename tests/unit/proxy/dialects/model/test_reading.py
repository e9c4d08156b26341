"""What the readers of all model APIs share."""

from __future__ import annotations

import pytest

from proxy.dialects.model.reading import arguments_of, call_of


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": {"b": 1}, "c": {"b": 2}}', {"a": {"b": 1}, "c": {"b": 2}}),
        ("", None),
        ("[1]", None),
        ('{"a": 1', None),
        ('{"a": 1} trailing', None),
        (None, None),
        # An agent may take the first of two where we took the last.
        ('{"a": 1, "a": 2}', None),
        ('{"a": {"b": 1, "b": 2}}', None),
        ('{"\\u0061": 1, "a": 2}', None),
    ],
)
def test_arguments_are_one_object_with_each_name_once(
    given: object, expected: dict[str, object] | None
) -> None:
    assert arguments_of(given) == expected  # type: ignore[arg-type]


def test_a_call_stays_a_call_whatever_it_lacks() -> None:
    call = call_of(None, None, None)
    assert (call.call_id, call.name, call.server, call.arguments) == ("", "", None, None)
