"""Analysis of a text into words, and the keyed hashes under which the index holds the words.

The index contains hashes alone: no word is in it or in its files. The key is the store's, and the
salt the tenant's, so that equal words of two tenants have different hashes. So each tenant has
statistics of its own, and no search needs a filter by tenant.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from typing import Any, Final

import numpy as np
import Stemmer  # pyright: ignore[reportMissingTypeStubs] - a compiled module without stubs
from numpy.typing import NDArray

from policy.model import Tenant
from storage.tables.keys import KeyedNames

Hashes = NDArray[np.uint64]

_library: Final[Any] = Stemmer

WORDS_MAX: Final = 4_096
"""How many words of one text are counted; the others are not found by search."""
ANALYSIS_ID: Final = blake2b(
    f"1 {unicodedata.unidata_version} {_library.version()}".encode(), digest_size=4
).digest()
"""The version of the analysis; hashes of another version are never compared with those of this."""

_KEPT_MAX: Final = 65_536
_KEPT_LEN_MAX: Final = 64
_HASH_LEN: Final = 8
_WORD: Final = re.compile(r"[^\W_]+(?:[-_.:/@'’+][^\W_]+)*")  # noqa: RUF001 - an apostrophe
_JOINT: Final = re.compile(r"[-_.:/@'+]")
_HUMP: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
# Scripts without spaces between words: Japanese, Chinese, Korean.
_UNSPACED: Final = re.compile(
    r"[々〆\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]+"
)
_STOP_WORDS_LINE: Final = (
    "a an and are as at be but by for from had has have he her his i if in into is it its me my no "
    "not of on or our she so such that the their them then there these they this to was we were "
    "what when where which who will with you your do does did how why"
)
STOP_WORDS: Final = frozenset(_STOP_WORDS_LINE.split())
_stemmer: Final[Any] = _library.Stemmer("english")


def terms_of(word: str) -> tuple[str, ...]:
    """The terms of one word of a text in NFKC: itself, and its parts if it has any."""
    if word.isascii():
        return tuple(_spaced_terms(word))
    terms: list[str] = []
    runs = _UNSPACED.findall(word)
    for run in runs:
        pairs = [run[at : at + 2] for at in range(len(run) - 1)]
        terms.extend(pairs or [run])
    for part in _UNSPACED.sub(" ", word).split():
        terms.extend(_spaced_terms(part))
    return tuple(terms)


def _spaced_terms(word: str) -> list[str]:
    whole = word.casefold()
    if not whole.isascii():
        # Case folding may undo the composition of a letter with its mark.
        whole = unicodedata.normalize("NFKC", whole.replace("’", "'"))  # noqa: RUF001
    whole = whole.removesuffix("'s")
    if whole.isalpha():
        if whole in STOP_WORDS:
            return []
        if any(letter.isupper() for letter in word[1:]) and not word.isupper():
            return [whole, *(_stem(hump.casefold()) for hump in _HUMP.findall(word))]
        return [_stem(whole)]
    parts = _JOINT.split(whole)
    if len(parts) == 1:
        return [whole]
    return [whole, *(_stem(part) for part in parts if part and part not in STOP_WORDS)]


def _stem(word: str) -> str:
    # Snowball's English rules are about plain letters.
    return str(_stemmer.stemWord(word)) if word.isascii() and word.isalpha() else word


class _TenantWords(dict[str, tuple[int, ...]]):
    """The hashes of one tenant's words; `hashed` computes those of a word that is not in it."""

    def __init__(self, hashed: Callable[[str], tuple[int, ...]]) -> None:
        super().__init__()
        self._hashed = hashed

    def __missing__(self, word: str) -> tuple[int, ...]:
        hashes = self._hashed(word)
        if len(word) <= _KEPT_LEN_MAX:
            self[word] = hashes
        return hashes


class WordHashes:
    """Hashes of the words of texts. Any thread."""

    def __init__(self, names: KeyedNames) -> None:
        self._names = names
        self._key = names.seal("words")
        # Hashes are kept in memory, because most words of a text are common ones.
        self._kept: dict[Tenant, _TenantWords] = {}
        self._count = 0

    def of(self, tenant: Tenant, text: str) -> list[int]:
        """The hashes of a text's words in order, repeated ones too; at most `WORDS_MAX`."""
        if not text.isascii():
            text = unicodedata.normalize("NFKC", text)
        if self._count >= _KEPT_MAX:
            self.forget()
        kept = self._kept  # another thread may forget meanwhile
        if tenant not in kept:
            kept[tenant] = _TenantWords(partial(self._hashed, tenant))
        hashes = map(kept[tenant].__getitem__, _WORD.findall(text))
        return list(islice(chain.from_iterable(hashes), WORDS_MAX))

    def packed(self, tenant: Tenant, text: str) -> bytes:
        """The words of a question: the version of the analysis, then each word's hash once."""
        hashes = list(dict.fromkeys(self.of(tenant, text)))
        return ANALYSIS_ID + np.array(hashes, dtype="<u8").tobytes() if hashes else b""

    def forget(self) -> None:
        """Drop the words in memory, because a purge may have erased their text."""
        self._kept, self._count = {}, 0

    def _hashed(self, tenant: Tenant, word: str) -> tuple[int, ...]:
        self._count += 1
        salt = self._names.tenant(tenant)
        hashed = partial(blake2b, digest_size=_HASH_LEN, key=self._key, salt=salt)
        digests = [hashed(term.encode()).digest() for term in terms_of(word)]
        return struct.unpack(f"<{len(digests)}Q", b"".join(digests))


def unpacked(words: bytes) -> Hashes | None:
    """The hashes of a packed question; None if another version of the analysis made them."""
    if words and not words.startswith(ANALYSIS_ID):
        return None
    return np.frombuffer(words[len(ANALYSIS_ID) :], dtype="<u8").astype(np.uint64, copy=False)
