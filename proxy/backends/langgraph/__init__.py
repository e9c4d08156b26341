"""The adapter of LangGraph's server: its store, and the answers of its runs and threads.

Source: the OpenAPI of `langgraph-api` 0.16.7, and `langgraph-sdk` 0.4.14 against it.
"""
