"""The store API of LangGraph (`/store/...`), as `langgraph-sdk` speaks it."""

from proxy.dialects.langgraph.store_routes import LangGraphStore

__all__ = ["LangGraphStore"]
