"""Sends admitted writes to upstream servers, and records or looks up their outcomes.

The code is independent of the servers' protocols.
"""
