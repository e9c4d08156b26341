"""The places of the shipped hosts (`policy/places.toml`), and those that an operator adds."""

from __future__ import annotations

import functools
import importlib.resources

from policy.places import Patterns, Places, parse_hosts


@functools.lru_cache(maxsize=256)
def places_with(instructions: Patterns = (), facts: Patterns = ()) -> Places:
    """The shipped places, and the places of an operator's lists of instructions and of facts.

    Raises:
        BadPattern: An entry of a list is no path.
    """
    text = importlib.resources.files("policy").joinpath("places.toml").read_text("utf-8")
    return Places(parse_hosts(text), instructions, facts)
