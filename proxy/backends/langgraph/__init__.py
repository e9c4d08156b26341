"""LangGraph's server behind the gate: its store, and what its runs and threads answer.

Source: the OpenAPI of `langgraph-api` 0.16.7, and `langgraph-sdk` 0.4.14 against it.
"""
