"""Requests and answers of the operator's API, as structs."""
