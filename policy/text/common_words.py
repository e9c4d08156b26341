"""Words that are written with a capital and are no names: data, all in lower case.

Without this list the start of a sentence, an interjection or a weekday would count as a name.
"""

from __future__ import annotations

import re
from typing import Final

from policy.text.own_words_form import words

# Unicode letters that look like an apostrophe are replaced by an apostrophe.
CONTRACTED: Final = re.compile(
    "(?:['\u2019\u02b9-\u02bd\u02c8\ua78b\ua78c](?:s|m|ve|ll|d|re|t))+$", re.IGNORECASE
)
"""What may stand behind a word or a name: "we'll", "don't", "Ada's"."""
NEGATED: Final = words(
    """
    ain aren can couldn daren didn doesn don hadn hasn haven isn mayn mightn mustn needn oughtn shan
    shouldn wasn weren won wouldn
    """
)
"""What "n't" leaves of a verb where the "'t" is taken off."""

_GRAMMAR: Final = words(
    """
    the a an this that these those some any all both each every either neither no none one two
    three several many much more most few other another such same
    i me my mine you your yours he him his she her hers it its we us our ours they them their
    theirs who whom whose which what where when why how whoever whatever
    is are was were be been being am has have had having do does did doing done will would shall
    should can could may might must ought
    and or but nor so yet for if unless until while although though because since as than then
    also too either whether however therefore otherwise instead meanwhile moreover besides
    in on at by to from of off with without within into onto upon over under above below between
    among through during before after about against across along around behind beyond despite
    except inside like near outside past per regarding toward towards via up down out
    not never always often sometimes usually rarely already still just only even almost again
    here there now today tomorrow yesterday tonight soon later recently lately currently finally
    first second third next last once twice ever
    """
)
_INTERJECTIONS: Final = words(
    """
    wow hey hi hello thanks thank please sorry welcome yeah yes yep yup nah nope no oh ooh aww ah
    ahh haha hahaha lol omg cool great awesome amazing nice lovely wonderful fantastic perfect
    congrats congratulations sure glad sounds good bad love okay ok well really absolutely
    definitely totally exactly certainly right true woah whoa ugh phew bye goodbye cheers yay
    btw fyi asap anyway honestly actually basically maybe perhaps hopefully luckily unfortunately
    fingers
    """
)
_CALENDAR: Final = words(
    """
    monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri
    sat sun january february march april may june july august september october november december
    jan feb mar apr jun jul aug sep sept oct nov dec spring summer autumn fall winter christmas
    easter thanksgiving halloween
    """
)
_IMPERATIVES: Final = words(
    """
    add adjust aggregate analyse analyze apply ask assign avoid back begin bring build buy calculate
    call cancel check choose clean clear close collect combine compare compile complete compute
    configure confirm consider convert copy count create cut debug decide define delete deploy
    describe design detect determine disable divide document download draft drop edit enable encode
    ensure enter establish estimate evaluate examine execute expand explain export extract fetch
    fill filter find finish fit fix flag follow format gather generate get give go group handle
    help identify ignore implement import improve include inspect install integrate investigate
    invoke iterate join keep label leave let limit list load locate log look loop make map mark
    match measure merge migrate minimize modify monitor move name normalize note notify obtain open
    optimize order organize parse pass perform pick plan plot prefer prepare preserve prevent print
    prioritize process produce profile propose provide pull push put query quote raise read rebuild
    recommend record reduce refactor refer refine register release reload remember remind remove
    rename render repeat replace reply report request require rerun research reset resolve restart
    restore retain retrieve retry return reuse reverse review rewrite rotate run sample save scale
    scan schedule search secure see select send separate serve set share show simplify skip sort
    specify split standardize start stop store stream structure submit suggest summarize supply
    support switch synchronize tag take tell test think track train transform translate trim try
    tune turn update upgrade upload use validate verify visit visualize wait want warn watch work
    wrap write
    """
)
_EVERYDAY: Final = words(
    """
    became began bought broke brought built called came caught changed chose did done drank drew
    drove ate fell felt found gave given gone got gotten grew had happened heard held helped hid hit
    hurt kept knew known laid learned led left lent lost loved made meant met moved needed opened
    paid played put ran rang read rode rose said sang sat saw seen seemed sent set shown slept sold
    spent spoke stood stopped taken talked taught thought threw told took tried turned used waited
    walked wanted was went woke won wore worked written wrote
    becoming being buying calling changing coming doing driving eating feeling finding getting
    giving going having hearing helping holding keeping knowing learning leaving letting living
    looking losing making meaning meeting moving needing opening paying playing putting reading
    running saying seeing sending setting showing sitting sleeping speaking spending standing
    starting staying stopping taking talking telling thinking trying turning using waiting walking
    wanting watching winning wondering working writing
    big best better clear early easy enough few free full half happy hard high huge important
    interesting large last late least less little long low main many most much new old open own
    plus possible quick ready real same short simple small special strange strong sweet tough whole
    wrong young
    boy child children day days family father friend friends girl guy guys home house idea kid kids
    life lot lots man men moment money month months morning mother night part people place
    problem reason school side thing things week weeks woman women word words world year years
    """
)
_LABELS: Final = words(
    """
    user users agent assistant system human person people customer team teams note notes task step
    steps goal result results summary example examples question answer input output todo warning
    error info date time name title description mom dad mum grandma grandpa sir madam mrs
    api apis cli cpu css csv gpu html http https json pdf pii ram sdk sql ssh tls url urls utc utf
    xml yaml ceo cto faq usa
    """
)
COMMON: Final = frozenset[str]().union(
    _GRAMMAR, _INTERJECTIONS, _CALENDAR, _IMPERATIVES, _EVERYDAY, _LABELS
)
"""All words of this module that are written with a capital and are no names."""

GERMAN: Final = words(
    """
    der das dem ein eine einen einem einer eines und oder aber nicht kein keine ist sind
    waren wird werden wurde haben hatte ich sie es wir ihr mein meine dein deine sein
    seine unser unsere mit zu zum zur auf aus bei nach vor durch gegen ohne wenn weil dass
    auch nur noch schon sehr mehr immer dann wie wo wer im ins vom beim
    """
)
"""Words of which only a German sentence has two; none is an English word as well."""
