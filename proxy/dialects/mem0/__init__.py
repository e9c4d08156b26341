"""Parses and answers Mem0's two APIs in store mode: the platform's and the self-hosted server's."""

from proxy.dialects.mem0.oss import Mem0Oss
from proxy.dialects.mem0.platform import Mem0Platform

__all__ = ["Mem0Oss", "Mem0Platform"]
