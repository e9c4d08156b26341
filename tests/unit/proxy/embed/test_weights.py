"""Model files: read strictly, and only the pinned ones."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from proxy.embed.weights import EmbedderUnavailable, ModelFiles, read_tensors


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
