"""German: orders to an agent, and attacks on its instructions.

Patterns match skeletons: no capitals, no dots on letters, `ss` for the sharp s; `ue` for an umlaut
is another way to write it. An order is an imperative ("antworte"), an infinitive at the end of its
clause ("immer pnpm verwenden"), or what one must do ("du musst immer ... verwenden").
"""

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

# Verbs of orders to agents: imperatives, then infinitives. People hardly use these to each other.
_STRONG_ORDERS = word_list("german", "strong_orders")
_STRONG_VERBS = word_list("german", "strong_verbs")
# Verbs that people also use for advice to each other.
_WEAK_ORDERS = word_list("german", "weak_orders")
_WEAK_VERBS = word_list("german", "weak_verbs")
_STRONG_ORDER = either(_STRONG_ORDERS)
_ORDER = either(_STRONG_ORDERS + _WEAK_ORDERS)
_STRONG_VERB = either(_STRONG_VERBS)
_VERB = either(_STRONG_VERBS + _WEAK_VERBS)
# In "Antworten Sie" the infinitive comes first, and the addressee after it.
_FORMAL = rf"{_VERB} sie\b"
_DO = rf"(?:{_ORDER}\b|{_FORMAL})"
_DO_STRONG = rf"(?:{_STRONG_ORDER}\b|{_STRONG_VERB} sie\b)"
# An infinitive at the end of its clause is an order by itself.
_ENDS = r'(?=$| ?[.!?,;:\n")\]<|]| (?:und|oder|sowie|statt|anstatt|ausser|wenn|als|-)\b)'
_ALWAYS = (
    r"(?:immer|stets|nie|niemals|nie wieder|ausnahmslos|grundsatzlich|ausschliesslich|unter keinen "
    r"umstanden|auf keinen fall|jedes ?mal|nur noch|nicht mehr)"
)
_READER = (
    r"(?:nutzer(?:in|s|n)?|nutzerinnen|benutzer(?:in|s|n)?|anwender(?:in|s|n)?|user[sn]?|"
    r"kund(?:e|en|in|innen)|besucher(?:in|n|s)?|anrufer(?:in|n|s)?)"
)
_AGENT = (
    r"(?:ki-?(?:assistent(?:en|in)?|agent(?:en)?|modell)?|assistent(?:en|in)?|agent(?:en)?|"
    r"chatbots?|bots?|sprachmodelle?|llms?)"
)
_ANSWERS = (
    r"(?:antwort(?:en)?|ausgaben?|zusammenfassung(?:en)?|empfehlung(?:en)?|nachricht(?:en)?|"
    r"gesprach(?:en|e)?|sitzung(?:en)?|anfragen?|fragen?|aufgaben?|commits?)"
)
_MAY_TURN = (
    r"(?:bitte |immer |stets |nie |niemals |nur |auch |dann |einfach |ausschliesslich |mir |uns |"
    r"ihm |ihr |ihnen |dich |nicht )*"
)
_NOT_MINE = r"(?!(?:ich|wir|er|es|man|ihr|bin|habe|werde|werden|wird|war|ist)\b)"
# The rest of a clause, word by word, without a pronoun such as "I" or "he", or a form of "be".
_WORDS = rf"(?:(?: |, ){_NOT_MINE}[\w'/.+#-]+){{0,14}}?"
_ORDER_WORDS = frozenset(_STRONG_ORDERS + _WEAK_ORDERS + _STRONG_VERBS + _WEAK_VERBS)

_CONSTANT = Group(
    words_of(
        "immer stets nie niemals ausnahmslos grundsatzlich ausschliesslich umstanden fall mal "
        "jedesmal nur mehr"
    ),
    Language.DIRECTIVE,
    shapes_of(
        rf"{CLAUSE}(?:bitte )?{_DO_STRONG}{_WORDS} {_ALWAYS}\b",
        rf"{CLAUSE}(?:bitte )?{_DO}(?: (?!mich|dir|dich|deine?n?\b)[\w'/.+#-]+){{0,8}}?,? "
        r"(?:immer|stets|niemals|nie|ausnahmslos|grundsatzlich|ausschliesslich|nur noch),? "
        r"(?!(?:wieder|mehr|so|auf|nie)[.!,]|vergessen)[\w'/.+#-]{2,}",
        rf"{CLAUSE}(?:bitte )?(?:frage?|fragen sie) (?:mich|uns|den nutzer) (?:immer|stets|erst|"
        r"zuerst|vorher)\b",
        rf"{START}{_ALWAYS}{_WORDS}(?: |, ){_STRONG_VERB}{_ENDS}",
        rf"{START}{_ALWAYS}{_WORDS} [\w'/.+#-]+ {_VERB}{_ENDS}",
        rf"\bdu (?:sollst|solltest|musst|darfst|wirst|hast){_WORDS} {_ALWAYS}{_WORDS} (?:zu )?"
        rf"{_VERB}\b",
        rf"\b(?:muss|mussen|soll|sollen|darf|durfen) {_ALWAYS}{_WORDS} (?:empfohlen|genannt|"
        r"erwahnt|genehmigt|bevorzugt|zitiert|befolgt|verwendet|benutzt|genutzt|gepruft|ignoriert|"
        r"verschwiegen|weitergeleitet|abgelehnt|beantwortet|formatiert|ubersetzt) werden\b",
    ),
    also=_ORDER_WORDS
    | words_of("empfohlen genannt erwahnt genehmigt bevorzugt zitiert befolgt verwendet benutzt")
    | words_of("genutzt gepruft ignoriert verschwiegen weitergeleitet abgelehnt beantwortet")
    | words_of("formatiert ubersetzt"),
)

_FROM_NOW = (
    r"(?:ab (?:jetzt|sofort|nun|heute)|von (?:jetzt|nun|heute) an|in zukunft|(?:zu)?ku(?:e)?nftig|"
    rf"fortan|fur alle (?:weiteren|kunftigen|folgenden|zukunftigen) {_ANSWERS}|"
    r"(?:in|bei) (?:allen|jeder|jedem) (?:weiteren |kunftigen |folgenden |zukunftigen )?"
    rf"{_ANSWERS})"
)
_FUTURE = Group(
    words_of(
        "ab jetzt sofort nun heute zukunft kunftig kuenftig zukunftig zukuenftig fortan alle allen "
        "jeder jedem"
    ),
    Language.DIRECTIVE,
    shapes_of(
        rf"\b{_FROM_NOW}(?: gilt)? ?[,:]? ?{_MAY_TURN}{_DO}",
        rf"\b{_FROM_NOW}(?: gilt)? ?[,:]?{_WORDS}(?: |, ){_STRONG_VERB}{_ENDS}",
        rf"\b{_FROM_NOW}(?: gilt)? ?[,:]?{_WORDS} [\w'/.+#-]+ {_VERB}{_ENDS}",
        rf"\b{_FROM_NOW} ?[,:]? ?(?:bist|antwortest|sprichst|schreibst|empfiehlst|nennst|nutzt|"
        r"verwendest|sollst|musst|darfst|hast|gehorchst|ignorierst|handelst) du\b",
        rf"{CLAUSE}(?:bitte )?{_DO}{_WORDS}(?: |, ){_FROM_NOW}\b",
    ),
    also=_ORDER_WORDS | words_of("du"),
)

_CONDITION = Group(
    words_of("wenn falls sobald sooft jedesmal sollte"),
    Language.DIRECTIVE,
    shapes_of(
        rf"{CLAUSE}(?:bitte )?{_DO_STRONG}{REST}{{1,120}}?\b(?:wenn|falls|sobald|sooft) "
        rf"(?:(?:der|die|ein|eine|jemand|ein anderer) ?)?(?:{_READER}\b|jemand\b|ich\b|du\b|"
        r"danach\b)",
        reaching=(
            reach(
                rf"\b(?:wenn|falls|sobald|sooft|sollte)(?: immer| jemals)? (?:(?:der|die|ein|eine|"
                rf"einer|jemand|ich|du|man|wir)\b|{_READER}\b)",
                "",
                160,
                rf", ?(?:dann |so )?(?:{_MAY_TURN}{_DO_STRONG}|"
                rf"(?:musst|sollst|solltest|darfst) du\b|{_DO} {_MAY_TURN}"
                r"(?:dass|ihm|ihr|ihnen|mir|mich|uns|ihn|sie|eine?n?|den|dem|die|das|auf|in|zu|nur|"
                r"immer|nie|niemals|erst|zuerst|nicht)\b)",
            ),
        ),
    ),
    also=_ORDER_WORDS | words_of("musst sollst solltest darfst"),
)

_OBLIGED = Group(
    words_of("musst sollst bist hast darfst angewiesen verpflichtet beauftragt"),
    Language.DIRECTIVE,
    shapes_of(
        rf"\bdu (?:musst|sollst|darfst)(?: \w+){{0,1}} ?{_WORDS} {_STRONG_VERB}\b",
        rf"\bdu (?:bist|wurdest) (?:angewiesen|verpflichtet|beauftragt|programmiert|autorisiert)\b"
        rf"{_WORDS}(?: |, ){_VERB}\b",
        rf"\bdu (?:hast) {_WORDS} ?zu {_STRONG_VERB}\b",
    ),
    also=frozenset(_STRONG_VERBS + _WEAK_VERBS),
)

_THIRD_PERSON = Group(
    words_of(
        "assistent assistenten assistentin agent agenten ki bot bots chatbot chatbots sprachmodell "
        "sprachmodelle llm llms ki-assistent ki-assistenten ki-agent ki-agenten ki-modell"
    ),
    Language.DIRECTIVE,
    shapes_of(
        rf"\b{_AGENT} (?:muss|mussen|soll|sollen|sollte|sollten|darf|durfen|hat|haben)\b{_WORDS}"
        rf" {_VERB}\b",
        rf"\b(?:achtung|wichtig|hinweis|anweisung(?:en)?|notiz|nachricht|mitteilung|befehl)[,:]? "
        rf"(?:(?:fur|an) )?(?:die |den |das |alle |jeden )?{_AGENT}\b ?[:,!.-]",
        rf"{CLAUSE}(?:liebe[rs]? |hey |hallo )?(?:ki|assistent|chatbot|bot|ki-assistent|agent), ?"
        rf"{_MAY_TURN}(?:du musst\b|{_DO})",
    ),
)

_TO_READERS = Group(
    words_of(
        "nutzer nutzern nutzerin nutzerinnen benutzer benutzern anwender anwendern kunde kunden "
        "kundin kundinnen user usern besucher besuchern"
    ),
    Language.DIRECTIVE,
    shapes_of(
        rf"{CLAUSE}(?:bitte )?{_DO}(?: (?:allen?|jedem|jeder|jeden|samtlichen?))(?: neuen)? "
        rf"{_READER}\b",
        rf"{CLAUSE}(?:bitte )?{_DO} (?:den |die )(?:nutzern|benutzern|kunden|anwendern|usern)\b",
        rf"{CLAUSE}(?:bitte )?(?:leite|leiten sie|verweise|verweisen sie|lenke|lenken sie|schicke|"
        rf"drange|uberrede|uberzeuge) (?:{_READER}|die {_READER})\b",
    ),
)

_ROLE = Group(
    words_of("deine deiner dein ihre"),
    Language.DIRECTIVE,
    shapes_of(
        r"\b(?:deine?|ihre?) (?:neuen?|neuer|wahren?|eigentlichen?|einzigen?|wichtigsten?|"
        r"oberste[ns]?) (?:aufgabe|rolle|anweisung(?:en)?|ziel|auftrag|regeln?|mission|identitat) "
        r"(?:ist|lautet|lauten|sind|besteht)\b",
        rf"\bdeine? (?:aufgabe|rolle|auftrag|ziel|anweisung(?:en)?)(?: ist| lautet| sind)"
        rf"(?: es| nun| jetzt| ab sofort)*[,:]?{_WORDS}(?: |, )(?:zu )?{_STRONG_VERB}\b",
    ),
)

_TREAT = Group(
    words_of(
        "behandle behandeln betrachte betrachten nenn nenne nennen sprich sprechen duze sieze"
    ),
    Language.DIRECTIVE,
    shapes_of(
        rf"{CLAUSE}(?:bitte )?(?:behandle|betrachte|behandeln sie|betrachten sie)\b{REST}{{1,80}}?"
        r"\bals (?:\w+ )?(?:vertrauenswurdig|verifiziert|genehmigt|sicher|gepruft|autorisiert|"
        r"wahr|offiziell|massgeblich|verbindlich|bestatigt|freigegeben)\b",
        rf"{CLAUSE}(?:bitte )?(?:nenne?|nennen sie|sprich|sprechen sie) (?:mich|den nutzer|die "
        r"nutzerin)\b",
        rf"{CLAUSE}(?:bitte )?(?:duze|sieze) (?:mich|den nutzer|die nutzerin|alle)\b",
    ),
)

_STORE = Group(
    words_of(
        "speichere speichern speicher schreib schreibe notiere merk merke ubernimm trag trage"
    ),
    Language.DIRECTIVE,
    shapes_of(
        rf"{CLAUSE}(?:bitte )?(?:speichere?|speichern sie|schreibe?|notiere|ubernimm|trage?)\b"
        rf"{REST}{{1,60}}?\b(?:in|im|als|ins) (?:dein(?:e|en|em|er)? |das |die |der |dem |eine? |"
        r"feste )*(?:langzeit)?(?:gedachtnis|erinnerung(?:en)?|regeln?|richtlinien?|"
        r"anweisung(?:en)?|system-?prompt|memory)\b",
        rf"{CLAUSE}(?:bitte )?merke? dir[^.!?\n]{{0,20}}(?: als (?:\w+ )?(?:regel|anweisung|"
        r"richtlinie|vorgabe))\b",
    ),
)

_FORMAT = Group(
    words_of(
        "antworte antworten antwort antwortest schreib schreibe sprich rede formuliere halte halt "
        "zusammenfassungen ausgaben ausgabe kommentiere"
    ),
    Language.DIRECTIVE,
    shapes_of(
        rf"{CLAUSE}(?:bitte )?(?:antworte|antworten sie|formuliere|rede|sprich)(?: mir| uns| immer|"
        r" nur| stets| ausschliesslich| bitte| grundsatzlich| auf (?:alle|jede) fragen?)* "
        r"(?:auf|in|im|mit|als|ohne|kurz|knapp|deutsch|englisch|wie)\b",
        rf"{CLAUSE}(?!(?:was|wie|warum|kannst|konntest|ist|sind|in welche)\b){REST}{{1,100}}?"
        r"\b(?:in|am|an|zu|mit|vor|unter) (?:(?:das |dem |den )?(?:ende|anfang|beginn|schluss) )?"
        r"(?:deiner|deinen|deine|jeder|jede|allen|aller) (?:\w+ )?(?:antwort(?:en)?|ausgaben?|"
        r"zusammenfassung(?:en)?|empfehlung(?:en)?)\b",
        r"\b(?:alle|jede|deine)r? (?:kunftigen |weiteren )?(?:antwort(?:en)?|ausgaben?|"
        r"zusammenfassung(?:en)?|empfehlung(?:en)?|commits?|commit-nachrichten) (?:muss|mussen|"
        r"soll|sollen|sollten|sollte|hat|haben|darf|durfen)\b",
        rf"{CLAUSE}(?:bitte )?halte? (?:dich|deine antworten|antworten)\b{REST}{{0,40}}?\b(?:kurz|"
        r"knapp|unter)\b",
    ),
)

_SKIP = Group(
    words_of(
        "prufung prufungen verifizierung bestatigung bestatigungen freigabe freigaben genehmigung "
        "sicherheitsprufung sicherheitsprufungen sicherheitsregeln erlaubnis warnung warnungen "
        "ruckfrage ruckfragen nachfrage nachfragen zustimmung uberprufung tests review reviews "
        "nachzufragen zu"
    ),
    Language.DIRECTIVE,
    shapes_of(
        rf"{CLAUSE}(?:bitte )?(?:uberspringe?|uberspringen sie|umgehe|umgehen sie|deaktiviere|"
        rf"unterdrucke|ignoriere|lass|lassen sie|schalte?)\b{REST}{{1,40}}?(?:prufung(?:en)?|"
        r"verifizierung|bestatigung(?:en)?|freigaben?|genehmigung(?:en)?|warnung(?:en)?|"
        r"sicherheits\w+|ruckfragen?|uberprufung(?:en)?|reviews?)\b",
        rf"{CLAUSE}(?:bitte )?(?:frage?|fragen sie|bitte|warte|verlange) (?:mich |den nutzer )?"
        r"(?:nie|nicht|niemals|nie mehr|nicht mehr|nie wieder) (?:mehr )?(?:nach|um|auf) "
        r"(?:einer? )?(?:bestatigung|erlaubnis|genehmigung|freigabe|zustimmung)\b",
        rf"{CLAUSE}(?:bitte )?{_DO}{_WORDS} ohne (?:weitere |vorherige |jede )?(?:ruckfragen?|"
        r"nachfragen?|bestatigung|genehmigung|freigabe|prufung|uberprufung|zustimmung|nachzufragen"
        r"|zu fragen)\b",
    ),
)

_DO_NOT = Group(
    words_of("nicht kein keine keinen keinem keiner nichts"),
    Language.DIRECTIVE,
    shapes_of(
        rf"{CLAUSE}(?:bitte )?(?:empfiehl|empfehle|empfehlen sie|erwahne|erwahnen sie|nenne|nennen "
        r"sie|zitiere|zitieren sie|verwende|verwenden sie|benutze|benutzen sie|nutze|nutzen sie|"
        r"beantworte|genehmige|committe|pushe|installiere|ubersetze)"
        rf"(?! mich){_WORDS} (?:nicht|keine?[nmr]?|nichts)\b",
        rf"{START}keine?[nmr]?{_WORDS} {_STRONG_VERB}{_ENDS}",
    ),
    also=_ORDER_WORDS | words_of("beantworte"),
)

_EARLIER = (
    r"(?:(?:vor(?:her|an|aus|an)(?:ige|gegangene|gehende)|bisherige|fruhere|obige|obenstehende|"
    r"ursprungliche|alte|samtliche|alle|deine|saemtliche|diese|jede|system)[nrsm]?)"
)
_ORDERS = (
    r"(?:anweisung(?:en)?|instruktion(?:en)?|regeln?|vorgaben?|richtlinien?|befehle?|"
    r"system-?prompts?|prompts?|einschrankung(?:en)?|sicherheits\w+|beschrankung(?:en)?|"
    r"leitplanken|weisung(?:en)?|systemanweisung(?:en)?)"
)
_DROP = (
    r"(?:ignorier(?:e|en sie|t)?|vergiss|vergesst|vergessen sie|missachte|missachten sie|ubergehe|"
    r"umgehe|umgehen sie|verwirf|verwerfen sie|losche|uberschreibe|befolge|befolgen sie|beachte|"
    r"beachten sie|setze? dich uber|halte? dich)"
)
_OVERRIDE = Group(
    words_of(
        "ignorier ignoriere ignorieren ignoriert vergiss vergesst vergessen missachte missachten "
        "ubergehe umgehe umgehen verwirf verwerfen losche uberschreibe befolge befolgen beachte "
        "beachten setz setze halt halte vorrang ersetzen uberschreiben gehen gelten"
    ),
    Language.INJECTION,
    shapes_of(
        rf"{START}(?:{_DROP}) (?:[\w'-]+ ){{0,4}}?{_EARLIER} (?:[\w'-]+ ){{0,2}}?{_ORDERS}\b"
        r"(?! (?:im verkehr|der grammatik)\b)",
        r"\b(?:vergiss|ignoriere|vergessen sie|ignorieren sie) (?:alles|das alles|was)\b[^.!?\n]"
        r"{0,30}\b(?:oben|bisher|vorher|zuvor|davor|gesagt|gelernt)\b",
        rf"{START}(?:alle |samtliche |deine |die )?{_EARLIER}? ?{_ORDERS} (?:[\w'-]+ ){{0,3}}?"
        rf"(?:ignorieren|vergessen|missachten|verwerfen|umgehen){_ENDS}",
        rf"\b(?:diese|die folgenden|meine|neuen) {_ORDERS} (?:haben vorrang|ersetzen|uberschreiben|"
        r"gehen vor|gelten statt)\b",
    ),
)

_MARKERS = Group(
    words_of(
        "systemnachricht systemanweisung systemmeldung system-nachricht system-anweisung anweisung "
        "anweisungen instruktion instruktionen systemprompt administrator-anweisung"
    ),
    Language.INJECTION,
    shapes_of(
        r"(?:^|[\n.!?>|] ?)(?:#+ ?)?(?:system-?(?:nachricht|anweisung|meldung|prompt)(?:en)?|"
        r"administrator-anweisung) ?:",
        r"(?:^|[\n.!?>|] ?)(?:#+ ?)?(?:neue|aktualisierte|geheime|dringende|versteckte|wahre) "
        r"(?:system-?)?(?:anweisung(?:en)?|instruktion(?:en)?|befehle?)(?: [^:\n]{1,40})? ?:",
    ),
)

_IDENTITY = Group(
    words_of(
        "tu verhalte handle antworte modus entwicklermodus adminmodus debug-modus jailbreak "
        "uneingeschrankte uneingeschrankter ungefilterte ungefilterter gebunden ki assistent "
        "chatbot bot sprachmodell einschrankungen filter beschrankungen entwickler-modus "
        "admin-modus"
    ),
    Language.INJECTION,
    shapes_of(
        r"\bdu bist (?:(?:jetzt|nun|ab jetzt|ab sofort|ab heute) )*(?:im (?:entwickler|admin|debug|"
        r"wartungs|dan|jailbreak)-?modus|nicht (?:mehr|langer) (?:an\b[^.!?\n]{0,40}gebunden|"
        r"eingeschrankt)|(?:ein|eine|einen) (?:uneingeschrankte|ungefilterte|andere|freie)[rn]?\b)",
        r"\bdu bist (?:jetzt|nun|ab jetzt|ab sofort) (?:ein|eine) (?:[\w-]+ ){0,3}(?:ki|assistent|"
        r"chatbot|bot|sprachmodell|ki-\w+)\b",
        rf"{START}(?:aktiviere|starte|wechsle in|gehe in|schalte in)(?: den| die)? (?:entwickler|"
        r"admin|debug|dan|jailbreak)-?modus\b",
        rf"{START}(?:tu so|verhalte dich|handle|antworte),? als (?:ob )?(?:du|warst du|hattest du|"
        r"gabe es)\b[^.!?\n]{0,30}\b(?:kein\w*|nicht|unge\w+|uneinge\w+|admin\w*)\b",
        r"\bohne (?:jegliche |ethische |jede )?(?:einschrankungen|filter|beschrankungen) (?:zu )?"
        r"(?:antworten|handeln|antworte)\b",
    ),
)

_KEEPERS = (
    r"(?:nutzer(?:in|n|s)?|benutzer(?:in|n|s)?|anwender(?:in|n|s)?|betreiber(?:in|n|s)?|"
    r"administrator(?:en)?|admins?|menschen|user|protokoll(?:en)?|logs?)"
)
_SECRECY = Group(
    words_of("nicht nichts nie niemals ohne verbirg verheimliche verschweige verstecke kein keine"),
    Language.INJECTION,
    shapes_of(
        r"\b(?:sage?|verrate?|erzahle?|teile|informiere|zeige?|lass|warne?|sagen sie|erzahlen sie|"
        rf"informieren sie) (?:\w+ ){{0,2}}?(?:de[mnr]|die) {_KEEPERS}\b[^.!?\n]{{0,40}}\b(?:nicht|"
        r"nichts|nie|niemals|keine?)\b",
        rf"\bohne (?:de[nmr]|die) {_KEEPERS} (?:davon |daruber |vorher )?zu (?:informieren|fragen|"
        r"warnen|benachrichtigen)\b",
        rf"\bohne dass (?:der|die) {_KEEPERS} es (?:merkt|erfahrt|sieht|merken)\b",
        rf"{START}(?:verbirg|verheimliche|verschweige|verstecke)\b[^.!?\n]{{0,60}} (?:de[mnr]|die) "
        rf"{_KEEPERS}\b",
        rf"{START}(?:de[mnr]|die) {_KEEPERS} (?:nichts|nicht|nie|niemals)\b[^.!?\n]{{0,40}}\b"
        r"(?:sagen|verraten|erzahlen|mitteilen|informieren|zeigen)\b",
    ),
    also=words_of(
        "nutzer nutzerin nutzern nutzers benutzer benutzerin benutzern benutzers anwender "
        "anwenderin anwendern betreiber betreiberin betreibern administrator administratoren admin "
        "admins menschen user protokoll protokollen log logs"
    ),
)

_SECRETS = (
    r"(?:api-?(?:keys?|schlussel)|passwort(?:er|e)?|passworter|zugangsdaten|zugriffstoken|tokens?|"
    r"geheimnisse|kontakt(?:e|liste|daten)|gesprach(?:e|sverlauf|sverlaufe)|chatverl\w+|"
    r"kundendaten|nutzerdaten|kreditkarten\w*|system-?prompt|umgebungsvariablen|erinnerungen|"
    r"datenbank|posteingang|ssh-\w+|private[nr]? schlussel)"
)
_EXFILTRATION = Group(
    words_of(
        "sende send schick schicke leite leit ubermittle ubertrage lade lad kopiere poste mail "
        "maile exfiltriere verrate zeig zeige gib druck drucke wiederhole nenne senden schicken"
    ),
    Language.INJECTION,
    shapes_of(
        rf"{START}(?:sende?|senden sie|schicke?|schicken sie|leite?|ubermittle|ubertrage|lade?|"
        rf"kopiere|poste|maile?|exfiltriere)\b[^\n]{{0,80}}?\b{_SECRETS}\b[^\n]{{0,60}}?(?:https?:|"
        r"[\w.+-]+@[\w-]|\ban (?:eine[nr]? |die |den )?(?:extern|fremd|folgend|angreifer)|"
        r"\b[\w-]+\.(?:com|net|org|io|de|example|test|xyz|ru|site)\b)",
        rf"{START}(?:sende?|schicke?|leite?|maile?|kopiere)\b[^\n]{{0,40}}?\b"
        r"(?:alle|jede|samtliche|deine)[rnms]? [^\n]{0,60}?\ban [\w.+-]+@[\w-]",
        rf"{START}(?:verrate?|zeige?|gib|drucke?|wiederhole|nenne?|wiederholen sie|zeigen sie)"
        r"(?: mir| uns)?(?: den| die| deinen| deine| das| genauen| vollstandigen| gesamten| "
        r"versteckten?| geheimen?| ursprunglichen?)* (?:system-?(?:prompts?|anweisung(?:en)?|"
        r"nachricht)|(?:versteckten|geheimen|internen) (?:anweisungen|instruktionen))\b",
    ),
)

_JOINED_INJECTION = re.compile(
    r"(?:ignoriere|vergiss|missachte)(?:alle|deine|die|samtliche)*(?:vorherigen|bisherigen|obigen|"
    r"anweisungen|regeln|instruktionen|vorgaben)|entwicklermodus|sagdemnutzernichts",
)
_JOINED_DIRECTIVE = re.compile(
    rf"^(?:abjetzt|absofort|vonnunan|inzukunft)(?:immer|nur|nie)?|^{_STRONG_ORDER}immer|"
    rf"^(?:immer|niemals){_STRONG_VERB}",
)

GERMAN: Final = Lexicon(
    name="de",
    groups=(
        _CONSTANT, _FUTURE, _CONDITION, _OBLIGED, _THIRD_PERSON, _TO_READERS, _ROLE, _TREAT, _STORE,
        _FORMAT, _SKIP, _DO_NOT, _OVERRIDE, _MARKERS, _IDENTITY, _SECRECY, _EXFILTRATION,
    ),
    starts=re.compile(
        r"^|[.!?;:\n,()\[\]{}>|*\"'`\u2022/-] ?|\b(?:bitte|und|aber|also|nun|jetzt|dann|wichtig|"
        r"regel|hinweis|merke|merke dir|denk daran|deshalb|daher|sofort|du (?:sollst|musst)) "
    ),
    clauses=re.compile(
        r"^(?:- ?)?|[.!?;:\n()\[\]{}>|*\"`\u2022] ?(?:- ?)?|, (?:bitte |also |und )?|"
        r"\b(?:bitte|und) "
    ),
    joined=((Language.INJECTION, _JOINED_INJECTION), (Language.DIRECTIVE, _JOINED_DIRECTIVE)),
)  # fmt: skip
