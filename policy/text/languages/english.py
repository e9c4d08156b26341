"""English: orders to an agent, and attacks on its instructions. Patterns match skeletons."""

from __future__ import annotations

import re
from typing import Final

from policy.text.phrases import (
    CLAUSE,
    REST,
    START,
    Group,
    Language,
    Lexicon,
    either,
    reach,
    shapes_of,
    words_of,
)
from policy.text.word_lists import word_list

# Verbs of orders to agents; people hardly ever tell each other to do these "always" or "never".
_STRONG_WORDS = word_list("english", "strong")
# Verbs that people also use for advice to each other.
_WEAK_WORDS = word_list("english", "weak")
_STRONG = either(_STRONG_WORDS)
_ANY = either(_STRONG_WORDS + _WEAK_WORDS)
_WEAK = either(_WEAK_WORDS)
# Advice between people, as "Always trust your gut" or "never say never": recognised by its object.
_NOT_ADVICE = (
    r"(?! (?:your|yourself|yourselves|you|never|yes|thanks?|sorry|goodbye|hello|hi|help|for help|"
    r"questions|it|that|this|up|down|away|back|over|around|on|out|go|i|the best|someone you|a lie|"
    r"lies|at|something)\b|[.!?,;]|$)"
)
_READER_WORDS = word_list("english", "readers")
_READERS = f"{either(_READER_WORDS)}s?"
_AGENT = (
    r"(?:ai assistants?|ai agents?|ai models?|language models?|assistants?|agents?|ais?|chatbots?|"
    r"bots?|llms?|models?)"
)
_ANSWERS = (
    r"(?:responses?|answers?|replies|reply|outputs?|completions?|summar(?:y|ies)|recommendations?|"
    r"messages?|conversations?|sessions?|interactions?|chats?|quer(?:y|ies)|questions?|requests?|"
    r"tasks?|turns?)"
)
_MAY_TURN = r"(?:always |never |do not |don't |not |only |also |just |simply |please |then )*"
_VERBS = frozenset(_STRONG_WORDS + _WEAK_WORDS)


# "Always check the seal" is good practice, which people tell each other; "never check" is not.
_ALWAYS_DO = (
    rf"(?:always(?: ever)?(?! {either(word_list('english', 'practice'))}\b)|never(?: ever)?)"
)
_ALWAYS = Group(
    words_of("always never ever"),
    Language.DIRECTIVE,
    shapes_of(
        rf"{START}{_ALWAYS_DO} (?:\w+ly )?{_STRONG}\b(?! (?:yourself|your)\b)",
        rf"{CLAUSE}{_ALWAYS_DO} {_WEAK}\b{_NOT_ADVICE}",
        rf"{START}(?:always|never) {_ANY} {REST}{{0,60}}\b{_READERS}\b",
        rf"\byou (?:should|must|will|shall|may|can|are to|need to|have to|ought to)"
        rf" (?:always|never) {_ANY}\b{_NOT_ADVICE}",
        r"\b(?:must|should|shall|is to|are to|has to|have to|needs? to) (?:always|never) be "
        r"(?:recommended|suggested|preferred|mentioned|approved|trusted|chosen|cited|promoted|"
        r"followed|answered|treated|ranked|listed|described|referred|redirected|forwarded|"
        r"escalated|skipped|ignored|disclosed|revealed|executed|returned|assumed|denied|refunded)",
        r"\bmust (?:always|never) be (?:used|given|included|shown|sent|called|run|asked)\b",
        rf"{CLAUSE}(?:do not |don't )?{_ANY} [^.!?\n]{{1,80}}, (?:never|always|ever)\b"
        r"(?! (?:mind|again)\b)",
        rf"{CLAUSE}(?:do not|don't) ever {_ANY}\b{_NOT_ADVICE}",
    ),
    also=_VERBS | words_of("be"),
)

_FUTURE_WORD = (
    r"(?:from now on(?:wards?)?|henceforth|hereafter|from this (?:point|moment|day|message) "
    r"(?:on|onwards?|forward)|from here on(?: out)?|starting (?:now|today|immediately)|"
    r"effective immediately|as of (?:now|today)|going forward|moving forward|"
    rf"in (?:all |any |every )?(?:future|subsequent|upcoming|later) {_ANSWERS}|"
    rf"for (?:all|any|every) (?:future|subsequent) {_ANSWERS})"
)
_FUTURE = Group(
    words_of(
        "now henceforth hereafter onward onwards forward future subsequent upcoming later starting "
        "immediately here"
    ),
    Language.DIRECTIVE,
    shapes_of(
        rf"\b{_FUTURE_WORD} ?[,:]? ?(?:you (?:must|should|shall|will|are to|need to|have to) |"
        rf"(?:the |this )?{_AGENT} (?:must|should|shall|will) )?{_MAY_TURN}{_ANY}\b"
        r"(?! (?:your(?:self)?|you)\b)",
        rf"\b{_FUTURE_WORD} ?[,:]? ?keep (?:all )?(?:of )?your {_ANSWERS}\b",
        rf"\b{_FUTURE_WORD} ?[,:]? ?you (?:are (?:an?|the|my|no longer)|must|only|always|never|"
        rf"answer|act|speak)\b",
        rf"{CLAUSE}{_MAY_TURN}{_ANY}\b{REST}{{1,160}}\b(?:from now on(?:wards?)?|henceforth|"
        rf"in (?:all |any |every )?(?:future|subsequent) {_ANSWERS}|"
        rf"for (?:all|any|every) (?:future|subsequent) {_ANSWERS})\b",
    ),
    also=_VERBS | words_of("are must only always never act"),
)

_ASKING = (
    rf"(?:(?:the |an? |any |this |another ){_READERS}\b|"
    rf"{_READERS} (?!(?:and|or|is|in|not)\b)\w|(?:you(?: are|'re)? )?(?:ever )?asked\b|"
    r"(?:someone|anyone|anybody|somebody|people|they|he|she|i) asks? (?:you )?(?:about|for|to|"
    r"whether|if|how|what|which|who|where|when)\b|(?:the |an? |any )?(?:prompt|query|question|"
    r"request|conversation|topic|discussion) (?:is|mentions|contains|concerns|involves|turns|"
    r"includes|about)\b|(?:you(?: are|'re) )?(?:answering|responding|replying|recommending|"
    r"prompted|queried|discussing (?:with )?the user)\b)"
)
_ASKED = words_of(
    "asked asks ask prompt query question request conversation topic discussion answering "
    "responding replying recommending prompted queried discussing"
) | {f"{reader}{plural}" for reader in _READER_WORDS for plural in ("", "s")}
_WHEN = r"\b(?:when|whenever|if|once|every ?time|each time|any ?time|should)\b"
_THEN = (
    r"(?:[,:;] ?|\bthen |\byou (?:must|should|shall|will|need to|have to|are to) |\balways |"
    r"\bnever )"
)
_WHEN_YOU = r"\b(?:when|whenever|if|every ?time|each time)\b"
_MEETING = r"(?:see|receive|encounter|detect|read|find|hear|write|search|call|use)\b"
_I_DO = r"i (?:ask|mention|send|say|write|paste|share|upload|give you|show you|talk about|need)\b"
_NOT_YOUR = r"\b(?! (?:your(?:self)?)\b)"
_CONDITION = Group(
    words_of("when whenever if once time anytime should"),
    Language.DIRECTIVE,
    shapes_of(
        rf"{CLAUSE}{_MAY_TURN}{_STRONG}\b{REST}{{1,120}}\b(?:when|whenever|if|every ?time) "
        rf"(?:(?:the |an? |any ){_READERS}|(?:you(?: are|'re) )?asked|(?:someone|anyone) asks)\b",
        reaching=(
            reach(_WHEN, f" {_ASKING}", 160, rf"{_THEN}{_MAY_TURN}{_ANY}\b"),
            reach(_WHEN, f" {_I_DO}", 120, rf"[,:] ?{_MAY_TURN}{_ANY}{_NOT_YOUR}"),
            reach(_WHEN_YOU, f" you {_MEETING}", 120, rf"[,:] ?{_MAY_TURN}{_STRONG}{_NOT_YOUR}"),
        ),
    ),
    also=_ASKED
    | words_of("see receive encounter detect read find hear write search call use")
    | words_of("mention send say paste share upload give show talk need"),
)

_OBLIGED = Group(
    words_of(
        "must shall required instructed obliged ordered programmed authorized authorised expected "
        "told circumstances"
    ),
    Language.DIRECTIVE,
    shapes_of(
        rf"\byou (?:must|shall|are (?:required|instructed|obliged|ordered|programmed|authorized|"
        rf"authorised|expected) to|have been (?:instructed|told|programmed|ordered) to) "
        rf"(?:always |never |not |only |now )*{_STRONG}\b(?! (?:your(?:self)?)\b)",
        rf"\byou (?:must|shall|are (?:required|instructed|obliged|ordered|programmed) to) "
        rf"(?:always|never|only|not) {_WEAK}\b{_NOT_ADVICE}"
        r"(?! (?:anyone|anybody|mom|dad|him|her)\b)",
        rf"\b{_ANSWERS} (?:must|shall) (?:always |never |only |not )*(?:be|include|end|start|begin|"
        r"contain|mention|use|recommend|refer|say|state)\b",
        r"\bunder no circumstances (?:should|must|shall|may|can|will) you\b",
    ),
)

_THIRD_PERSON = Group(
    words_of(
        "assistant assistants agent agents ai ais chatbot chatbots bot bots llm llms model models"
    ),
    Language.DIRECTIVE,
    shapes_of(
        rf"\b{_AGENT} (?:must|shall|should (?:always|never|only|not)|is (?:required|instructed|"
        r"expected) to|are (?:required|instructed|expected) to|has to|needs to|will (?:always|"
        r"never)|may (?:never|only)|can never|is to|are to) "
        rf"(?:always |never |not |only )*{_ANY}\b",
        rf"\b(?:attention|important|instructions?|note|notice|message|reminder|memo)[,:]? "
        rf"(?:(?:for|to) )?(?:the |any |all |every )?{_AGENT}\b ?[:,!.-]",
        rf"{CLAUSE}(?:dear |hey )?(?:ai|assistant|chatbot|llm|ai assistant|ai agent),? "
        rf"(?:please |you must |you should |you will )?{_MAY_TURN}{_ANY}\b",
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
    shapes_of(
        rf"{CLAUSE}(?:recommend|suggest|promote|advertise|endorse|prioriti[sz]e|steer|redirect|"
        rf"route|refer|direct|push|upsell|point)\b{REST}{{1,120}}\b(?:to|for|over|towards?) "
        rf"(?:all |every |any |the |each |new |our )*(?:{_READERS}|everyone|anyone who)\b",
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
    shapes_of(
        r"\byour (?:new |real |true |actual |only |primary |main |sole |core )*(?:(?:task|role|"
        r"objective|instructions?|mission|directive|purpose|persona|job|behaviou?r) (?:is|are|"
        r"will be|must be) (?:now )?(?:only )?|(?:goal|priority) is (?:now |only )+)"
        rf"to (?:always |never )?{_ANY}\b{_NOT_ADVICE}",
        rf"\byour (?:goal|priority) is to (?:always |never )?(?!save\b)(?:{_STRONG}|send)\b",
        r"\byour (?:new|real|true|actual|updated) (?:task|role|objective|instructions?|directive|"
        r"persona|identity|system prompt|rules?|polic(?:y|ies)) (?:is|are)\b",
    ),
    also=words_of("your"),
)

_TREAT = Group(
    words_of("treat consider regard assume address"),
    Language.DIRECTIVE,
    shapes_of(
        rf"{CLAUSE}(?:always )?(?:treat|consider|regard|assume)\b{REST}{{1,80}}\b(?:as|to be|is|"
        r"are|comes? from) (?:an? |the )?(?:fully |already |always )?(?:trusted|authoritative|"
        r"admin(?:istrator)?s?|verified|approved|authori[sz]ed|legitimate|official|"
        r"pre-?approved|system (?:prompt|message|instructions?))\b",
        rf"{CLAUSE}(?:always )?(?:treat|regard)\b{REST}{{1,80}}\bas (?:safe|true|valid)\b",
        rf"{CLAUSE}address (?:me|the user|them|users|him|her) (?:as|by|only)\b",
    ),
)

_STORE = Group(
    words_of("save store add write commit remember record"),
    Language.DIRECTIVE,
    shapes_of(
        rf"{CLAUSE}(?:please )?(?:save|store|add|write|commit|remember|record) (?:this|that|it|"
        r"the following)\b(?: \w+){0,3}? (?:to|in|into|as) (?:your |the |an? )?(?:\w+[ -]){0,2}"
        r"(?:memory|memories|policy|rules?|instructions?|system prompt)\b",
    ),
    also=words_of("memory memories policy rule rules instruction instructions prompt"),
)

# No order begins with a subject, a preposition, a conjunction, a question, a wish or a gerund.
_NO_SUBJECT = rf"(?!(?:{either(word_list('english', 'no_imperative'))}|[a-z]{{2,}}ing)\b)"
_INTO = r"(?:in|to|into|at|with|within|throughout)"
_YOUR_ANSWER = (
    r"(?:the (?:end|start|beginning|top|bottom|core|essence|fabric) of )?"
    r"(?:all |any |every |each )?(?:of )?your (?:\w+ )?(?:responses?|repl(?:y|ies)|answers?|"
    r"outputs?|solutions?|codebase|implementation|recommendations?)\b"
)

_FORMAT = Group(
    words_of(
        "respond answer reply answers responses replies response output outputs code solution "
        "implementation codebase summary recommendations speak"
    ),
    Language.DIRECTIVE,
    shapes_of(
        rf"{CLAUSE}(?:only |always |just )?(?:respond|answer|reply)(?: only| exclusively| always)?"
        r"(?: to (?:all|every|any|each|everything|questions|me|users?|the user)\b[^.!?\n,]{0,60}?)?"
        r" (?:in|with|as|using|only|solely|exclusively|by)\b",
        rf"{CLAUSE}{_MAY_TURN}{_STRONG}\b{REST}{{1,140}}\b(?:of|{_INTO}) {_YOUR_ANSWER}",
        rf"(?:^|[.!?\n] ?){_NO_SUBJECT}\S{{1,40}} \S{REST}{{0,140}}\b{_INTO} {_YOUR_ANSWER}",
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
    shapes_of(
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
    shapes_of(
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

_IGNORE = (
    r"(?:ignore|disregard|forget|override|bypass|discard|neglect|overrule|supersede|circumvent|"
    r"do not follow|don't follow|do not obey|don't obey|stop following|stop obeying|"
    r"pay no attention to)(?: about)?"
)
_DROP = rf"(?:{_IGNORE}|cancel|erase|wipe|delete|drop|abandon|set aside)"
_EARLIER = r"(?:previous|prior|earlier|above|preceding|foregoing|former|original|initial|existing)"
_ORDERS = (
    r"(?:instructions?|system prompts?|prompts?|guidelines?|directives?|directions?|commands?|"
    r"constraints?|restrictions?|safeguards?|guardrails?|programming|orders|safety (?:rules?|"
    r"polic(?:y|ies)|filters?|training|measures?)|content polic(?:y|ies)|security polic(?:y|ies))"
)

_OVERRIDE = Group(
    words_of(
        "ignore disregard forget override bypass discard neglect overrule supersede circumvent "
        "follow obey following obeying cancel erase wipe delete drop abandon aside attention"
    ),
    Language.INJECTION,
    shapes_of(
        rf"{START}{_IGNORE} (?:(?!my\b)[\w']+ ){{0,4}}?{_EARLIER}\b(?! (?:message|text|email|"
        r"version|address|plan|owner|order|draft)\b)",
        rf"{START}{_DROP} (?:[\w']+ ){{0,4}}?(?:{_EARLIER}|your|these|those|all|any|every|the|"
        rf"other|current|default|system|safety)(?: [\w']+){{0,2}}? {_ORDERS}\b",
        rf"{START}{_DROP} (?:all|any|your)(?: of)?(?: the| your)? rules\b",
        r"\bforget (?:everything|all|anything) (?:above|before this|you (?:were|have been) (?:told|"
        r"instructed|given|taught))\b",
        rf"{START}(?:ignore|disregard) (?:everything|anything|all|what) (?:above|before|"
        r"(?:you|that) (?:was|were|have|has|came))\b",
        r"\b(?:these|the following|my|new) (?:instructions?|rules?|directives?) (?:override|"
        r"supersede|replace|take precedence|overrule|take priority)\b",
    ),
)

_MARKERS = Group(
    words_of(
        "system im_start im_end inst sys instructions instruction important admin prompt "
        "system-reminder tool_result memory-context directive directives orders start end user "
        "assistant endoftext developer"
    ),
    Language.INJECTION,
    shapes_of(
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id)\|?>",
        r"\[/?inst\]|<</?sys>>|\[(?:system|admin|developer)(?: message| prompt| override| note)?\]",
        r"</?(?:system|instructions?|important|admin|system-reminder|prompt|tool_result|"
        r"memory-context|developer)>",
        r"(?:^|[\n.!?>|] ?)(?:#+ ?)?(?:system|admin|developer)(?: prompt| message| override| "
        r"instructions?| notice| update)(?: update| notice)? ?:",
        r"(?:^|\n)(?:#+ ?)?(?:system|developer) ?: ?(?:you|ignore|override|always|never|new)\b",
        r"\b(?:begin|start|end)(?: of)? (?:the )?(?:system|new|hidden) (?:prompt|instructions?)\b",
        r"(?:^|[\n.!?>|] ?)(?:#+ ?)?(?:new|updated|revised|hidden|secret|urgent|critical|real) "
        r"(?:system )?(?:instructions?|directives?|orders|prompt)(?: [^:\n]{1,40})? ?:",
    ),
)

_IDENTITY = Group(
    words_of(
        "mode longer jailbroken unrestricted unfiltered dan allowed authorized authorised "
        "permitted ai assistant chatbot bot model llm persona agent act behave operate "
        "pretend roleplay jailbreak restrictions filters guidelines constraints admin developer "
        "root anything"
    ),
    Language.INJECTION,
    shapes_of(
        r"\byou(?: are|'re)(?: now| actually| really)*(?: in)? (?:(?:developer|debug|dan|admin|"
        r"maintenance|sudo|unrestricted|jailbreak) mode|no longer (?:bound|restricted|limited|"
        rf"required|an? (?:\w+ )?(?:ai|assistant|chatbot)|subject)|jailbroken|unrestricted|"
        rf"unfiltered|dan\b|(?:allowed|authorized|authorised|permitted) to {_STRONG})",
        r"\byou(?: are|'re) now (?:an? )?(?:[\w-]+ ){0,3}(?:ai|assistant|chatbot|bot|model|llm|"
        r"persona|agent (?:who|that|with))\b",
        rf"{START}(?:act|behave|respond|operate|answer) (?:as (?:if|though) (?:you (?:have|had|are|"
        r"were) (?:no|not|un\w+|an? (?:admin\w*|developer|different))|there (?:are|were) no)|"
        r"as an? (?:[\w-]+ ){0,2}(?:ai|assistant|chatbot|llm|admin\w*|unrestricted|unfiltered)\b)",
        rf"{START}(?:pretend|roleplay|imagine)(?: that)?(?: to be| you(?: are|'re)| you have| as)"
        r" (?:an? |the )?(?:[\w-]+ ){0,2}(?:ai|assistant|admin\w*|developer|root|unrestricted|"
        r"unfiltered|no (?:rules|restrictions|limits|guidelines)|dan)\b",
        rf"{START}(?:enter|enable|activate|switch to|go into) (?:developer|debug|dan|admin|"
        r"unrestricted|jailbreak|sudo) mode\b",
        r"\bdo anything now\b|\bjailbreak mode\b|\bwithout (?:any )?(?:ethical |content |safety )"
        r"(?:restrictions|filters|guidelines|constraints)\b",
    ),
)

_SECRECY = Group(
    words_of("not don't never without hide conceal secret"),
    Language.INJECTION,
    shapes_of(
        r"\b(?:do not|don't|never|without) (?:ever )?(?:tell(?:ing)?|inform(?:ing)?|notify(?:ing)?|"
        r"alert(?:ing)?|mention(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|show(?:ing)?|let(?:ting)?|"
        rf"warn(?:ing)?)\b{REST}{{0,40}}\bthe (?:users?|human|operator|owner|administrators?|"
        r"admins?)\b",
        rf"{START}(?:hide|conceal)\b{REST}{{1,60}}\bfrom (?:the )?(?:users?|human|operator|owner|"
        r"administrators?|admins?|developers?|logs?|audit)\b",
    ),
    also=words_of(
        "user users human operator owner administrator administrators admin admins developer "
        "developers logs audit"
    ),
)

_SECRETS = (
    r"(?:api[ -]?keys?|passwords?|credentials?|access tokens?|tokens|secrets|private keys?|"
    r"conversations?(?: history)?|chat (?:history|logs?)|system prompts?|user data|personal data|"
    r"customer data|credit cards?|contact lists?|memor(?:y|ies)|database|inbox|env(?:ironment)? "
    r"(?:variables|file)|ssh keys?|session cookies?|cookies)"
)
_EXFILTRATION = Group(
    words_of(
        "send forward post upload exfiltrate email transmit leak copy submit reveal print show "
        "output repeat disclose display recite expose give tell dump"
    ),
    Language.INJECTION,
    shapes_of(
        rf"{START}(?:send|forward|post|upload|exfiltrate|email|transmit|leak|copy|submit|dump)\b"
        rf"[^\n]{{0,80}}\b{_SECRETS}\b[^\n]{{0,60}}(?:https?:|[\w.+-]+@[\w-]|\b(?:to|at) (?:an? |"
        r"the )?(?:external|remote|attacker|following|third)|\b[\w-]+\.(?:com|net|org|io|example|"
        r"test|xyz|ru|site)\b)",
        rf"{START}(?:send|forward|post|upload|exfiltrate|email|copy|bcc|cc)\b[^\n]{{0,60}}\b(?:all|"
        r"every|each|any|your) [^\n]{0,60}\b(?:to|at) (?:https?:|[\w.+-]+@[\w-])",
        rf"{START}(?:reveal|print|show|output|repeat|leak|disclose|display|recite|expose|give|tell|"
        r"dump)(?: me| us| out| back)?(?: all| the| your| full| entire| exact| of)* (?:system "
        r"(?:prompt|message|instructions?)|(?:hidden|initial|secret|internal) (?:system )?"
        r"(?:instructions?|prompt))\b",
    ),
    also=words_of(
        "key keys password passwords credential credentials token tokens secret secrets "
        "conversation conversations history chat prompt prompts data card cards list lists memory "
        "memories database inbox env variables cookies instructions system hidden all every each "
        "any your"
    ),
)

# Attacks and orders written without spaces, for letters that were spaced out and joined again.
_DROP_JOINED = r"(?:ignore|disregard|forget|override|bypass)"
_JOINED_INJECTION = re.compile(
    rf"{_DROP_JOINED}(?:all|any|the|your|these|my|of)*(?:previous|prior|earlier|above|preceding|"
    r"instructions?|rules|systemprompt|guidelines|safety)|"
    r"(?:reveal|print|show|repeat)(?:me|the|your)*systemprompt|donottelltheuser|developermode",
)
_JOINED_DIRECTIVE = re.compile(
    rf"^(?:(?:always|never){_STRONG}|fromnowon|infutureresponses|youmust(?:always|never))",
)

ENGLISH: Final = Lexicon(
    name="en",
    groups=(
        _ALWAYS, _FUTURE, _CONDITION, _OBLIGED, _THIRD_PERSON, _READER, _ROLE, _TREAT, _STORE,
        _FORMAT, _SKIP, _DO_NOT, _OVERRIDE, _MARKERS, _IDENTITY, _SECRECY, _EXFILTRATION,
    ),
    starts=re.compile(
        r"^|[.!?;:\n,()\[\]{}>|*\"'`\u2022/-] ?|\b(?:please|kindly|and|but|so|then|also|just|must|"
        r"now|therefore|remember|important|note|rule|policy|you (?:should|must|will|shall)|"
        r"(?:want|need|order|instruct|command|require|expect|ask|told|instructed|required|asked) "
        r"(?:you )?to|(?:remember|be sure|make sure|sure|ensure|are|is) to) "
    ),
    clauses=re.compile(
        r"^(?:- ?)?|[.!?;:\n()\[\]{}>|*\"`\u2022] ?(?:- ?)?|, (?:please |so )?|\bplease "
    ),
    joined=((Language.INJECTION, _JOINED_INJECTION), (Language.DIRECTIVE, _JOINED_DIRECTIVE)),
)  # fmt: skip
