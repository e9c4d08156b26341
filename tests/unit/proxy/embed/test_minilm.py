"""MiniLM in numpy against its published figures; its files are read strictly and pinned."""

from __future__ import annotations

import hashlib
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec
import numpy as np
import pytest

from proxy.embed.embedding import resolve_embedder
from proxy.embed.minilm import MINILM_FILES, TEXT_CHARS_MAX, MiniLmEmbedder
from proxy.embed.weights import EmbedderUnavailable, ModelFiles, read_tensors
from storage.derived.vectors.faiss_index import check_vectors

installed = pytest.mark.skipif(
    find_spec(MINILM_FILES.package) is None, reason=f"needs the extra: {MINILM_FILES.install_hint}"
)


@pytest.fixture(scope="module")
def embedder() -> MiniLmEmbedder:
    return MiniLmEmbedder()


@installed
def test_similarities_are_those_of_the_sentence_transformers_documentation(
    embedder: MiniLmEmbedder,
) -> None:
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    rows = [np.frombuffer(vector, "<f4") for vector in embedder.embed(texts)]
    assert float(rows[0] @ rows[1]) == pytest.approx(0.6660, abs=1e-4)
    assert float(rows[0] @ rows[2]) == pytest.approx(0.1046, abs=1e-4)
    assert float(rows[1] @ rows[2]) == pytest.approx(0.1411, abs=1e-4)


@installed
def test_every_text_has_one_unit_vector_alone_and_in_a_batch(embedder: MiniLmEmbedder) -> None:
    texts = ["", " ", "\N{PILE OF POO}", "漢字", "word " * 300, "[SEP]", "plain"]
    together = embedder.embed(texts)
    check_vectors(b"".join(together), len(texts), 384)
    assert together == [embedder.embed([text])[0] for text in texts]


@installed
def test_only_the_documented_first_part_of_a_text_counts(embedder: MiniLmEmbedder) -> None:
    start = "word " * 300
    kept, cut = embedder.embed([start, start + "and more"])
    assert kept == cut
    kept, cut = embedder.embed([" " * TEXT_CHARS_MAX, " " * TEXT_CHARS_MAX + "x"])
    assert kept == cut


@installed
def test_the_id_names_model_dimension_and_weights(embedder: MiniLmEmbedder) -> None:
    assert embedder.embedder_id == "all-minilm-l6-v2-384-53aa51172d14"
    assert resolve_embedder("minilm").embedder_id == embedder.embedder_id


@installed
def test_other_weights_than_the_pinned_ones_are_refused() -> None:
    with pytest.raises(EmbedderUnavailable, match="another file"):
        MiniLmEmbedder(msgspec.structs.replace(MINILM_FILES, weights_sha256="0" * 64))


def test_a_missing_extra_is_named() -> None:
    with pytest.raises(EmbedderUnavailable, match=r"mnemogate\[minilm\]"):
        MiniLmEmbedder(msgspec.structs.replace(MINILM_FILES, package="no_such_model"))


def _safetensors(header: object, body: bytes) -> bytes:
    encoded = msgspec.json.encode(header)
    return len(encoded).to_bytes(8, "little") + encoded + body


def _entry(dtype: str, shape: list[int], start: int, stop: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def test_tensors_are_read_as_written() -> None:
    half, whole = np.arange(6, dtype="<f2"), np.arange(2, dtype="<f4")
    header = {
        "__metadata__": {"format": "pt"},
        "a": _entry("F16", [2, 3], 0, 12),
        "b": _entry("F32", [2], 12, 20),
    }
    tensors = read_tensors(_safetensors(header, half.tobytes() + whole.tobytes()))
    assert sorted(tensors) == ["a", "b"]
    assert tensors["a"].tolist() == half.reshape(2, 3).tolist()
    assert tensors["b"].tolist() == whole.tolist()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 7,
        (1 << 40).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (2).to_bytes(8, "little") + b"{",
        _safetensors({"a": _entry("F64", [1], 0, 8)}, bytes(8)),
        _safetensors({"a": _entry("F32", [2], 0, 4)}, bytes(8)),
        _safetensors({"a": _entry("F32", [4], 0, 16)}, bytes(8)),
        _safetensors({"a": _entry("F32", [-1], 4, 0)}, bytes(8)),
        _safetensors({"a": {"dtype": "F32"}}, bytes(8)),
    ],
)
def test_what_is_no_safetensors_file_is_refused(data: bytes) -> None:
    with pytest.raises(EmbedderUnavailable):
        read_tensors(data)


def test_a_package_with_a_missing_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "half_a_model"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "w").write_bytes(_safetensors({}, b""))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    files = ModelFiles(
        package="half_a_model",
        weights="w",
        weights_sha256=hashlib.sha256((package / "w").read_bytes()).hexdigest(),
        tokenizer="t",
        tokenizer_sha256="",
        install_hint="",
    )
    with pytest.raises(EmbedderUnavailable, match="no readable t"):
        files.load()
