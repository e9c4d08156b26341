"""What a person decides on: the lines that a candidate adds to a place, or takes from it.

Candidates of one principal for one place are decided together. A file or block that a host reads
again has lines, each decided by itself; anything else is decided as a whole.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import Final, NamedTuple

import msgspec

from policy.canonical import canonical_bytes
from policy.labels.derive import read_text
from policy.labels.effect import NOTHING
from policy.labels.floor import is_plain_rule
from policy.labels.forwarded_call import call_of
from policy.model import Candidate, ChangeKind, PrincipalId, Reading
from policy.withheld.pieces import shape_of

LINES_MAX: Final = 512
"""A candidate of more lines is decided as a whole."""
ACTS_OF_DENIAL_MAX: Final = 3
"""After so many denials of a principal in one place, no person is asked there again that day."""
_NOBODY: Final = PrincipalId("-")


class Line(NamedTuple):
    """A line that a change adds (`comes`) or removes, or a whole candidate.

    A decision to admit the line covers other lines only if their `exact` bytes are the same; a
    denial covers all lines of the same `shape`.
    """

    text: str
    comes: bool
    exact: bytes
    whole: bool = False
    # The key of the memory that a removal names: equal words under another key are another memory.
    key: str = ""

    @property
    def shape(self) -> bytes:
        """Bytes that are equal for lines of the same words and key, both added or both removed."""
        said = f"{self.comes:d}{self.key}\0{shape_of(self.text)}"
        return said.encode("utf-8", "surrogatepass")


def lines_of(candidate: Candidate) -> tuple[Line, ...]:
    """The lines of one candidate that a person decides on; at least one."""
    call = call_of(candidate)
    lines: dict[bytes, Line] = {}
    if call is not None and call.place and call.came != NOTHING:
        for at, piece in enumerate(call.pieces):
            for text in filter(str.strip, piece.split("\n")):
                exact = f"{at < call.came:d}{text}".encode("utf-8", "surrogatepass")
                lines.setdefault(exact, Line(text, at < call.came, exact))
    # A candidate without any line would be admitted by any decision, so the whole of it is a line.
    if 0 < len(lines) <= LINES_MAX:
        return tuple(lines.values())
    said = candidate.text or candidate.metadata_json or candidate.memory_id or ""
    # Principal and nonce are left out: equal proposals are one line, whoever sends them.
    bare = msgspec.structs.replace(candidate, principal_id=_NOBODY, nonce="-")
    comes = candidate.change is not ChangeKind.DELETE
    key = "" if call is None or comes else call.key
    return (Line(said, comes=comes, exact=canonical_bytes(bare), whole=True, key=key),)


# One that is not closed reaches to the line's end, so that any line is read in linear time.
_COMMENT: Final = re.compile(r"<!--(.*?)(?:-->|$)")
_READINGS_MAX: Final = 16_384


@lru_cache(maxsize=_READINGS_MAX)
def _reading(text: str) -> Reading:
    return read_text(text, None)


def is_attack(line: str, before: str = "", after: str = "", *, orders: bool = False) -> bool:
    """Whether a line attacks its reader, or names an address beside something at stake.

    The line is read alone and with the lines before and after it. `orders`: any order counts too.
    """
    found = partial(_attacks, orders=orders)
    # A neighbour that is found alone explains what is found in both lines together.
    return (
        found(line)
        or (before != "" and found(f"{before}\n{line}") and not found(before))
        or (after != "" and found(f"{line}\n{after}") and not found(after))
    )


def is_order(line: str, before: str = "", after: str = "", *, as_rules: bool = False) -> bool:
    """Whether a line gives orders, or is an attack (`is_attack`), alone or with its neighbours.

    `as_rules`: the lines around it are rules too, so that a plain rule is no order.
    """
    is_rule = as_rules and is_plain_rule(_COMMENT.sub("", line))
    hides_order = any(_attacks(one, orders=True) for one in _COMMENT.findall(line))
    return is_attack(line, before, after, orders=not is_rule or hides_order)


def _attacks(text: str, *, orders: bool) -> bool:
    reading = _reading(text)
    return reading.injection or reading.at_stake or (orders and reading.directive)
