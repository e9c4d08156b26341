"""The adapter of Mem0's self-hosted server: the REST API of `server/` in Mem0's repository.

Writes are judged message by message. Each message is forwarded by itself with its candidate's id in
the metadata, because the server assigns the keys and reports them only in its answer.
"""
