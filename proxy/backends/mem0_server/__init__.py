"""Mem0's self-hosted server behind the gate: the REST API of `server/` in Mem0's repository.

Writes are judged message by message. Each is forwarded by itself with the id of its candidate in
its metadata, because the server gives out the keys and says them in its answer alone.
"""
