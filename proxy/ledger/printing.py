"""Keyed fingerprints of texts, by which a text is recognised within other words. Pure."""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from policy.labels.endorsement import wanted_by
from policy.text.repeating import repeated
from policy.text.sentences import fingerprint, tails_of
from policy.text.stems import is_nobodys
from proxy.ledger.once import Once
from proxy.ledger.texts import is_long, standing
from proxy.ledger.turn_values import Told
from proxy.seams.slices import apart, resting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policy.labels.endorsement import Asked
    from proxy.dialects.model.transcript import Said
    from proxy.ledger.state import Book

LED_IN_WORDS_MIN: Final = 7
"""Behind a comma or a dash, fewer words are said by everybody: "it was great to see"."""
BEGIN_WORDS: Final = 3
SERVED_WORDS_MAX: Final = 100
"""Of a longer sentence of a memory only the whole is known again."""
LOOKS_MAX: Final = 20_000
"""Ends of sentences that are tried in one text."""
_MARKS: Final = ".,;:!?\"'`()[]{}*_<>"
BEGINS: Final = 0xBE615
"""Tells the print of how a sentence begins from that of a sentence."""
TAIL: Final = 0x7A11
"""Tells the print of a part of a sentence from that of a sentence."""
STANDING: Final = 0x57A9D
"""Tells the print of a sentence without its numbers from that of a sentence."""
_CHAIN: Final = struct.Struct(">QQ")


def _repeated(text: str) -> tuple[str, ...]:
    return tuple(repeated(text))


def _tails(sentence: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tails_of(sentence)))


class Printer:
    """Makes the fingerprints of one ledger, with its key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.once = Once()

    def print(self, text: str) -> int:
        """The fingerprint of a string."""
        return fingerprint(text, self._key)

    def named(self, kind: str, name: str) -> int:
        """The fingerprint of a name, different for each kind of name."""
        return self.print(f"{kind}\0{name}")

    def digest(self, parts: list[str]) -> int:
        """The fingerprint of a list of strings, each with its length."""
        lengths = ",".join([str(len(part)) for part in parts])
        return self.print("\0".join([lengths, *parts]))

    def chained(self, above: int, digest: int) -> int:
        """The fingerprint of a history extended by a turn, from the fingerprint before it."""
        data = _CHAIN.pack(above, digest)
        return int.from_bytes(blake2b(data, digest_size=8, key=self._key).digest(), "big")

    def parts(self, text: str) -> list[int]:
        """The fingerprints of the sentences of a text."""
        return [fingerprint(one, self._key) for one in resting(self.once.sentences(text))]

    def elsewhere(self, *texts: str, by_model: bool = False) -> Told:
        """The fingerprints of somebody else's sentences, in each reading that may be repeated.

        All sentences of a model are shared with the whole tenant; of others, only long sentences.
        """
        # Most sentences are the same in all readings, so each distinct one is hashed once.
        said: dict[str, None] = {}
        for text in texts:
            for reading in dict.fromkeys((*self.once.readings(text), *apart(_repeated, text))):
                said.update(dict.fromkeys(self.once.sentences(reading)))
        found = dict(self.told(said))
        long = tuple([one for one, is_long in found.items() if is_long or by_model])
        return Told(tuple(found.keys() - {*long}), long)

    def told(self, sentences: Iterable[str]) -> Iterator[tuple[int, bool]]:
        """The fingerprints of sentences, and of parts of them that may be quoted alone.

        Each comes with whether it is long. Fingerprints of parts are of another kind than those of
        sentences: two texts with the same end do not make the one a quotation of the other.
        """
        for sentence in resting(sentences):
            if is_nobodys(sentence):
                continue
            yield self.print(sentence), is_long(sentence)
            for tail in apart(_tails, sentence):
                if not is_nobodys(tail):
                    yield self.print(tail) ^ TAIL, is_long(tail)

    def somebodys(self, text: str) -> list[int]:
        """The fingerprints of sentences that can identify a speaker.

        Short common ones are left out.
        """
        said = resting(self.once.sentences(text))
        return [self.print(one) for one in said if not is_nobodys(one)]

    def wanted(self, asked: Asked) -> frozenset[int] | None:
        """The fingerprints of the texts that a person must have typed to endorse a candidate.

        A candidate has several strings, and one turn must have them all.

        None if no turn can endorse the candidate.
        """
        wanted = wanted_by(asked)
        return None if wanted is None else frozenset(map(self.print, wanted))

    def by_others(self, text: str) -> Iterator[int]:
        """The ways in which others may have said a person's text first: its sentences and parts.

        Parts are what stands behind lead-in words. Each is fingerprinted as a sentence, as a part
        of one, and as a question: "Shall I note that I pay?"
        """
        for sentence in resting(self.once.sentences(text)):
            tails = [one for one in apart(_tails, sentence) if len(one.split()) >= LED_IN_WORDS_MIN]
            for one in (sentence, *tails):
                plain = one.removesuffix("?")
                for said in () if is_nobodys(one) else map(self.print, (plain, f"{plain}?")):
                    yield said
                    yield said ^ TAIL

    def arguments(self, arguments: object) -> int:
        """The fingerprint of a call's arguments, the same in whatever order they stand."""
        try:
            data = msgspec.json.encode(arguments, order="deterministic")
        except (UnicodeEncodeError, OverflowError, TypeError, ValueError):
            return 0
        return self.print(data.decode())

    def whole(self, said: Iterable[Said]) -> int:
        """The fingerprint of a tool's whole description; only logs of older versions have it."""
        return self.digest([one.text for one in said])

    def standing(self, sentences: Iterable[str], model: str) -> list[int]:
        """The fingerprints of a text's sentences, made without the numbers in them."""
        return [self.print(standing(one, model)) ^ STANDING for one in resting(sentences)]

    def led_in(self, text: str, book: Book) -> Iterator[int]:
        """The fingerprints of texts behind list marks or lead-in words: prompts quote memories so.

        Each part is fingerprinted as a sentence and as a part of one. Short parts are common: they
        count only if they are a whole sentence of a served memory.
        """
        for sentence in resting(self.once.sentences(text)):
            for tail in apart(_tails, sentence):
                found = self.print(tail)
                if is_long(tail) or len(tail.split()) >= LED_IN_WORDS_MIN:
                    yield found
                    yield found ^ TAIL
                elif book.recalls.get(found) is not None and not is_nobodys(tail):
                    yield found
        yield from self.served_in(self.once.sentences(text), book)

    def served_in(self, sentences: Iterable[str], book: Book) -> Iterator[int]:
        """The sentences of served memories in a text, wherever they stand in a line of prose.

        If a line has too many places at which a sentence may begin, an equal beginning of a
        sentence is enough.
        """
        known, left = book.recalls.get, LOOKS_MAX
        split = [one.split(" ") for one in sentences] if book.recalls else []
        for words in resting(split):
            for at in range(len(words) - BEGIN_WORDS + 1):
                begins = self.begins(words[at : at + BEGIN_WORDS])
                if known(begins) is None:
                    continue
                last = min(len(words), at + SERVED_WORDS_MAX)
                left -= last - at
                if left < 0:
                    yield begins
                    continue
                for end in range(at + BEGIN_WORDS, last + 1):
                    said = " ".join(words[at:end])
                    for one in {self.print(said), self.print(said.strip(_MARKS))}:
                        if known(one) is not None:
                            yield one

    def begins(self, words: list[str]) -> int:
        """The fingerprint of a sentence's beginning."""
        return self.print(" ".join([one.strip(_MARKS) for one in words[:BEGIN_WORDS]])) ^ BEGINS

    def served(self, texts: Iterable[str]) -> list[int]:
        """The fingerprints of a served memory's sentences, and of the sentences' beginnings."""
        said = [one for text in texts for one in self.once.sentences(text)]
        words = [one.split(" ") for one in said if not is_nobodys(one)]
        begun = (self.begins(one) for one in words if len(one) >= BEGIN_WORDS)
        return [*map(self.print, said), *begun]
