"""Decodes and answers the store API of LangGraph (`/store/...`), as `langgraph-sdk` uses it."""

from proxy.dialects.langgraph.store_routes import LangGraphStore

__all__ = ["LangGraphStore"]
