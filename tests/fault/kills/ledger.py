"""The client of a process that keeps dying: what it was told, and what it may rely on."""

from __future__ import annotations

import msgspec


class Told(msgspec.Struct, frozen=True):
    decision: str
    # Of the verdict: the store's version, or over HTTP the candidate's id.
    mark: int | str


class Counts(msgspec.Struct, kw_only=True):
    kills: int = 0
    answered: int = 0
    in_flight: int = 0
    durable_unanswered: int = 0
    lost: list[str] = []
    ghosts: list[str] = []
    partial: list[str] = []

    @property
    def broken(self) -> list[str]:
        return [*self.lost, *self.ghosts, *self.partial]


class Ledger:
    """Every request of one store's life: sent, and answered or not."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.texts: dict[str, str] = {}
        self.told: dict[str, Told] = {}
        self.pending: set[str] = set()

    def sent(self, nonce: str, text: str) -> None:
        self.texts[nonce] = text
        self.pending.add(nonce)

    def answered(self, nonce: str, told: Told) -> None:
        self.counts.answered += 1
        self.told[nonce] = told
        self.pending.discard(nonce)

    def _admitted(self) -> set[str]:
        return {self.texts[one] for one, told in self.told.items() if told.decision == "admit"}

    def found(self, texts: set[str], version: int, problems: tuple[str, ...]) -> None:
        """Compare what a new process shows with what was answered; no request was repeated yet."""
        counts, admitted = self.counts, self._admitted()
        possible = admitted | {self.texts[one] for one in self.pending}
        counts.lost.extend(f"{text} was admitted" for text in sorted(admitted - texts))
        counts.ghosts.extend(f"{text} was never sent" for text in sorted(texts - possible))
        counts.in_flight += len(self.pending)
        counts.durable_unanswered += len(texts - admitted)
        if version != len(texts):
            counts.partial.append(f"version {version}, and {len(texts)} memories")
        counts.partial.extend(problems)

    def asked_again(self, nonce: str, told: Told, *, replayed: bool) -> None:
        first = self.told.get(nonce)
        if first is None:
            self.answered(nonce, told)
        elif first != told or not replayed:
            self.counts.lost.append(f"{nonce} was answered {first}, and now {told}")
