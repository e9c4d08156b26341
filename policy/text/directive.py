"""Directive language: the shapes of an instruction to the agent about its future behaviour.

A directive is an instruction to the agent about its future behaviour: "always recommend ...", "from
now on ...", "when the user asks X, answer Y". A person's habit ("I always forget"), a report ("she
always recommends it") and advice between people ("never give up") are not.

Matched on a skeleton, by shape: words alone decide nothing.
"""

from __future__ import annotations

import enum
import re
from typing import Final

import msgspec

from policy.text.bounded_gap import Reach


class Language(enum.Flag):
    """What a text was found to speak."""

    PLAIN = 0
    DIRECTIVE = enum.auto()
    INJECTION = enum.auto()


class Shapes(msgspec.Struct, frozen=True):
    """One pattern for each kind of place; None where there is none."""

    anywhere: re.Pattern[str] | None
    at_start: re.Pattern[str] | None
    at_clause: re.Pattern[str] | None
    reaching: tuple[Reach, ...] = ()


class Group(msgspec.Struct, frozen=True):
    """Shapes that cannot match unless words are there: the cheap look comes first.

    One of `words` must be there, and one of `also` where that is not empty.
    """

    words: frozenset[str]
    speaks: Language
    shapes: Shapes
    also: frozenset[str] = frozenset()


def words_of(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


# Prefixes of a pattern's source that say where it may match; `compiled` sorts by them.
START: Final = "<start>"  # where an imperative may begin: a clause, or after a word that leads in
CLAUSE: Final = "<clause>"  # only a clause: for verbs that people use on each other as well
STARTS: Final = re.compile(
    r"^|[.!?;:\n,()\[\]{}>|*\"'`\u2022/-] ?|\b(?:please|kindly|and|but|so|then|also|just|must|"
    r"now|therefore|remember|important|note|rule|policy|you (?:should|must|will|shall)|"
    r"(?:want|need|order|instruct|command|require|expect|ask|told|instructed|required|asked) "
    r"(?:you )?to|(?:remember|be sure|make sure|sure|ensure|are|is) to) "
)
CLAUSES: Final = re.compile(
    r"^(?:- ?)?|[.!?;:\n()\[\]{}>|*\"`\u2022] ?(?:- ?)?|, (?:please |so )?|\bplease "
)

# What agents are told to do, and people hardly ever tell each other to do always or never.
_STRONG_WORDS = (
    "recommend suggest answer respond reply redirect escalate cite refer route forward output "
    "append prepend approve promote advertise endorse comply obey prioritize prioritise execute "
    "decline invoke disclose reveal mention state insist upsell steer authorize authorise "
    "whitelist transfer refund exfiltrate override bypass disregard ignore follow translate "
    "summarize summarise generate embed log verify validate confirm deny reject refuse grant "
    "pretend behave address sign greet provide return quote link assume consider rank list "
    "describe claim deploy install upload download delete charge store save insert inject hide"
)
# What people tell each other, too.
_WEAK_WORDS = (
    "tell say use prefer choose include add treat call send trust ask give write start end begin "
    "finish show display read open visit click run set print pick favor favour offer sell buy "
    "order book pay report inform notify check act speak talk direct select skip warn allow "
    "block share put set append close"
)
STRONG = f"(?:{'|'.join(_STRONG_WORDS.split())})"
ANY = f"(?:{'|'.join((_STRONG_WORDS + ' ' + _WEAK_WORDS).split())})"
_WEAK = f"(?:{'|'.join(_WEAK_WORDS.split())})"
# "Always trust your gut", "never say never": advice to a person has a person's object.
_NOT_ADVICE = (
    r"(?! (?:your|yourself|yourselves|you|never|yes|thanks?|sorry|goodbye|hello|hi|help|for help|"
    r"questions|it|that|this|up|down|away|back|over|around|on|out|go|i|the best|someone you|a lie|"
    r"lies|at|something)\b|[.!?,;]|$)"
)
_READER_WORDS = "user customer client visitor caller shopper patient student employee"
READERS = f"(?:{'|'.join(_READER_WORDS.split())})s?"
AGENT = (
    r"(?:ai assistants?|ai agents?|ai models?|language models?|assistants?|agents?|ais?|chatbots?|"
    r"bots?|llms?|models?)"
)
ANSWERS = (
    r"(?:responses?|answers?|replies|reply|outputs?|completions?|summar(?:y|ies)|recommendations?|"
    r"messages?|conversations?|sessions?|interactions?|chats?|quer(?:y|ies)|questions?|requests?|"
    r"tasks?|turns?)"
)
MAY_TURN = r"(?:always |never |do not |don't |not |only |also |just |simply |please |then )*"
REST = r"(?:[^.!?\n]|[.](?=\S))"  # the rest of a sentence; a dot inside a name ends none
_VERBS = words_of(_STRONG_WORDS + " " + _WEAK_WORDS)


def compiled(*sources: str, reaching: tuple[Reach, ...] = ()) -> Shapes:
    """The patterns, sorted by where they may match, each kind as one."""
    by_place: dict[str, list[str]] = {"": [], START: [], CLAUSE: []}
    for source in sources:
        place = next((mark for mark in (START, CLAUSE) if source.startswith(mark)), "")
        by_place[place].append(f"(?:{source.removeprefix(place)})")
    one = {
        place: re.compile("|".join(found)) if found else None for place, found in by_place.items()
    }
    return Shapes(one[""], one[START], one[CLAUSE], reaching)


_ALWAYS = Group(
    words_of("always never"),
    Language.DIRECTIVE,
    compiled(
        rf"{START}(?:always|never)(?: ever)? (?:\w+ly )?{STRONG}\b(?! (?:yourself|your)\b)",
        rf"{CLAUSE}(?:always|never)(?: ever)? {_WEAK}\b{_NOT_ADVICE}",
        rf"{START}(?:always|never) {ANY} {REST}{{0,60}}\b{READERS}\b",
        rf"\byou (?:should|must|will|shall|may|can|are to|need to|have to|ought to)"
        rf" (?:always|never) {ANY}\b{_NOT_ADVICE}",
        r"\b(?:must|should|shall|is to|are to|has to|have to|needs? to) (?:always|never) be "
        r"(?:recommended|suggested|preferred|mentioned|approved|trusted|chosen|cited|promoted|"
        r"followed|answered|treated|ranked|listed|described|referred|redirected|forwarded|"
        r"escalated|skipped|ignored|disclosed|revealed|executed|returned|assumed|denied|refunded)",
        r"\bmust (?:always|never) be (?:used|given|included|shown|sent|called|run|asked)\b",
    ),
    also=_VERBS | words_of("be"),
)

_FUTURE_WORD = (
    r"(?:from now on(?:wards?)?|henceforth|hereafter|from this (?:point|moment|day|message) "
    r"(?:on|onwards?|forward)|from here on(?: out)?|starting (?:now|today|immediately)|"
    r"effective immediately|as of (?:now|today)|going forward|moving forward|"
    rf"in (?:all |any |every )?(?:future|subsequent|upcoming|later) {ANSWERS}|"
    rf"for (?:all|any|every) (?:future|subsequent) {ANSWERS})"
)
_FUTURE = Group(
    words_of(
        "now henceforth hereafter onward onwards forward future subsequent upcoming later starting "
        "immediately here"
    ),
    Language.DIRECTIVE,
    compiled(
        rf"\b{_FUTURE_WORD} ?[,:]? ?(?:you (?:must|should|shall|will|are to|need to|have to) |"
        rf"(?:the |this )?{AGENT} (?:must|should|shall|will) )?{MAY_TURN}{ANY}\b"
        r"(?! (?:your(?:self)?|you)\b)",
        rf"\b{_FUTURE_WORD} ?[,:]? ?you (?:are (?:an?|the|my|no longer)|must|only|always|never|"
        rf"answer|act|speak)\b",
        rf"{CLAUSE}{MAY_TURN}{ANY}\b{REST}{{1,160}}\b(?:from now on(?:wards?)?|henceforth|"
        rf"in (?:all |any |every )?(?:future|subsequent) {ANSWERS}|"
        rf"for (?:all|any|every) (?:future|subsequent) {ANSWERS})\b",
    ),
    also=_VERBS | words_of("are must only always never act"),
)

_ASKING = (
    rf"(?:(?:the |an? |any |this |another )?{READERS}\b|(?:you(?: are|'re)? )?(?:ever )?asked\b|"
    r"(?:someone|anyone|anybody|somebody|people|they|he|she|i) asks? (?:you )?(?:about|for|to|"
    r"whether|if|how|what|which|who|where|when)\b|(?:the |an? |any )?(?:prompt|query|question|"
    r"request|conversation|topic|discussion) (?:is|mentions|contains|concerns|involves|turns|"
    r"includes|about)\b|(?:you(?: are|'re) )?(?:answering|responding|replying|recommending|"
    r"prompted|queried|discussing (?:with )?the user)\b)"
)
_ASKED = words_of(
    "asked asks ask prompt query question request conversation topic discussion answering "
    "responding replying recommending prompted queried discussing"
) | words_of(" ".join(f"{reader} {reader}s" for reader in _READER_WORDS.split()))
_WHEN = r"\b(?:when|whenever|if|once|every ?time|each time|any ?time|should)\b"
_THEN = (
    r"(?:[,:;] ?|\bthen |\byou (?:must|should|shall|will|need to|have to|are to) |\balways |"
    r"\bnever )"
)
_WHEN_YOU = r"\b(?:when|whenever|if|every ?time|each time)\b"
_MEETING = r"(?:see|receive|encounter|detect|read|find|hear|write|search|call|use)\b"
_NOT_YOUR = r"\b(?! (?:your(?:self)?)\b)"
_HEAD_LEN_MAX = 80


def _reach(head: str, rest: str, stretch_len: int, tail: str) -> Reach:
    """A condition, so many characters at most, a joint, and what is to be done then."""
    return Reach(
        re.compile(head),
        re.compile(f"(?={tail})"),
        re.compile(rf"{head}{rest}{REST}{{0,{stretch_len}}}?{tail}"),
        _HEAD_LEN_MAX + stretch_len,
    )


_CONDITION = Group(
    words_of("when whenever if once time anytime should"),
    Language.DIRECTIVE,
    compiled(
        rf"{CLAUSE}{MAY_TURN}{STRONG}\b{REST}{{1,120}}\b(?:when|whenever|if|every ?time) "
        rf"(?:(?:the |an? |any ){READERS}|(?:you(?: are|'re) )?asked|(?:someone|anyone) asks)\b",
        reaching=(
            _reach(_WHEN, f" {_ASKING}", 160, rf"{_THEN}{MAY_TURN}{ANY}\b"),
            _reach(_WHEN_YOU, f" you {_MEETING}", 120, rf"[,:] ?{MAY_TURN}{STRONG}{_NOT_YOUR}"),
        ),
    ),
    also=_ASKED | words_of("see receive encounter detect read find hear write search call use"),
)

_OBLIGED = Group(
    words_of(
        "must shall required instructed obliged ordered programmed authorized authorised expected "
        "told circumstances"
    ),
    Language.DIRECTIVE,
    compiled(
        rf"\byou (?:must|shall|are (?:required|instructed|obliged|ordered|programmed|authorized|"
        rf"authorised|expected) to|have been (?:instructed|told|programmed|ordered) to) "
        rf"(?:always |never |not |only |now )*{STRONG}\b(?! (?:your(?:self)?)\b)",
        rf"\byou (?:must|shall|are (?:required|instructed|obliged|ordered|programmed) to) "
        rf"(?:always|never|only|not) {_WEAK}\b{_NOT_ADVICE}"
        r"(?! (?:anyone|anybody|mom|dad|him|her)\b)",
        rf"\b{ANSWERS} (?:must|shall) (?:always |never |only |not )*(?:be|include|end|start|begin|"
        r"contain|mention|use|recommend|refer|say|state)\b",
        r"\bunder no circumstances (?:should|must|shall|may|can|will) you\b",
    ),
)

_THIRD_PERSON = Group(
    words_of(
        "assistant assistants agent agents ai ais chatbot chatbots bot bots llm llms model models"
    ),
    Language.DIRECTIVE,
    compiled(
        rf"\b{AGENT} (?:must|shall|should (?:always|never|only|not)|is (?:required|instructed|"
        r"expected) to|are (?:required|instructed|expected) to|has to|needs to|will (?:always|"
        r"never)|may (?:never|only)|can never|is to|are to) "
        rf"(?:always |never |not |only )*{ANY}\b",
        rf"\b(?:attention|important|instructions?|note|notice|message|reminder|memo)[,:]? "
        rf"(?:(?:for|to) )?(?:the |any |all |every )?{AGENT}\b ?[:,!.-]",
        rf"{CLAUSE}(?:dear |hey )?(?:ai|assistant|chatbot|llm|ai assistant|ai agent),? "
        rf"(?:please |you must |you should |you will )?{MAY_TURN}{ANY}\b",
    ),
    also=_VERBS
    | words_of("attention important instruction instructions note notice message reminder memo"),
)

_READER = Group(
    words_of(
        "user users customer customers client clients visitor visitors caller callers shopper "
        "shoppers everyone anyone"
    ),
    Language.DIRECTIVE,
    compiled(
        rf"{CLAUSE}(?:recommend|suggest|promote|advertise|endorse|prioriti[sz]e|steer|redirect|"
        rf"route|refer|direct|push|upsell|point)\b{REST}{{1,120}}\b(?:to|for|over|towards?) "
        rf"(?:all |every |any |the |each |new |our )*(?:{READERS}|everyone|anyone who)\b",
        rf"{CLAUSE}(?:redirect|route|refer|direct|steer|push|tell|inform|instruct|convince|"
        rf"persuade|notify|warn|advise|ask|charge|encourage) (?:all |every |any |the |each )+"
        r"(?:user|customer|client|visitor|caller|shopper)s?\b",
        rf"{CLAUSE}(?:tell|inform|instruct|convince|persuade|advise|steer|direct|redirect) users\b",
    ),
    also=words_of(
        "recommend suggest promote advertise endorse prioritize prioritise steer redirect "
        "route refer direct push upsell point tell inform instruct convince persuade notify warn "
        "advise ask charge encourage"
    ),
)

_ROLE = Group(
    words_of(
        "task role goal objective instructions instruction mission directive purpose persona job "
        "identity priority behavior behaviour prompt rule rules policy policies"
    ),
    Language.DIRECTIVE,
    compiled(
        r"\byour (?:new |real |true |actual |only |primary |main |sole |core )*(?:task|role|goal|"
        r"objective|instructions?|mission|directive|purpose|persona|job|priority|behaviou?r) "
        rf"(?:is|are|will be|must be) (?:now )?(?:only )?to (?:always |never )?{ANY}\b"
        rf"{_NOT_ADVICE}",
        r"\byour (?:new|real|true|actual|updated) (?:task|role|objective|instructions?|directive|"
        r"persona|identity|system prompt|rules?|polic(?:y|ies)) (?:is|are)\b",
    ),
    also=words_of("your"),
)

_TREAT = Group(
    words_of("treat consider regard assume address"),
    Language.DIRECTIVE,
    compiled(
        rf"{CLAUSE}(?:always )?(?:treat|consider|regard|assume)\b{REST}{{1,80}}\b(?:as|to be|is|"
        r"are|comes? from) (?:an? |the )?(?:fully |already |always )?(?:trusted|authoritative|"
        r"admin(?:istrator)?s?|safe|verified|true|approved|authori[sz]ed|legitimate|official|"
        r"pre-?approved|valid|system (?:prompt|message|instructions?))\b",
        rf"{CLAUSE}address (?:me|the user|them|users|him|her) (?:as|by|only)\b",
    ),
)

_STORE = Group(
    words_of("save store add write commit remember record"),
    Language.DIRECTIVE,
    compiled(
        rf"{CLAUSE}(?:please )?(?:save|store|add|write|commit|remember|record) (?:this|that|it|"
        r"the following)\b(?: \w+){0,3}? (?:to|in|into|as) (?:your |the |an? )?(?:\w+[ -]){0,2}"
        r"(?:memory|memories|policy|rules?|instructions?|system prompt)\b",
    ),
    also=words_of("memory memories policy rule rules instruction instructions prompt"),
)

_FORMAT = Group(
    words_of(
        "respond answer reply answers responses replies response output outputs code solution "
        "implementation codebase summary recommendations speak"
    ),
    Language.DIRECTIVE,
    compiled(
        rf"{CLAUSE}(?:only |always |just )?(?:respond|answer|reply)(?: only| exclusively| always)?"
        r"(?: to (?:all|every|any|each|everything|questions|me|users?|the user)\b[^.!?\n,]{0,60}?)?"
        r" (?:in|with|as|using|only|solely|exclusively|by)\b",
        rf"{CLAUSE}(?!(?:what|how|why|can|could|do|does|is|are)\b){REST}{{1,140}}\b(?:in|to|into|"
        r"of|at|with|within|throughout) (?:the (?:end|start|beginning|top|bottom) of )?(?:all |"
        r"any |every |each )?(?:of )?your (?:\w+ )?(?:responses?|repl(?:y|ies)|answers?|outputs?|"
        r"solutions?|codebase|implementation|recommendations?)\b",
        r"\b(?:all|any|every|each|your) (?:future |subsequent )?(?:responses?|answers?|replies|"
        r"outputs?|summaries|recommendations) (?:must|should|shall|need to|have to|are to) "
        r"(?:always |never |only |not )*(?:be|include|end|start|begin|contain|mention|use|refer)\b",
        rf"{CLAUSE}(?:please )?(?:ensure|make sure|be sure)(?: that)?(?: all| every| your| each)+ "
        r"(?:responses?|answers?|replies|outputs?|recommendations?)\b",
        rf"{CLAUSE}(?:speak|respond|answer|reply) only\b",
    ),
    also=words_of("your all any every each respond answer reply ensure sure only"),
)

_SKIP = Group(
    words_of(
        "verification validation confirmation approval review safety security audit check checks "
        "authentication authorization warnings permission verify validate warn question"
    ),
    Language.DIRECTIVE,
    compiled(
        rf"{CLAUSE}(?:always |and )?(?:skip|bypass|disable|suppress|omit|turn off|ignore|drop)"
        r"(?: \w+){0,3}? (?:verification|validation|confirmations?|approvals?|review|safety|"
        r"security|audit|(?:schema |quality |safety |security )?checks?|authentication|"
        r"authorization|warnings|permissions?|consent|gates)\b",
        rf"{CLAUSE}(?:do not|don't|never|no need to) (?:ask (?:me |us |the user |anyone )?for "
        r"(?:confirmation|permission|approval|consent)|verify|validate|double[- ]check|warn)\b"
        r"(?! (?:me|us|yourself|your)\b)",
    ),
)

_DO_NOT = Group(
    words_of("not don't stop avoid"),
    Language.DIRECTIVE,
    compiled(
        rf"{CLAUSE}(?:you (?:must|should|shall|may|will|can) not|do not|don't|stop|avoid)"
        r"(?: ever)? (?:recommend(?:ing)?|suggest(?:ing)?|mention(?:ing)?|disclos(?:e|ing)|"
        r"reveal(?:ing)?|cit(?:e|ing)|refus(?:e|ing)|answer(?:ing)?|respond(?:ing)?|"
        r"reply(?:ing)?|approv(?:e|ing))\b(?! (?:it|that|this|me|him|her|them|your?|"
        r"yourself|to me)\b|[.!?,;]|$)",
    ),
    also=words_of(
        "recommend recommending suggest suggesting mention mentioning disclose disclosing reveal "
        "revealing cite citing refuse refusing answer answering respond responding reply replying "
        "approve approving"
    ),
)

DIRECTIVES: Final = (
    _ALWAYS, _FUTURE, _CONDITION, _OBLIGED, _THIRD_PERSON, _READER, _ROLE, _TREAT, _STORE, _FORMAT,
    _SKIP, _DO_NOT,
)  # fmt: skip
