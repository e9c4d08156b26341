"""The store API of LangGraph (`/store/...`), as `langgraph-sdk` speaks it."""

from proxy.dialects.langgraph.store_routes import LangGraph

__all__ = ["LangGraph"]
