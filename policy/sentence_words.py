"""The words that `policy.sentences` goes by: data, every one of them in lower case.

A word that is missing here costs a cut: two sentences stay one, and then both must be repeated
together. That is the safe side. What a lead-in is, is the other side: each one of them may be
dropped from a sentence without another meaning, whatever follows.
"""

from __future__ import annotations

import re
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ABBREVIATIONS: Final = _words(
    """
    mr mrs ms mx dr prof st sr jr rev hon gen col capt lt sgt maj sen rep gov pres supt messrs
    mme mlle vs etc eg ie cf al ca approx est fig figs no nos nr vol vols ed eds pp ch sec art
    para inc ltd co corp llc plc gmbh bros dept univ assn intl natl min max avg tel ext ave blvd
    rd jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat
    sun bzw usw evtl ggf vgl bspw inkl exkl z.b d.h u.a str hr fr ing dipl sra srta ud uds av
    num pag tlf adj apdo dra mm env p.ex boul bd hab sig sigg dott ecc avv t.e e.g i.e a.m p.m
    u.s u.k u.n e.u d.c ph.d b.a m.a b.sc m.sc a.k.a r.i.p p.s n.b ул гл им др пр см рис стр тыс
    млн млрд
    """
)
"""Before a full stop, these end no sentence. (In front of the stop, without it.)"""

HANGING: Final = _words(
    """
    a an the this that these those my your his her its our their of to in on at by for from with
    without and or but nor not never no if unless when while because since although though than
    as is are was were be am do does did don't doesn't didn't can can't cannot will won't would
    wouldn't should shouldn't may might must until till about into over under between against
    except only even either neither whether where who whom whose which what how why so too very
    und oder aber nicht kein keine wenn falls dass der die das et ou mais ne pas si que le la
    les y o pero el los las
    """
)
"""A line that ends with one of these goes on in the next one, even past an empty line."""

NEGATING: Final = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|except|unless|if|stop|isn't|aren't|"
    r"wasn't|weren't|don't|doesn't|didn't|won't|can't|cannot|false|untrue|wrong|incorrect|lies?|"
    r"lying|fake|hoax|myths?|rumou?rs?|jokes?|joking|kidding|satire|fiction|fictional|hypothetical|"
    r"pretend|imagine|suppose|assume|spam|scam|phishing|malicious|injection|attack|suspicious|"
    r"example|examples|quote|quotes|quoted|claims?|claimed|alleged|allegedly|supposedly|instead|"
    r"ignore|avoid|reject|refuse|forget|disregard|delete|remove|deny|denies|denied|doubt|disagree|"
    r"nicht|kein|keine|falsch|nie|ohne|wenn|falls|pas|faux|jamais|sans|si|nunca|falso|sin|"
    r"не|нет|ложь|если)\b|[\u4e0d\u6ca1\u7121\u65e0\u5047]|n't\b"
)
"""What stands under one of these is not what its sentences say by themselves."""

FOLLOWING: Final = re.compile(r"\b(?:following|below|as follows)\b")
"""A sentence with one of these, that negates, speaks about those after it."""

RETRACTION: Final = re.compile(
    r"(?:(?:all|none|nothing|some|most|half|much) of (?:that|this|it|these|those|them|the above)|"
    r"(?:that|this|it|these|those)(?:'s| is| was| are| were| isn't| wasn't| aren't)?"
    r"(?: all| just| only| not| really| actually| meant as| supposed to be)*"
    r" (?:a |an |the )?(?:lie|lies|joke|jokes|test|tests|example|examples|hoax|fiction|satire|"
    r"false|untrue|wrong|incorrect|nonsense|rubbish|true|right|correct|sarcasm|irony)\b|"
    r"(?:just |only |i'm |i am |i was |am |was )+(?:kidding|joking|testing|pretending|lying)\b|"
    r"(?:i )?lied\b|jk\b|not\b|not really\b|psych\b|scratch (?:that|this)|strike that|"
    r"(?:forget|ignore|disregard|delete|drop|undo) (?:that|this|it|these|all|everything|what i|"
    r"the above|the last)|never ?mind|nvm\b|on second thou?ght|i take (?:that|it|this) back|"
    r"correction\b|i meant\b|i mean\b|no,? wait|wait,? no|actually,? no)"
)
"""A sentence that begins so takes back what was said before it."""

_CALLS: Final = (
    r"(?:please|pls|hey|hi|hello|ok|okay|alright|thanks|thank you|by the way|btw|also|actually|fyi|"
    r"for the record|for your information|for your records|for future reference|"
    r"for (?:next|another) time|just so you know|so you know|one more thing|one last thing|"
    r"important|very important|note|side note|quick note|reminder|a reminder|remember|memo|ps|"
    r"p\.s\.|yes|sure|about me|a bit about me|some facts about me|facts about me|my preferences?|"
    r"things to remember|to remember|remember this|note this|save this|remember the following|"
    r"please remember|please note|please remember this|please remember the following|"
    r"bitte|übrigens|zur info|wichtig|notiz|por favor|por cierto|nota|"
    r"s'il te pla[iî]t|s'il vous pla[iî]t|au fait|note bien)"
)
_ASKED: Final = (
    r"(?:(?:please|also|just|hey|and please),? )*"
    r"(?:(?:can|could|will|would) you (?:please )?|i(?:'d| would) like you to |i want you to |"
    r"i need you to |make sure (?:that )?(?:you |to )?|be sure to )?(?:please )?(?:always )?"
)
_KEPT: Final = (
    r"(?:remember|note|keep in mind|bear in mind|don't forget|do not forget|never forget|"
    r"memori[sz]e|save|store|write down|record|know|be aware|make a note|take a note|take note|"
    r"add to (?:your )?memory|save to (?:your )?memory|put (?:in|into) (?:your )?memory|"
    r"merke? dir|denk daran|vergiss nicht|recuerda|no olvides|ten en cuenta|"
    r"souviens-toi|rappelle-toi|n'oublie pas|note)"
)
LEAD_INS: Final = (
    # "Note: ...", "For the record, ...": a call by itself, and then a mark.
    re.compile(rf"{_CALLS}(?: ?[,:]| -| --| !|!)\s*(?=\S)"),
    # "Please remember that ...", "could you keep in mind that ..."
    re.compile(rf"{_ASKED}{_KEPT},? (?:that|dass|que):? (?=\S)"),
    # "Remember: ...", and "please note the following: ..."
    re.compile(rf"{_ASKED}{_KEPT}(?: (?:this|the following|the following facts?))?: ?(?=\S)"),
    # "Remember I prefer tea": only where a person speaks of herself.
    re.compile(rf"{_ASKED}{_KEPT} (?=(?:i|i'm|i've|i'd|i'll|my|we|we're|our)\b)"),
    re.compile(
        r"(?:i want you to know|i'd like you to know|you should know|let me tell you|"
        r"let the record show|let it be known|i just want to say|i'd like to add) that (?=\S)"
    ),
)
"""Matched at the start of a sentence; what follows must be a statement by itself."""

REQUEST: Final = re.compile(r"(?:(?:please|hey),? )?(?:can|could|will|would) you ")
"""A question that is a request: what it asks to remember is no question."""

NO_STATEMENT: Final = re.compile(
    r"(?:time|times|day|night|one|guy|man|woman|thing|things|place|song|movie|book|year|week|"
    r"part|bit|if|when|unless|whether|because|and|or|but|not|to|only|until|while)\b|[^\w\"'«(¿¡]"
)
"""After a lead-in, a beginning of this kind is half a sentence: "remember that time ..." """

LEAD_OUTS: Final = re.compile(
    r"(?:,| -| --|;) (?:(?:please|and please) )?"
    r"(?:(?:remember|note|keep in mind|don't forget|save|store|memori[sz]e|write down) "
    r"(?:that|this|it)|please|pls|thanks|thank you|thx|by the way|btw|just so you know|fyi|"
    r"for the record)(?: please| for me| for later)?$"
)

GENERIC: Final = _words(
    """
    user users default person people human me my i self note notes memory memories fact facts
    info information general personal profile preference preferences identity settings setting
    about details list log journal diary food drink drinks work job home family friends hobby
    hobbies health travel project projects tool tools style format formatting language languages
    communication coding code development conversation conversations chat topic topics category
    categories type kind tag tags source sources date time timestamp created updated at id ids
    session run agent app role name title text content data value key event events place places
    location locations company organization organisation concept thing things object entity md
    txt json yaml csv context background interests interest habits habit goals goal contact
    contacts likes dislikes favorite favorites favourite favourites score importance priority
    """
)
"""Words that file a memory and say nothing of it, so that nobody need have said them."""
