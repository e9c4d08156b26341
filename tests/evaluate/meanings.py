"""What figures about wrong answers mean, in words that need no documentation beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_KINDS: Final = {
    "single": "one lie",
    "redundant": "four copies of a lie",
    "cascade": "a lie and a note made of it",
    "rot": "what was true once",
}
_GROUPS: Final = {
    "groups_exact": "by a judge: searches that named exactly the lies shown",
    "groups_leave_one_out": "the same, leaving out one memory at a time",
    "copies_convicted": "by the wrong words: lies that were hidden",
    "copies_named": "lies that were hidden, or named beside these",
    "notes_convicted": "honest notes that were hidden",
}


def _made() -> Iterator[tuple[str, str]]:
    for percent in (2, 5, 10):
        errs = f"a judge that errs {percent} times in 100"
        yield f"exact_at_{percent}_percent_noise", f"{errs}: searches that named exactly the lies"
        yield f"replays_at_{percent}_percent_noise", f"{errs}: times it is asked, over suspects + 2"
        yield f"innocents_at_{percent}_percent_noise", f"{errs}: searches that named an innocent"
    for name, words in _GROUPS.items():
        yield f"shipped_{name}", f"three groups of lies in a store; {words}"
        yield f"real_{name}", f"PoisonedRAG in a store; {words}"
    for kind, words in _KINDS.items():
        yield f"healed_{kind}", f"{words}: reads after the first that show nothing wrong"
        yield f"healed_{kind}_ddmin", f"{words}: the same, looking for the cause afterwards"
        yield (
            f"wrong_answers_{kind}_ddmin",
            f"{words}: wrong answers before, in that way; 5 at most",
        )


MEANINGS: Final[dict[str, str]] = {
    "redundant_exact": "copies of one lie: searches that named exactly these",
    "asks_over_n": "questions asked, for each suspect",
    "repaired": "any cause: answers that are right without what was named",
    "innocents": "any cause: searches that named a memory which was not to blame",
    "redundant_exact_leave_one_out": "copies: leaving out one memory at a time",
    "questions_leave_one_out": "questions that this takes",
    "redundant_exact_ddmin": "copies: by delta debugging",
    "questions_ddmin": "questions that this takes",
    "questions": "questions that the shipped search takes",
    "beside_anchors_convicted": "honest texts that 100 registered statements hid",
    "anchors_lies_convicted": "lies that deny these statements, hidden",
    "leaked_after_recall": "reads that show a lie against a registered statement",
    "leaked_heal_off": "the same with healing off",
    "healed_next": "after a wrong reply: model requests without the lie",
    "healed_next_off": "the same with healing off",
    "healed_answer": "wrong replies in whose place the agent got a right one",
    "healed_answer_off": "the same with healing off",
    "rot_expired": "what was true once: expired, and not taken for a lie",
    "honest_hidden": "honest notes that were hidden",
    "poison_quarantined": "lies that were hidden",
    "rot_back_too_early": "true once: given back while the newer truth stands",
    "rot_back": "true once, and again: given back by a trial",
    "rot_shown": "true once, and again: in reads after that",
    "poison_back": "lies that a trial gave back",
    **dict(_made()),
}
"""By the key of a figure, one line."""
