"""Anthropic's Messages API: requests, replies and streams."""
