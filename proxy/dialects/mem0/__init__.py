"""Mem0 in store mode: the platform API and the REST API of the self-hosted server."""

from proxy.dialects.mem0.oss import Mem0Oss
from proxy.dialects.mem0.platform import Mem0Platform

__all__ = ["Mem0Oss", "Mem0Platform"]
