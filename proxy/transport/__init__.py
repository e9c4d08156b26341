"""Listening sockets, heads of requests, credentials, and the HTTP client for upstream servers."""
