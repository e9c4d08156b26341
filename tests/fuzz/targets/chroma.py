"""A Chroma server: any request and any answer is read in one way, or refused."""

from __future__ import annotations

from proxy.backends.chroma.chroma import Chroma
from tests.fuzz.backends import check_backend
from tests.fuzz.choices import words

ADAPTER = Chroma()
_PLACE = (
    b"/api/v2/tenants/default_tenant/databases/default_database/collections/"
    b"0b5e1c6a-3f0e-4f2b-9b53-2b1d6f6f1a11"
)
WORDS = (
    *words(
        """
        ids embeddings documents metadatas uris where where_document n_results limit offset include
        query_embeddings $and $or $eq $in $contains null true --- POST GET DELETE PUT AACAPwAAAAA=
        name get_or_create x-chroma-token /add /update /upsert /delete /get /query /count
        """
    ),
    _PLACE,
)


def check(data: bytes) -> None:
    check_backend(ADAPTER, data)
