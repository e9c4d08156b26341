"""Who writes what a conversation shows: two facts that only an operator knows."""

from __future__ import annotations

import enum


class UserTurns(enum.Enum):
    """Who stands behind the user turns of a model API; only an operator knows.

    Where none says so, a text counts only where an explicit request to remember comes before it.
    """

    __hash__ = object.__hash__

    PERSON = "person"  # people type them
    PROGRAM = "program"  # a program writes them, with other people's words in them


class SystemText(enum.Enum):
    """Who answers for what a program adds to its prompt when the conversation goes on."""

    # KNOWN: a person's prompt as it was said before, and memories by their labels; the rest is
    # unknown
    KNOWN = "known"
    TRUSTED = "trusted"  # TRUSTED: the program answers for all of it
