"""Two facts about a conversation that only an operator knows: who writes which texts in it."""

from __future__ import annotations

import enum


class UserTurns(enum.Enum):
    """Who stands behind the user turns of a model API; only an operator knows.

    Where the operator does not say, a text counts only behind an explicit request to remember.
    """

    __hash__ = object.__hash__

    PERSON = "person"  # People type the user turns.
    PROGRAM = "program"  # A program writes the user turns, with other people's words in them.


class SystemText(enum.Enum):
    """Who answers for what an agent's program adds to its prompt as a conversation goes on."""

    # KNOWN: only a person's prompt as it was said before, and memories with their labels, count as
    # known; any other text that was added to the prompt counts as unknown
    KNOWN = "known"
    # TRUSTED: the operator vouches that the agent's program answers for all text in the prompt.
    TRUSTED = "trusted"
