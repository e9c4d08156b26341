"""Chroma's server behind the gate: the records of its collections.

Source: the OpenAPI of `chroma run` 1.5.9, and the `chromadb` client 1.5.9 against it.
"""

from __future__ import annotations

from proxy.backends.chroma.adapter import Chroma

__all__ = ["Chroma"]
