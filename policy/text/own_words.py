"""Which texts of a person's turn count as her own words.

Nothing is cut out of a turn. Three texts count: the whole turn, everything behind an explicit
request to remember, and either of them rewritten to speak of "the user". A turn with pasted text,
or one that only points at what somebody else said, counts for nothing.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.text.own_words_de import GERMAN
from policy.text.own_words_en import ENGLISH
from policy.text.sentences import exact
from policy.text.stems import are_common

if TYPE_CHECKING:
    from policy.text.own_words_form import OwnWords, ThirdPerson

TURN_LEN_MAX: Final = 600
POINTING_WORDS_MAX: Final = 12
"""A longer turn says something of its own, whatever else it points at."""
LANGUAGES: Final = (ENGLISH, GERMAN)

# A turn may not begin like a slash command, a list item, a quotation or a shell prompt.
_BEGINS: Final = re.compile("[\u00a1\u00bf]?[^\\W_]")
_FINAL: Final = re.compile(r"[\s.!]+$")
_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
# Marks of quotations, code, tables, links and diffs, and runs of marks that draw a line: such text
# was pasted.
_PASTED: Final = re.compile(
    '["`{}<>|\\[\\]\\\\\n'
    "\u00ab\u00bb\u2039\u203a\u300a-\u3011\u3014-\u301f\u275b-\u275e\u2022\u2023\u25aa\u25e6\u00b7]"
    r"|[-_=*#~]{3,}|__|==|\*\S|~~|\(\)|&&|;$"
    # A quotation in single marks; an apostrophe is no such mark.
    r"|(?<!\w)'(?=\S)[^']*(?:\w'\w[^']*)*(?<=\S)'(?!\w)"
)
# What a pasted text begins with: a list item, a message's header, or the name of a speaker, such as
# "Subject:" or "Bob:".
_HEADED: Final = re.compile(r"(?:\(?(?:[0-9]{1,3}|[a-z])[.)]|[^\s:]{1,40}:)(?:\s|$)")
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Co", "Cs"})
_JOINERS: Final = frozenset("\u200c\u200d")


class OwnForms(NamedTuple):
    """The whole texts that one turn of a person makes her own.

    `said` has the turn itself, `asked` what stands behind a request to remember.
    """

    said: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()


def folded(text: str) -> str:
    """A text as it is compared with others.

    Differences in case, in the kind of spaces and quotation marks, and in the final mark are
    removed.
    """
    return _FINAL.sub("", " ".join(exact(text).split()))


def own_forms(turn: str) -> OwnForms:
    """The texts that count as a person's own words because of this turn.

    They are in the form that `folded` makes. A candidate must be equal to one of them.
    """
    turn = turn.strip()
    if len(turn) > TURN_LEN_MAX or _BEGINS.match(turn) is None or _invisible(turn):
        return OwnForms()
    text = exact(turn)
    kept = asked_to_keep(text)
    rest = text if kept is None else kept
    if _PASTED.search(text) or _HEADED.match(rest):
        return OwnForms()
    if any(mark in text for one in LANGUAGES for mark in one.forwarded) or _points(rest):
        return OwnForms()
    herself = of_the_user(rest)
    forms = [folded(one) for one in (rest, herself) if one is not None]
    if kept is None:
        return OwnForms(said=tuple(forms))
    return OwnForms(said=(folded(text),), asked=tuple(forms))


def asked_to_keep(text: str) -> str | None:
    """The rest of a text behind a request to remember at its beginning.

    None without such a request.

    The text has to be in the form that `exact` makes.
    """
    for request in _REQUESTS:
        found = request.match(text)
        if found is not None:
            return text[found.end() :]
    return None


def of_the_user(text: str) -> str | None:
    """A text that a person says of herself, rewritten to speak of "the user".

    None where she says nothing of herself, or where the rewriting cannot be undone byte for byte.
    The text has to be in the form that `exact` makes.
    """
    for one in LANGUAGES:
        if one.third_person is not None:
            told = _Telling(one.third_person).told(text)
            if told is not None:
                return told
    return None


def _invisible(text: str) -> bool:
    """Whether a text has invisible characters: nobody types them, so the text was pasted."""
    return any(unicodedata.category(one) in _INVISIBLE and one not in _JOINERS for one in text)


def _points(text: str) -> bool:
    """Whether a turn only points at an earlier turn, as "Yes, always do that" does."""
    words = _WORD.findall(text)
    return len(words) <= POINTING_WORDS_MAX and any(
        not one.pointing.isdisjoint(words)
        and (words[0] in one.answers or are_common({*words}.difference(one.courtesies)))
        for one in LANGUAGES
    )


def _request(one: OwnWords) -> re.Pattern[str]:
    courtesies, keeping, labels = map(_either, (one.courtesies, one.keeping, one.labels))
    that, this = _either(one.that), _either(one.this)
    herself = f"| (?={_either(one.herself)} )" if one.herself else ""
    return re.compile(
        rf"(?:{courtesies}[,!]? )*"
        rf"(?:{labels}(?::|,) ?|{keeping}(?:,? {that} |(?: {this})?: ?{herself}))(?=\w)"
    )


def _either(words: tuple[str, ...]) -> str:
    return f"(?:{'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))})"


_REQUESTS: Final = tuple(map(_request, LANGUAGES))


class _Telling:
    """Rewrites a text from the first person to the third: "I like tea" to "the user likes tea"."""

    def __init__(self, language: ThirdPerson) -> None:
        self._language = language

    def told(self, text: str) -> str | None:
        """The rewritten text.

        None for a text without a first person, or if rewriting it back fails.
        """
        language = self._language
        if "?" in text:
            return None
        pairs: dict[str, str] = {}

        def tell(found: re.Match[str]) -> str:
            words = found[0]
            pairs[words] = self._phrase(words)
            return pairs[words]

        adverbs, others = _either(tuple(language.adverbs)), _either(tuple(language.others))
        contracted = _either(tuple(language.contracted))
        first = re.compile(
            rf"(?<![\w'])(?:{language.subject}(?: {adverbs})*(?: [^\W\d_]+(?:'[^\W_]+)*)?|"
            rf"{contracted}|{others})(?![\w'])"
        )
        told = first.sub(tell, text)
        if not pairs:
            return None
        back = {third: words for words, third in pairs.items()}
        undo = re.compile(rf"(?<![\w']){_either(tuple(back))}(?![\w'])")
        again = undo.sub(lambda found: back[found[0]], told)
        return told if again == text and language.user not in text else None

    def _phrase(self, words: str) -> str:
        language = self._language
        there = language.contracted.get(words) or language.others.get(words)
        if there is not None:
            return there
        between = words.split(" ")[1:]
        if between and between[-1] not in language.adverbs:
            between[-1] = self._verb(between[-1])
        return " ".join([language.user, *between])

    def _verb(self, verb: str) -> str:
        language = self._language
        if verb in language.verbs:
            return language.verbs[verb]
        if verb in language.alike or verb.endswith(language.alike_endings):
            return verb
        ending, instead = next(one for one in language.endings if verb.endswith(one[0]))
        return verb.removesuffix(ending) + instead
