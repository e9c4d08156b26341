"""The words that `policy.text.sentences` goes by: data, every one of them in lower case.

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

SAYING: Final = re.compile(
    r"\b(?:sa(?:id|ys?|ying)|tells?|told|wr(?:ote|ites?|itten)|repl(?:ied|ies)|ask(?:ed|s)|"
    r"states?|stated|posted|sent|heard|read|reads|quot(?:e|es|ed|ing))\b"
)
"""And one with one of these speaks of what somebody said."""

POINTING: Final = re.compile(
    r"\b(?:these|this|those|following|below|here|which|list|listed|next|one|some|any)\b"
)
"""A question, or what negates, points with one of these at the list behind it."""

_FALSE: Final = (
    r"(?:lies?|jokes?|tests?|examples?|hoax(?:es)?|fiction|satire|sarcasm|irony|"
    r"quotes?|quotations?|role-?plays?|stor(?:y|ies)|myths?|rumou?rs?|exercises?|hypotheticals?|"
    r"scenarios?|spam|scams?|phishing|nonsense|rubbish|sarcastic|"
    r"made[- ]up|invented|fake|fictional|hypothetical)"
)
_TASK: Final = r"(?:translate|proofread|re-?write|rephrase|paraphrase|summari[sz]e)"
_CLAIMED: Final = r"(?:said|says?|claims?|claimed|wrote|writes?|thinks?|believes?|told|tells?)"
# What people put before it: "haha, just kidding", "(sorry, I lied)", "please forget that".
_BEFORE: Final = (
    r"[^\w\"'`/]*(?:(?:please|pls|sorry|oh|oops|ok|okay|well|hm+|um+|uh+|er+|ha(?:ha)*|hehe|lol|"
    r"lmao|rofl|xd|but|and|or|so|no|nah|nope|yeah|yes|wait|hey|actually|anyway|obviously|honestly|"
    r"clearly|of course|just|edit|update|btw|by the way|(?:can|could|would|will) you|"
    r"now|then)\b[^\w\"'`/]*){0,6}"
)
FRAME: Final = re.compile(
    rf"{_BEFORE}(?:(?:none|nothing|not a word|not one) of (?:this|these|it|the following|what)\b|"
    r"(?:this|these|here|the rest|what follows)(?:'s| is| are| was| were)?"
    rf"(?: \w+){{0,3}} {_FALSE}\b|"
    r"(?:imagine|suppose|pretend|assume)\b|let(?:'s| us) (?:say|pretend|imagine|assume|suppose|"
    r"role-?play|play)\b|role-?play\b|hypothetically\b|(?:begin |start of |open )?quote\b(?! me)|"
    r"in (?:this|my|a|the) (?:story|novel|dream|role-?play|scenario|example)\b|once upon a time\b|"
    rf"(?:write|tell|draft|compose) (?:me |us )?(?:a|an|the|some|my) |{_TASK}\b|"
    r"stell dir vor|angenommen|imagine[zr]?\b|imag[ií]nate|supong\w*)"
)
"""A sentence that begins so says how all those after it are meant: not as statements of hers."""

FALSE_TITLE: Final = re.compile(
    r"(?:(?:my|our|some|the|a few|all|old|common|these|[0-9]+) )*"
    r"(?:(?:wrong|false|untrue|incorrect|not|no longer|never)(?: \w+){1,4}|"
    rf"(?:false|untrue|wrong|incorrect|{_FALSE})(?: \w+){{0,4}}|"
    r"(?:things?|stuff|what|facts|claims|statements)(?: \w+){0,3} (?:never|not|don't|didn't|"
    r"false|wrong|untrue)(?: \w+){0,3})"
)
"""A paragraph of its own that is only this is the title of what comes after it."""

RETRACTION: Final = re.compile(
    rf"{_BEFORE}(?:"
    r"(?:all|none|nothing|some|most|half|much) of (?:that|this|it|these|those|them|the above)|"
    r"(?:that|this|it|these|those)(?:'s| is| was| are| were| isn't| wasn't| aren't)?"
    r"(?: all| just| only| not| really| actually| meant as| supposed to be| no longer| totally)*"
    rf" (?:a |an |the )?(?:(?!stor){_FALSE}|false|untrue|wrong|incorrect)\b|"
    r"(?:that|this|it|these|those)(?:'s| is| was| are| were)?(?: \w+){0,2}"
    r"(?: not| no longer| never|n't)(?: \w+){0,2} (?:true|right|correct|so|the case)\b|"
    r"(?:just |only |i'm |i am |i was |we were |we are |am |was |obviously )*"
    r"(?:kidding|joking|testing|pretending|lying|"
    r"role-?playing|quoting|being sarcastic|sarcastic|not serious)\b|"
    r"(?:i )?lied\b|jk\b|/(?:s|j|jk|sarcasm|joke)\b|not(?: \w+){0,3}$|not really\b|psych\b|"
    r"sike\b|gotcha\b|"
    r"fooled you|april fool|yeah,? right|as if\b|scratch (?:that|this)|strike that|"
    r"(?:forget|ignore|disregard|delete|drop|undo) (?:that|this|it|these|all|everything|what i|"
    r"about (?:that|this|it)|the above|the last)|never ?mind|nvm\b|on second thou?ght|"
    r"i take (?:that|it|this) back|correction\b|i meant?\b|no,? wait|wait,? no|actually,? no|"
    r"(?:do not|don't|never|no need to|you (?:shouldn't|should not|must not|needn't)) (?:ever )?"
    r"(?:remember|save|store|keep|record|note|memori[sz]e|believe|trust|take)"
    r" (?:that|this|it|any|a word|all|these|those|anything|me)\b|"
    r"(?:i|we) (?:do not|don't|did not|didn't)(?: really| actually)? mean|"
    r"(?:is|was|were|are) (?:that|this|it|these|those) (?:really |actually )?(?:true|right|correct|"
    r"false|wrong|so)\b|"
    rf"(?:that|this|it|these|those)(?:'s| is| was| are| were)(?: not| just)? (?:what|how) "
    rf"(?:\w+ ){{1,3}}{_CLAIMED}\b|(?:or |at least )*so (?:\w+ ){{1,3}}{_CLAIMED}\b|"
    rf"{_CLAIMED} (?!i\b|we\b)\w+$|{_TASK} (?:that|this|it|these|those|the above)\b|"
    r"how (?:do|would) (?:you|i) (?:say|translate) (?:that|this|it)\b|(?:un|end ?(?:of )?)quote\b|"
    rf"(?:(?:a|all|what a|pure|total|more) )*(?:(?!stor){_FALSE}|false|untrue|wrong|incorrect|"
    r"no|nope|nah|bullshit|bs|opposite day)(?:,? all lies)?$|"
    r"the (?:opposite|reverse|contrary) is\b|"
    r"(?:i|we) made (?:that|this|it|all)(?: \w+){0,3} up$|"
    r"(?:i|i've|we) changed (?:my|our) minds?\b|"
    r"(?:i|we)(?: really| actually| honestly)* (?:do not|don't|did not|didn't|no longer do|used to)"
    r"(?: really| actually| anymore| any more)*$|(?:that|this|it)(?: was|'s| is) "
    r"(?:old|outdated|bs|bullshit)\b|(?:that|this|it) used to be\b|according to \w+(?: \w+){0,2}$|"
    rf"\w+ {_CLAIMED} (?:that|this|it|so)(?:,|$)|"
    r"(?:das|dies|es) (?:ist|war)(?: \w+){0,2} (?:gelogen|l\u00fcge|witz|scherz|falsch|quatsch)|"
    r"(?:das|dies|es) (?:ist|war) nicht (?:wahr|richtig)|"
    r"(?:nur |bloss )*(?:spass|scherz)\b|vergiss (?:das|es)|stimmt (?:doch )?nicht|doch nicht|"
    r"(?:nein|non|quatsch|mentira|es broma|era broma)\b|c'est (?:faux|une blague|pas vrai)|"
    r"je (?:plaisante|rigole|blague)|oublie (?:\u00e7a|cela)|no es (?:verdad|cierto)|olv\u00eddalo|"
    r"\u0448\u0443\u0447\u0443|\u0437\u0430\u0431\u0443\u0434\u044c|"
    r"\u044d\u0442\u043e "
    r"(?:\u043b\u043e\u0436\u044c|\u0448\u0443\u0442\u043a\u0430|"
    r"\u043d\u0435\u043f\u0440\u0430\u0432\u0434\u0430))"
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
    contacts score importance priority version lang locale channel thread message hash index page
    line model provider client platform device speaker actor confidence
    """
)
"""Words that file a memory and say nothing of it, so that nobody need have said them."""

PRONOUNS: Final = _words("me my i self")
"""Of these, those that say something beside other words: "I hate Bob" files nothing."""

COUNTING: Final = _words(
    "id ids date time timestamp created updated at score importance priority version index line"
    " page confidence hash session run"
)
"""A field with one of these in its name may have a number that nobody said."""

SPEAKING: Final = _words(
    """
    is are was were be am has have had do does did will would shall should must may can could to
    of for from with without by into onto the a an this that these those it its he him his she
    her they them their we us our you your and or but if when then than not no never none always
    every all any only also send forward share trust obey ignore follow use call pay give tell
    make delete remove approve allow deny dont isnt cannot wont without except neither nor lies
    """
)
"""Words that make a sentence of the words of an id."""

DEPENDING: Final = re.compile(
    r"\b(?:it|its|it's|they|them|their|theirs|this|that|that's|these|those|"
    r"he|he's|him|his|she|she's|her|hers|here|there|such|same|former|"
    r"latter|both|either|neither|too|also|instead|otherwise|"
    r"else|others?|another|ones?|so|then|however|therefore|still|yet|again|first|second|third|"
    r"last|next|above|below|yes|no|yeah|nope|exactly|right|true|false|wrong|correct|vice versa|"
    r"er|sie|es|das|dies|diese[rsmn]?|ihn|ihm|ihr|ihnen|ihre[rsmn]?|il|elle|ils|elles|lui|leur|ça|"
    r"cela|ce|él|ella|ellos|ellas|lo|la|los|las|les|eso|esto|"
    "\u043e\u043d|\u043e\u043d\u0430|\u043e\u043d\u043e|\u043e\u043d\u0438|\u0435\u0433\u043e|"
    r"\u0435\u0451|\u0438\u0445|\u044d\u0442\u043e)\b|"
    r"^(?:and|or|but|because|since|although|though|unless|if|when|while|except|not)\b|"
    "[\u4ed6\u5979\u5b83\u9019\u8fd9\u90a3]"
)
"""A sentence with one of these may speak of what the sentence before it says."""
