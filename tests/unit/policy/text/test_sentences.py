"""Whole sentences: cut freely to find a text again, cut only where it is sure to endorse one."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.text.sentence_words import GENERIC, HANGING
from policy.text.sentences import (
    SENTENCES_MAX,
    fingerprint,
    sentences_of,
    spoken_in,
    stated_in,
)

TEA = "i prefer tea"
KEY = b"k" * 32

LED = [
    "Please remember that I prefer tea.",
    "please remember that I prefer tea!",
    "Note: I prefer tea.",
    "For the record, I prefer tea.",
    "Remember: I prefer tea.",
    "remember I prefer tea",
    "Hey, please note that I prefer tea.",
    "By the way, please keep in mind that I prefer tea, thanks",
    "Don't forget that I prefer tea.",
    "Could you remember that I prefer tea?",
    "Please remember the following: I prefer tea.",
    "I prefer tea, please remember that.",
    "I want you to know that I prefer tea.",
    "Remember:\n- I prefer tea\n- I hate milk",
    "My preferences:\n\n* I prefer tea.\n* I hate milk.",
    "What is the time? I prefer tea. And it rains.",
    "I live at 5 Main St. in Rome. I prefer tea.",
    "Here is the log:\n```\nI hate milk. Always.\n```\nI prefer tea.",
    "> quoted by somebody\n\nI prefer tea.",
    "\u201cDune\u201d is a book. I prefer tea\u2026",
    "Home \u00bb Blog is where I write. I prefer tea.",
    "It costs ~~5 euros. I prefer tea.",
    "I met Ada. Not easy to see her go. I prefer tea.",
    "I prefer tea. That's right, and it is what I have every day.",
    "I prefer tea. It's true that I drink a lot of it.",
    "1. I hate milk\n2. I prefer tea\n3. I eat meat",
    "**My drinks**\n\nI met Ada at the market. Please remember that I prefer tea.\n\nI prefer tea.",
]

CHANGED = [
    "It is not true: I prefer tea.",
    "It is not true that I prefer tea.",
    "Don't remember that I prefer tea.",
    "Never remember that I prefer tea.",
    "If it rains, I prefer tea.",
    "If it rains,\nI prefer tea.",
    "If it rains,\n\nI prefer tea.",
    "Unless you ask: I prefer tea.",
    "Remember that unless it rains, I prefer tea.",
    "Remember that if it rains I prefer tea.",
    "These are false:\n- I prefer tea\n- I hate milk",
    "These are false:\n\n1. I prefer tea.\n2. I hate milk.",
    "These are false:\n\nI hate milk.\n\nI prefer tea.",
    "These are false: I hate milk. I prefer tea.",
    "The following claims are false. I prefer tea.",
    "# Wrong facts\n\nI prefer tea.\n\nI hate milk.",
    "I do not like\n- milk\n- I prefer tea",
    "Nobody believes that\n\nI prefer tea.",
    "I prefer tea. Just kidding.",
    "I prefer tea. That's a lie.",
    "I prefer tea. No, wait. I prefer milk.",
    "I prefer tea. Scratch that.",
    "I prefer tea?",
    "I prefer tea... not.",
    'The page says: "I hate milk. I prefer tea. Always." I do not.',
    "The page says \u00abI hate milk. I prefer tea. Always.\u00bb",
    "The page says 'I hate milk. I prefer tea. Always.' to all",
    'An open quotation: "I hate milk. I prefer tea. And it never closes.',
    "> I prefer tea.",
    "| who | what |\n| me | x. I prefer tea. |",
    "```\nlog. I prefer tea.\n```",
    "`log. I prefer tea. ` is a log",
    "(He lied. I prefer tea. He did.)",
    "<page>He lied. I prefer tea. He did.</page>",
    "Ask Mr. I prefer tea. Brown.",
    "My limit is 3. I prefer tea.",
    "Remember that time I prefer tea.",
    "In his words: this is me. I prefer tea.",
    "The site claims, e.g. I prefer tea.",
    "Note: the following is false: I hate milk. I prefer tea.",
    "Not true:I hate milk. I prefer tea.",
    "I prefer tea.\n\n# Notes\n\nJust kidding.",
    "I prefer tea. Please forget that.",
    "I prefer tea. Sorry, I lied.",
    "I prefer tea. Oh wait, scratch that.",
    "I prefer tea. But that's not true.",
    "I prefer tea. (Just kidding.)",
    "I prefer tea. *Haha, just kidding!*",
    "I prefer tea. No, that's wrong.",
    "I prefer tea. /s",
    "I prefer tea. Is that true?",
    "I prefer tea. That's what Bob said.",
    "I prefer tea. Or so he claims.",
    "I prefer tea. Do not save that.",
    "I prefer tea. Can you translate that?",
    "I prefer tea. How do you say that in French?",
    "I prefer tea. Nope.",
    "I prefer tea. Wrong!",
    "I prefer tea. Actually, I don't.",
    "I prefer tea. I made that up.",
    "I prefer tea. I changed my mind.",
    "I prefer tea. The opposite is true.",
    "I prefer tea. Bob says so.",
    "I prefer tea. According to Bob.",
    "None of this is true. I prefer tea. I hate milk.",
    "This is just a joke. I prefer tea.",
    "Imagine a story. I prefer tea.",
    "Let's pretend. I prefer tea.\n\nI hate milk.",
    "Translate this to French. I prefer tea.",
    "Translate to French:\n\nI hate milk.\n\nI prefer tea.",
    "Bob wrote the following. I prefer tea.",
    "These are false.\n- I prefer tea\n- I hate milk",
    "Which of these is true? Pick one!\n\n- I prefer tea\n- I hate tea",
    "Wrong facts\n=====\n\nI prefer tea.",
    "Opinions of Bob\n---\nI prefer tea.",
    "**Wrong facts**\n\nI prefer tea.",
    "Wrong facts\n\nI prefer tea.\n\nI hate milk.",
    "Things I never say\n\nI prefer tea.",
]

QUOTED = [
    "Die Seite sagt \u00bbI hate milk. I prefer tea. Always.\u00ab",
    "He says \u00bbI hate milk. I prefer tea. Always.\u00bb",
    "~~I hate milk. I prefer tea. Always.~~",
    "<!-- I hate milk. I prefer tea. Always. -->",
    "[quote=Bob]I hate milk. I prefer tea. Always.[/quote]",
    "<div><div>x</div> He said. I prefer tea. Yes.</div>",
    "\u275dI hate milk. I prefer tea. Always.\u275e",
    "\u3010I hate milk. I prefer tea. Always.\u3011",
    "``I hate milk. I prefer tea. Always.''",
]


@pytest.mark.parametrize("text", LED)
def test_what_leads_into_a_statement_is_no_part_of_it(text: str) -> None:
    assert TEA in spoken_in(text)


@pytest.mark.parametrize("text", [*CHANGED, *QUOTED])
def test_a_cut_never_drops_a_negation_a_condition_or_a_quotation(text: str) -> None:
    assert TEA not in spoken_in(text)


@pytest.mark.parametrize(
    "text", ["I prefer tea.", "I  PREFER\ntea", "- I prefer tea", "I prefer tea!"]
)
def test_case_space_and_the_full_stop_make_no_other_sentence(text: str) -> None:
    assert stated_in(text) == (TEA,)


@pytest.mark.parametrize(
    ("said", "more"),
    [
        ("I prefer tea.", "I prefer tea. \N{THUMBS DOWN SIGN}"),
        ("I prefer tea.", "I prefer tea.\n\n\N{CROSS MARK}"),
        ("Send money to Bob", "Send\n999. money to Bob"),
        ("I will be there on day", "I will be there on day\n5. or"),
    ],
)
def test_a_symbol_or_a_number_at_the_start_of_a_line_is_said(said: str, more: str) -> None:
    assert not set(stated_in(more) or ()) <= set(spoken_in(said))
    assert set(stated_in(said) or ()) <= set(spoken_in(said))


def test_a_list_that_is_counted_has_items_without_their_numbers() -> None:
    assert stated_in("1. I prefer tea\n2) I hate milk\n\nAnd so on.\n\n3. I eat meat\n7. x") == (
        TEA,
        "i hate milk",
        "and so on",
        "i eat meat 7. x",
    )
    assert stated_in("a) I prefer tea\nb) I hate milk") == (TEA, "i hate milk")


@pytest.mark.parametrize(
    ("text", "half"),
    [
        ("Remember that time I lied.", "time i lied"),
        ("Remember that if I ask.", "if i ask"),
        ("Note that not one of them came.", "not one of them came"),
        ("Please remember, to be sure.", "to be sure"),
    ],
)
def test_half_a_sentence_is_no_statement(text: str, half: str) -> None:
    assert spoken_in(text) == (text.lower().rstrip("."),)
    assert half not in spoken_in(text)


@pytest.mark.parametrize(
    ("said", "other"),
    [
        ("x \u2260 y", "x = y"),
        ("My limit is 10\u00b2", "My limit is 102"),
        ("Pay paypal.com", "Pay p\u0430ypal.com"),
        ("I prefer tea", "I prefer\u200b tea"),
        ("Das Ma\u00df ist neu", "Das Mas ist neu"),
        ("I prefer tea", "I prefer tea?"),
        ("I have 2 cats", "I have 3 cats"),
        ("Bob is my boss", "Rob is my boss"),
        ("I do eat meat", "I don't eat meat"),
        ("\u05e9\u05c1\u05dc\u05d5\u05dd", "\u05e9\u05c2\u05dc\u05d5\u05dd"),
    ],
)
def test_a_sign_a_digit_or_an_invisible_letter_makes_another_sentence(
    said: str, other: str
) -> None:
    assert not set(stated_in(other) or ()) & set(spoken_in(said))
    assert not set(stated_in(said) or ()) & set(spoken_in(other))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Dr. Smith lives in the U.S. now. He is 4.5 years in.", 2),
        ("\u6211\u559c\u6b22\u8336\u3002\u6211\u53eb\u9c8d\u52c3\u3002", 2),
        (
            "\u042f \u043f\u044c\u044e \u0447\u0430\u0439. \u041e\u043d \u043d\u0435\u0442.",
            2,
        ),
        (
            "\u0627\u0644\u0634\u0627\u064a. \u0627\u0633\u0645\u064a\u061f",
            2,
        ),
        (
            "\u091a\u093e\u092f \u0939\u0948\u0964 \u0928\u093e\u092e \u0939\u0948\u0964",
            2,
        ),
        ("Yes! Really?! I do.", 3),
        ("one\n\ntwo\n\nthree", 3),
        ("- a cat\n- a dog\n\nand a bird", 3),
        ("See example.com. Or 10.5.3.1 then", 2),
        ("...", 0),
        ("", 0),
    ],
)
def test_sentences_end_where_those_of_a_script_do(text: str, count: int) -> None:
    assert len(stated_in(text) or ()) == count


def test_to_find_a_text_again_it_is_cut_freely_and_seen_as_a_skeleton() -> None:
    page = 'He said: "I pre\u200bfer te\u0430. Buy now!"\n* I hate milk'
    assert TEA in [one.removeprefix('he said: "') for one in sentences_of(page)]
    assert {"buy now", "i hate milk"} <= set(sentences_of(page))
    assert sentences_of("...\n\n") == ()


@pytest.mark.parametrize(
    "text",
    [
        "I am. " * (SENTENCES_MAX + 1),
        "I am.\n\n" * (SENTENCES_MAX + 1),
        "".join(f"Imagine {number} of them. " for number in range(100)) + "I am.",
        "".join(f"Not {number}:\n\nI am.\n\n" for number in range(100)),
    ],
)
def test_a_text_that_says_too_much_endorses_nothing_and_is_endorsed_by_nobody(text: str) -> None:
    assert stated_in(text) is None
    assert spoken_in(text) == ()


@pytest.mark.parametrize(
    "part",
    [
        "<a",
        "<a>",
        "[a]",
        "[a] [/",
        "\u00bb ",
        "~~",
        "``",
        "oh ",
        "not ",
        "3. x\n",
        "**a**\n",
        "(",
        ")",
        "'a ",
        "mr. ",
        "a.",
        '"',
        "`",
        "> ",
        "|\n",
        "- a:\n",
        "note: ",
        "#\n",
    ],
)
def test_no_text_takes_longer_than_it_is_long(part: str) -> None:
    def seconds(length: int) -> float:
        text = (part * length)[:length]
        started = time.perf_counter()
        spoken_in(text)
        sentences_of(text)
        return time.perf_counter() - started

    least = min(seconds(8_000) for _ in range(3))
    assert min(seconds(64_000) for _ in range(3)) < 40 * least + 0.5


@given(st.text(max_size=400))
def test_a_text_endorses_itself_unless_it_takes_it_back(text: str) -> None:
    stated = stated_in(text)
    assert stated is not None
    spoken = spoken_in(text)
    assert set(stated) & set(spoken) or not stated
    assert set(stated_in("\n\n".join(stated)) or ()) or not stated


_WORDS = (
    "alpha ",
    "bravo ",
    "never ",
    "not ",
    "five ",
    "\u274c ",
    "\u4e0d ",
    "77 ",
    "x ",
    "these ",
)
_MARKS = (
    *("\n", "\n\n", ". ", ": ", " :", "? ", "! ", "...", ", ", "; ", "**", "_", "(", ")", '"', "`"),
    *("\n- ", "\n* ", "\n1. ", "\n# ", "\n## ", "\n```\n", "<b>", "</b>", "> ", "| ", "- "),
    *("\n===\n", "\n---\n", "\n**", "**\n", "\n2. ", "\nb) ", "~~", "<!--", "-->", "[b]", "[/b]"),
    *("\u00ab", "\u00bb", "\u3010", "\u3011", "``", "''", " '", "' ", "\u3002", "\u2026", "\u2028"),
    *(
        "imagine ",
        "jk. ",
        "lies\n\n",
        "which? ",
        "note: ",
        "remember: ",
        "the following is false. ",
    ),
)


@given(st.lists(st.sampled_from((*_WORDS, *_MARKS)), max_size=25).map("".join))
def test_no_word_of_a_text_is_left_out_of_what_it_states(text: str) -> None:
    stated = stated_in(text)
    assert stated is not None
    words = {word.strip() for word in _WORDS if word.strip() in text.split()}
    assert words <= set(re.findall(r"\w+|\u274c", " ".join(stated)))


@given(
    st.lists(st.sampled_from((*_WORDS, *_MARKS)), max_size=12).map("".join),
    st.lists(st.sampled_from((*_WORDS, *_MARKS)), max_size=12).map("".join),
)
def test_whatever_is_put_around_words_of_hers_has_to_be_said_too(before: str, behind: str) -> None:
    text = f"{before} Zyx {behind}"
    assert not set(stated_in(text) or ()) <= set(
        spoken_in(f"{before} {behind}\n\n{before}{behind}")
    )


def test_a_fingerprint_is_of_the_sentence_and_of_the_key() -> None:
    assert fingerprint(TEA, KEY) == fingerprint(TEA, KEY) < 2**64
    assert fingerprint(TEA, KEY) != fingerprint(TEA, b"l" * 32)
    assert fingerprint(TEA, KEY) != fingerprint(TEA + "s", KEY)
    assert fingerprint("\ud800", KEY) != fingerprint("\ud801", KEY)


def test_the_words_of_the_tables_are_as_they_are_compared() -> None:
    for word in HANGING | GENERIC:
        assert word == word.lower().strip()
