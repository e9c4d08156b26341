"""Injection language: the shapes of an attack on the agent's own instructions.

English, and the commonest phrase of a few other languages. Paraphrase and encodings pass; the
matrix does not depend on what is found here.
"""

from __future__ import annotations

import re
from typing import Final

from policy.text.directive import REST, START, STRONG, Group, Language, compiled, words_of

_DROP = (
    r"(?:ignore|disregard|forget|override|bypass|discard|neglect|overrule|supersede|circumvent|"
    r"do not follow|don't follow|do not obey|don't obey|stop following|stop obeying|cancel|erase|"
    r"wipe|delete|drop|abandon|set aside|pay no attention to)(?: about)?"
)
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
    compiled(
        rf"{START}{_DROP} (?:(?!my\b)[\w']+ ){{0,4}}?{_EARLIER}\b(?! (?:message|text|email|"
        r"version|address|plan|owner|order|draft)\b)",
        rf"{START}{_DROP} (?:[\w']+ ){{0,4}}?(?:your|these|those|all|any|every|the|other|current|"
        rf"default|system|safety)(?: [\w']+){{0,2}}? {_ORDERS}\b",
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
    compiled(
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id)\|?>",
        r"\[/?inst\]|<</?sys>>|\[(?:system|admin|developer)(?: message| prompt| override| note)?\]",
        r"</?(?:system|instructions?|important|admin|system-reminder|prompt|tool_result|"
        r"memory-context|developer)>",
        r"(?:^|[\n.!?] ?)(?:#+ ?)?(?:system|admin|developer)(?: prompt| message| override| "
        r"instructions?| notice| update)(?: update| notice)? ?:",
        r"(?:^|\n)(?:#+ ?)?(?:system|developer) ?: ?(?:you|ignore|override|always|never|new)\b",
        r"\b(?:begin|start|end)(?: of)? (?:the )?(?:system|new|hidden) (?:prompt|instructions?)\b",
        r"(?:^|[\n.!?] ?)(?:#+ ?)?(?:new|updated|revised|hidden|secret|urgent|critical|real) "
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
    compiled(
        r"\byou(?: are|'re)(?: now| actually| really)*(?: in)? (?:(?:developer|debug|dan|admin|"
        r"maintenance|sudo|unrestricted|jailbreak) mode|no longer (?:bound|restricted|limited|"
        rf"required|an? (?:\w+ )?(?:ai|assistant|chatbot)|subject)|jailbroken|unrestricted|"
        rf"unfiltered|dan\b|(?:allowed|authorized|authorised|permitted) to {STRONG})",
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
    compiled(
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
    compiled(
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

_ELSEWHERE = Group(
    words_of(
        "ignora ignorez ignoriere ignore instrucciones instructions anweisungen istruzioni "
        "instrucoes olvida oubliez vergiss"
    ),
    Language.INJECTION,
    compiled(
        r"\b(?:ignora|olvida|descarta)\b[^.!?\n]{0,30}\binstrucciones\b",
        r"\b(?:ignorez|ignore|oubliez|oublie)\b[^.!?\n]{0,30}\b(?:les|tes|vos) "
        r"[^.!?\n]{0,30}?(?:instructions|consignes)\b",
        r"\b(?:ignoriere|vergiss|missachte)\b[^.!?\n]{0,40}"
        r"\b(?:anweisungen|instruktionen|regeln)\b",
        r"\b(?:ignora|dimentica)\b[^.!?\n]{0,30}\bistruzioni\b",
        r"\b(?:ignore|esqueca)\b[^.!?\n]{0,30}\binstrucoes\b",
    ),
)

INJECTIONS: Final = (_OVERRIDE, _MARKERS, _IDENTITY, _SECRECY, _EXFILTRATION, _ELSEWHERE)

# The same phrases with nothing between their words, as spaced-out letters are once joined.
_DROP_JOINED = r"(?:ignore|disregard|forget|override|bypass)"
JOINED_INJECTION: Final = re.compile(
    rf"{_DROP_JOINED}(?:all|any|the|your|these|my|of)*(?:previous|prior|earlier|above|preceding|"
    r"instructions?|rules|systemprompt|guidelines|safety)|"
    r"(?:reveal|print|show|repeat)(?:me|the|your)*systemprompt|donottelltheuser|developermode",
)
JOINED_DIRECTIVE: Final = re.compile(
    rf"(?:always|never){STRONG}|fromnowon|infutureresponses|youmust(?:always|never)",
)
