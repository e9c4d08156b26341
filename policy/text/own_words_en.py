"""English: how a person asks to remember, answers, points back, forwards, and speaks of herself."""

from __future__ import annotations

from typing import Final

from policy.text.own_words_form import OwnWords, ThirdPerson, words

ENGLISH: Final = OwnWords(
    courtesies=("please", "pls", "hey", "hi", "ok", "okay", "also", "and", "just", "always"),
    keeping=(
        *("remember", "note", "note down", "keep in mind", "bear in mind", "don't forget"),
        *("do not forget", "never forget", "memorize", "memorise", "save", "store", "write down"),
        *("make a note", "take note", "take a note", "add to memory", "add to your memory"),
        *("save to memory", "save to your memory", "store in memory", "record"),
        *("i want you to remember", "i'd like you to remember", "make sure you remember"),
        *("make sure to remember", "be sure to remember"),
    ),
    labels=(
        *("note", "note to self", "memo", "reminder", "for future reference", "to remember"),
        *("for the record", "for your records", "for next time"),
    ),
    that=("that",),
    this=("this", "the following", "these"),
    herself=("i", "i'm", "i've", "i'd", "i'll", "my", "we", "we're", "we've", "our"),
    answers=words(
        "yes yeah yep yup sure ok okay no nope nah right exactly correct agreed fine do "
        "great perfect good absolutely definitely confirmed approved same ditto"
    ),
    pointing=words(
        "that that's this it it's these those them they such same one ones latter former above "
        "below he him his she her hers"
    ),
    forwarded=("forwarded message", "original message", "wrote:", "quoted text", "begin forwarded"),
    third_person=ThirdPerson(
        user="the user",
        subject="i",
        contracted={
            "i'm": "the user is",
            "i've": "the user has",
            "i'd": "the user would",
            "i'll": "the user will",
        },
        others={
            "my": "the user's",
            "me": "the user",
            "mine": "the user's",
            "myself": "the user",
        },
        verbs={
            "am": "is",
            "have": "has",
            "haven't": "hasn't",
            "do": "does",
            "don't": "doesn't",
            "need": "needs",
            "feed": "feeds",
        },
        adverbs=words(
            "always never usually often really also just still only sometimes currently now "
            "already actually mostly generally definitely absolutely typically rarely hardly ever "
            "recently finally normally mainly especially strongly truly personally probably even "
            "certainly simply fully totally seldom"
        ),
        alike=words(
            "was wasn't were weren't had hadn't did didn't will won't would wouldn't can can't "
            "cannot could couldn't shall should shouldn't may might must mustn't became began "
            "bought broke brought built came caught chose drank drew drove ate fell felt fought "
            "found flew forgot gave gone got grew heard held hid kept knew led left lent lost made "
            "meant met paid ran rode rose said sang sat saw sent shot slept sold spent spoke stood "
            "stole stuck swam swore taught thought threw told took tore understood went woke won "
            "wore wrote and or but who to in at on for with as than if when is"
        ),
        alike_endings=("ed",),
        endings=(
            ("ay", "ays"),
            ("ey", "eys"),
            ("oy", "oys"),
            ("uy", "uys"),
            ("y", "ies"),
            ("s", "ses"),
            ("x", "xes"),
            ("z", "zes"),
            ("ch", "ches"),
            ("sh", "shes"),
            ("o", "oes"),
            ("", "s"),
        ),
    ),
)
