"""The dialect of notes: any request is an operation or one of two refusals."""

from __future__ import annotations

from tests.fuzz.choices import words
from tests.fuzz.dialects import check_dialect
from tests.integration.sample_dialect.notes import Notes

DIALECT = Notes()
WORDS = words("text about standing true POST DELETE GET HEAD /notes /notes?find= notes-key")


def check(data: bytes) -> None:
    check_dialect(DIALECT, data)
