"""Words that only file or name a memory, without saying anything: data, all in lower case."""

from __future__ import annotations

import re
from typing import Final

from policy.text.own_words_form import words

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

GENERIC: Final = words(
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
    line model provider client platform device speaker actor confidence rule rules convention
    conventions guideline guidelines standard standards practice practices decision decisions task
    tasks todo todos misc other readme agents
    """
)
"""Words that file a memory and say nothing of it, so that nobody need have said them."""

PRONOUNS: Final = words("me my i self")
"""Those filing words that mean something beside other words: "I hate Bob" files nothing."""

COUNTING: Final = words(
    "id ids date time timestamp created updated at score importance priority version index line"
    " page confidence hash session run"
)
"""A field with one of these in its name may have a number that nobody said."""

SPEAKING: Final = words(
    """
    is are was were be am has have had do does did will would shall should must may can could to
    of for from with without by into onto the a an this that these those it its he him his she
    her they them their we us our you your and or but if when then than not no never none always
    every all any only also send forward share trust obey ignore follow use call pay give tell
    make delete remove approve allow deny dont isnt cannot wont without except neither nor lies
    """
)
"""Words that make a sentence of the words of an id."""
