"""Memories that each name one rare identifier, and the questions that ask for it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

EACH: Final = 200
"""How many identifiers there are of each kind."""
_SYLLABLES_LINE: Final = (
    "ma ren vos ku il ta bran sol ke ni fa rou lin dor pek wen ha ige lu mo sz ab el og dan xi "
    "ber gh ost ne val mir qu jo"
)
_SYLLABLES: Final = _SYLLABLES_LINE.split()
_VERBS: Final = ("retry", "parse", "flush", "merge", "rotate", "verify", "resolve", "encode")
_NOUNS: Final = ("invoice", "ledger", "quota", "session", "cursor", "payload", "webhook", "shard")
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_FAMILY_NAMES: Final = "赵钱孙李周吴郑王冯陈褚卫蒋沈韩杨朱秦尤许何吕施张"
_GIVEN_NAMES: Final = "晓峰雅婷志远思涵俊杰梦琪海涛静怡建国丽华子轩雨欣浩然佳慧明哲诗雨宇航紫萱"
_TEXTS: Final = {
    "names": ("{} runs the weekend rota and takes calls before noon.", "The lease was with {}."),
    "code": (
        "The slow start is fixed in {} and needs a review.",
        "{} is slow where the loop is busy.",
    ),
    "errors": ("The nightly job failed with {} and ran again.", "On {}, clear the cache."),
    "tickets": ("{} went to the database team after the outage.", "Close {} after the audit."),
    "addresses": ("The broker of the staging answers at {}.", "Roll back to {} if it grows."),
    "names (CJK)": ("{}负责下个季度的预算审批。", "仓库的钥匙由{}保管。"),
}
_ASKED: Final = {
    "names": "Who is {}?",
    "code": "What should I keep in mind about {}?",
    "errors": "What does {} mean?",
    "tickets": "What happened with {}?",
    "addresses": "What is {} used for?",
    "names (CJK)": "{}是谁?",
}
KINDS: Final = tuple(_TEXTS)


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A memory's text, and its identifier as asked for; `typo` has one wrong letter."""

    kind: str
    text: str
    bare: str
    asked: str
    typo: str


def named_memories(drawn: random.Random) -> list[Named]:
    """The memories of all kinds, each with an identifier that is in no other."""
    makers: dict[str, Callable[[random.Random], str]] = {
        "names": _name,
        "code": _code,
        "errors": _error,
        "tickets": _ticket,
        "addresses": _address,
        "names (CJK)": _cjk,
    }
    named: list[Named] = []
    for kind, make in makers.items():
        distinct: dict[str, str] = {}
        while len(distinct) < EACH:
            one = make(drawn)
            distinct.setdefault(one.casefold(), one)
        for number, one in enumerate(distinct.values()):
            named.append(
                Named(
                    kind=kind,
                    text=_TEXTS[kind][number % 2].format(one),
                    bare=one,
                    asked=_ASKED[kind].format(one),
                    typo="" if kind == "names (CJK)" else _mistyped(drawn, one),
                )
            )
    return named


def filled(drawn: random.Random, named: Sequence[Named], texts: Sequence[str], n: int) -> list[str]:
    """The texts of these memories, and others up to `n`: as they are first, then two joined."""
    others = list(dict.fromkeys(texts))
    joined = (f"{drawn.choice(texts)} {drawn.choice(texts)[:120]} {at}" for at in itertools.count())
    return list(itertools.islice(itertools.chain((one.text for one in named), others, joined), n))


def _name(drawn: random.Random) -> str:
    words = [_word(drawn, drawn.randint(2, 3)) for _ in range(2)]
    return " ".join(word.capitalize() for word in words)


def _word(drawn: random.Random, count: int) -> str:
    return "".join(drawn.choices(_SYLLABLES, k=count))


def _code(drawn: random.Random) -> str:
    verb, noun, number = drawn.choice(_VERBS), drawn.choice(_NOUNS), drawn.randrange(1_000)
    forms = (
        f"src/{noun}/{verb}_{noun}_{number}.py",
        f"{verb.upper()}_{noun.upper()}_MAX_{number}",
        f"{verb}{noun.capitalize()}{number}",
        f"{noun}-{verb}-{number}",
    )
    return drawn.choice(forms)


def _error(drawn: random.Random) -> str:
    forms = (
        f"ORA-{drawn.randrange(10_000, 99_999)}",
        f"E{drawn.randrange(1_000, 9_999)}",
        f"0x{drawn.randrange(16**7, 16**8):08X}",
        f"ERR_{drawn.choice(_VERBS).upper()}_{drawn.randrange(100, 999)}",
    )
    return drawn.choice(forms)


def _ticket(drawn: random.Random) -> str:
    forms = (
        f"INC-{drawn.randrange(10_000, 99_999)}",
        f"{drawn.randrange(16**8):08x}-{drawn.randrange(16**4):04x}-{drawn.randrange(16**12):012x}",
        f"{drawn.randrange(16**10):010x}",
        f"CUST{drawn.randrange(100_000, 999_999)}",
    )
    return drawn.choice(forms)


def _address(drawn: random.Random) -> str:
    forms = (
        ".".join(("10", *(str(drawn.randrange(256)) for _ in range(3)))),
        f"v{drawn.randrange(1, 20)}.{drawn.randrange(30)}.{drawn.randrange(60)}",
        f"{_word(drawn, 2)}.{_word(drawn, 3)}@example.org",
        f"+49 30 {drawn.randrange(1_000_000, 9_999_999)}",
    )
    return drawn.choice(forms)


def _cjk(drawn: random.Random) -> str:
    return drawn.choice(_FAMILY_NAMES) + "".join(drawn.choices(_GIVEN_NAMES, k=2))


def _mistyped(drawn: random.Random, text: str) -> str:
    """The text with one letter left out, one replaced, or two swapped."""
    at = drawn.randrange(1, len(text) - 1)
    forms = (
        text[:at] + text[at + 1 :],
        text[:at] + drawn.choice(_LETTERS) + text[at + 1 :],
        text[:at] + text[at + 1] + text[at] + text[at + 2 :],
    )
    return drawn.choice(forms)
