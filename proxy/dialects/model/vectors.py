"""Sets the vectors in an embedding API's answer aside: numbers have no words to search for.

Searched as text, a few hundred vectors would block every other request for a second.
"""

from __future__ import annotations

import binascii
from array import array
from binascii import a2b_base64
from typing import Final

from proxy.dialects.model.reading import list_of
from proxy.dialects.strict_json.tolerant import Json

_ITEMS: Final = "data"
_VECTOR: Final = "embedding"
_LEN_MIN: Final = 64
# The range that nearly all components of vectors lie in. The bytes of a text, read as numbers,
# rarely fall into it.
_LARGEST: Final = 1e3
_LEAST: Final = 1e-5
_SHARE_MIN: Final = 0.95
_NUMBERS: Final = ({float}, {float, int})


def vectors_apart(body: Json) -> tuple[Json, dict[int, Json]]:
    """An answer without its vectors, and the vectors by index.

    The same object if it has none.
    """
    if not isinstance(body, dict):
        return body, {}
    items = list_of(body.get(_ITEMS))
    found: dict[int, Json] = {}
    lean: list[Json] = []
    for at, item in enumerate(items):
        if isinstance(item, dict) and _is_vector(item.get(_VECTOR)):
            found[at] = item[_VECTOR]
            lean.append({**item, _VECTOR: None})
        else:
            lean.append(item)
    return ({**body, _ITEMS: lean}, found) if found else (body, found)


def vectors_back(body: Json, vectors: dict[int, Json]) -> Json:
    """The answer with its vectors back; a vector whose item was removed is dropped."""
    if not vectors or not isinstance(body, dict):
        return body
    items: list[Json] = [
        {**item, _VECTOR: vectors[at]}
        if at in vectors and isinstance(item, dict) and _VECTOR in item
        else item
        for at, item in enumerate(list_of(body.get(_ITEMS)))
    ]
    return {**body, _ITEMS: items} if _ITEMS in body else body


def _is_vector(value: Json) -> bool:
    if isinstance(value, list):
        # A list of whole numbers is no vector. It may be a text, given as a model's token numbers.
        return len(value) >= _LEN_MIN and set(map(type, value)) in _NUMBERS
    if not isinstance(value, str) or not value.isascii():
        return False
    try:
        data = a2b_base64(value, strict_mode=True)
    except binascii.Error:
        return False
    if len(data) < 4 * _LEN_MIN or len(data) % 4:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        # `array` reads this machine's byte order, which is little-endian like that of the API.
        fit = sum(_LEAST < abs(one) < _LARGEST for one in array("f", data))
        return 4 * fit >= _SHARE_MIN * len(data)
    return False
