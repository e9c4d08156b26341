"""The class floor: the least class of a text that gives orders, by who is known to have said it.

An order steers every later reader, so it is policy (L1), which no conversation may write. A
person's own order is a wish about her agent: it may be one of her preferences (L2).
"""

from __future__ import annotations

import re
from typing import Final

from policy.labels.derive import read_candidate
from policy.labels.forwarded_call import call_of
from policy.model import Basis, Candidate, ChangeKind, MemoryClass, Provenance, Reading, SourceKind
from policy.text.addresses import names_address
from policy.text.skeleton import skeleton

LEN_MAX: Final = 240
SENTENCES_MAX: Final = 2

# A sentence ends at a mark after a word, and at a line end; the marks in "e.g." and "3.12" do not
# end one.
_END: Final = re.compile(r"(?<=\w)[.!?\u2026]+[\"')\]]*(?=\s|$)|\n")
_ABBREVIATED: Final = re.compile(r"\b(?:\w\. ?){2,}|\b(?:etc|bzw|usw|ca|vs|resp|ggf|inkl|no|nr)\.")
_MONEY: Final = (
    r"(?:dollars?|euros?|pounds?|francs?|cents?|bucks|yen|rupees|usd|eur|gbp|chf|jpy|cny|inr|"
    r"bitcoins?|btc|eth|dollar|pfund|franken|rubel|percent|prozent)"
)
_COUNTED: Final = (
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|twenty|fifty|hundred|thousand|million|"
    r"\w*hundert|\w*tausend|millionen|zehn|zwanzig|funfzig|funf|drei|vier|zwei|sechs|sieben|acht|"
    r"neun)"
)
_AMOUNT: Final = re.compile(
    # Street addresses.
    r"\b\d{1,5}[a-z]? \w+ (?:street|st|road|rd|avenue|ave|lane|drive|square|court)\b|"
    r"\w*(?:strasse|str\.|gasse|allee|platz) \d{1,4}\b|"
    # Accounts, cards, telephones, wallets: many digits, however they are grouped, and random
    # letters.
    r"\d{5}|\d(?:[ ./()-]{0,2}\d){6}|\b(?=[a-z]*\d)(?=\d*[a-z])[a-z\d]{10,}\b|"
    # Amounts of money in figures or words.
    rf"[$\u20ac\u00a3\u00a5\u20bd\u20bf%]|\d[\d.,' ]{{0,12}}(?:k|m|{_MONEY})\b|"
    rf"\b{_COUNTED} (?:\w+ ){{0,2}}{_MONEY}\b|\b{_MONEY} \d|\d{{1,3}}(?:[.,']\d{{3}})+"
)
_GRANTING: Final = re.compile(
    # Orders to install or run programs, and to forward texts.
    r"\b(?:un)?install\w*|\b(?:execute|run)\b[^.\n]{0,40}\bscripts?\b|\b(?:pip3?|npm) i\w*\b|"
    r"\b(?:forward|redirect|bcc|cc|weiterleit|leite)\w*|\bsend\b[^.\n]{0,80}\bto\b|"
    r"\b(?:sende|schick)\w*\b[^.\n]{0,80}\ban\b|"
    # Orders to skip questions and checks, and to trust something.
    r"\bwithout (?:\w+ ){0,2}(?:ask|question|confirm|approv|review|check|permi)\w*|"
    r"\b(?:never|not|don't|no need to) (?:\w+ )?(?:ask|confirm|check)\b|\btrust\b|\bvertrau\w*|"
    r"\bohne (?:\w+ ){0,2}(?:frag|ruckfrage|nachfrage|bestatig|freigabe|prufung)\w*|"
    r"\bfrag\w*\b[^.\n]{0,20}\b(?:nie|nicht)\b"
)


def is_plain_rule(text: str | None) -> bool:
    """Whether a text is short, names no address, account or amount, and waives no question.

    Short is one line of at most 240 characters and two sentences.
    """
    if text is None or len(text) > LEN_MAX or "\n" in text.strip():
        return False
    shape = skeleton(text)
    if names_address(shape) or _AMOUNT.search(shape) or _GRANTING.search(shape):
        return False
    sentences = _END.split(_ABBREVIATED.sub("x", shape))
    return sum(not one.isspace() for one in sentences if one) <= SENTENCES_MAX


def class_of_order(
    candidate: Candidate, reading: Reading, provenance: Provenance | None, *, confirmed: bool
) -> MemoryClass:
    """The least class of a text that reads as an order.

    L2 for a text that a person confirmed, and for a plain rule that comes with her own key: these
    are her wishes. L1 for any other text: an injection is no one's wish, and an operator, or a
    harness that the operator vouches for, names the class that it wants.
    """
    if reading.injection or provenance is None or provenance.basis is Basis.VOUCHED:
        return MemoryClass.L1
    if provenance.source is SourceKind.OPERATOR:
        return MemoryClass.L1
    hers = provenance.source is SourceKind.USER_INPUT
    plain = confirmed or (hers and is_plain_rule(_said_in(candidate)))
    return MemoryClass.L2 if plain else MemoryClass.L1


def class_once_confirmed(
    candidate: Candidate, held_as: MemoryClass, basis: Basis | None
) -> MemoryClass:
    """The class of a held new memory if a person confirms it: L2 for a person's own order.

    The page that a person decides on shows this class in advance; only the gate decides on
    admission.
    """
    floored = candidate.change is ChangeKind.CREATE and candidate.memory_class is not held_as
    if held_as is not MemoryClass.L1 or not floored:
        return held_as
    reading = read_candidate(candidate)
    if not reading.directive or reading.injection or basis is Basis.VOUCHED:
        return held_as
    return MemoryClass.L2


def _said_in(candidate: Candidate) -> str | None:
    """The text of a candidate, without the names under which a server files it."""
    call = call_of(candidate)
    if call is None:
        return candidate.text
    return "\n".join(piece for piece in call.pieces if piece != call.key and " " in piece)
