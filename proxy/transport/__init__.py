"""Sockets, heads of requests, credentials, and the client side to one server."""
