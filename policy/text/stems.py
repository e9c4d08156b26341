"""Word stems, and how common they are: a retelling keeps the rare stems of a text.

Made for English, by hand: endings, irregular forms, and words in four ranks. In other languages
endings are cut alike on both sides, and every word counts as rare until an index has seen it often.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_EVERYWHERE: Final = """
    a about after all also am an and any are as at back be because been being but by can can't
    come could did didn't do does doesn't doing don't even for from get give go gonna got had has
    have having he he's her here hey hi him his how i i'd i'll i'm i've if in into is isn't it
    it's its just know let let's like look make many me more most much my no not now of oh ok okay
    on one only or other our out over own really same say see she she's so some still such take
    than thank thanks that that's the their them then there there's these they they're this time
    to too up us use very want was wasn't way we we're were what what's when where which who why
    will with would wow yeah yes you you're you've your
    der die das und ist ein eine einen dem den des von mit zu auf nicht sich auch wie bei oder nach
    aus wenn aber noch nur war sind wird haben hat ich wir ihr sie mein dein sein
    le la les un une et est en du dans pour que qui sur pas avec ce cette il elle nous vous je tu
    el los las una y o de se por para con no lo su al es del como pero mi tu yo
    il gli uno di che non per una sono della nel con mi ti ho ha
    het een van op te dat niet zijn voor met aan ook er maar
    um uma os as nao com por mais eu ele ela do da em
    don doesn didn isn wasn aren weren couldn wouldn shouldn hasn haven hadn ve ll re
"""
_VERY_COMMON: Final = """
    able actually again against ago already always amazing another anyone anything appear around
    ask away awesome baby bad beautiful before begin believe best better between big bit book both
    boy bring brother build buy call came car care case change child city company consider
    continue cool country create cut dad daughter day definitely die different door during each
    early easy eight end enjoy enjoyed enjoying especially ever every everyone everything excited
    exciting eye face fact fall family father favorite favourite feel feeling felt few find first
    five follow food found four free friend friends full fun game gave getting girl glad going
    good great group grow guy guys half hand happen happy hard head hear heard help high home hope
    hoping house husband idea important include interesting job keep kept kid kids kill kind knew
    large last late later lead learn leave left life little live long looking lose lot lots love
    made making man may maybe meet might mom moment money month morning mother move movie music
    must need never new next nice night nine nothing number offer often old once open parents part
    pay people perfect person photo photos picture pictures place plan planning plans play point
    pretty probably problem proud public put quite raise reach read ready real recently remember
    right room run said saw school second seem send serve set seven shall share sharing should
    show side since sister sit six small somebody someone something sometimes son soon sorry sound
    sounds speak special spend stand start state stay stop story super support sure taking talk
    talking teach tell ten thing think thinking though thought three through today together told
    tomorrow took trip true try trying turn turned twice two under understand until usually wait
    walk watch water ways week weekend welcome went while whole wife win wish within without woman
    wonderful work working world write year yesterday yet young
"""
_COMMON: Final = """
    accept accepting achieve across act activity add adventure advice afraid afternoon age agree
    air almost alone along although among amount animal answer apart appreciate appreciates
    appreciation area arm art article assistant attend attention available aware balance base
    beach become bed behind believes besides beyond birthday blue body born boss bottle box break
    breakfast bright business busy calm camp camping capture card career cat catch cause celebrate
    center certain challenge challenges challenging chance character chat check choice choose
    class clean clear close clothes club coach coffee cold college color comfort community compete
    complete computer concern connect connection considers cook cooking cost couple course cover
    crazy culture current currently dance dark data date deal death decide decided decision deep
    degree describe described design despite develop dinner discover discuss discussed dog doubt
    dream dreams dress drink drive dropped education effort either else emotional encourage energy
    enjoys enough enter environment evening event events exercise expect experience experiences
    explain explore express expressed expressing eyes fail fair fan fantastic far fashion fast
    feelings feels field fight figure fill final finally finds fine finish finished fire fit floor
    focus foot force forget forward friday friendly front future garden general gift given glass
    goal goals god gone grandma grateful green ground growth guess guide guitar hair happening
    happens happiness health healthy heart heat height hello herself hiking himself history hit
    hobby hold holiday honest hospital hot hour hours huge human ice image imagine impact
    importance improve incredible information inspire inspired inspiring instead interest
    interested involved issue item itself join journey joy jump key kitchen knowledge lake land
    language laugh law leader less lesson letter level library lie light likes line list listen
    listening local located location loss loud lovely loves low lucky lunch main major manage mark
    market marriage matter mean meaning meaningful means member members memories memory mention
    mentioned message middle mind minute minutes miss missed mistake modern monday months
    motivated mountain mountains movies museum myself name nature near nearby necessary nervous
    news note notice office online opportunity option order organize organized original others
    ourselves outdoor outside paint painting park participate party pass passion passionate past
    path patience peace peaceful perform performance phone pick piece places plant plants player
    playing police popular positive possible power practice prefer prepare present previous price
    prize process program project projects promise protect provide pull purpose push question
    quick quickly quiet rain range rare rate reaction realize reason receive recent record red
    refreshing regular relate relationship relax relaxing release remind reminder reminds report
    require research respect rest restaurant result return road rock role round rule sad safe
    saturday save scene season seat section seek self sell sense series serious service shape
    shoot shop short shot shoulder shows sign significant similar simple simply sing single site
    situation size skill skills sleep slow smile snow social solution solve song songs sort soul
    space spark specific spot spring staff stage star started station step steps stick store
    street strength stress strong struggle struggles student students studio study stuff style
    success successful suggest suggestion summer sun sunday sunset supportive surprise sweet swim
    table talent tasty teacher team technology test themselves therapy thinks third thoughts throw
    thursday ticket till tip tips title tool top total touch tough tour town tradition train
    training travel traveling treat tree tried trouble truck trust tuesday type unique upcoming
    upset useful user usual vacation valuable value values variety various view visit voice
    volunteer wall wants war warm wear weather website wedding wednesday weight whatever whenever
    wherever white window winter won wonder word words workout worry worth writing wrong yard yoga
    yourself
"""
_IRREGULAR: Final = """
    went=go gone=go gonna=go made=make bought=buy took=take taken=take found=find felt=feel
    thought=think told=tell gave=give given=give began=begin begun=begin kid=child children=child
    mom=mother mum=mother dad=father edu=education taught=teach won=win met=meet got=get gotten=get
    wrote=write written=write saw=see seen=see said=say ran=run left=leave lost=lose kept=keep
    spent=spend built=build drew=draw drawn=draw ate=eat eaten=eat grew=grow grown=grow knew=know
    known=know brought=bring photo=picture pic=picture sang=sing sung=sing swam=swim chose=choose
    chosen=choose drove=drive driven=drive flew=fly flown=fly forgot=forget forgotten=forget
    heard=hear held=hold hid=hide led=lead lent=lend meant=mean paid=pay rode=ride ridden=ride
    rose=rise sold=sell sent=send shot=shoot slept=sleep spoke=speak spoken=speak stood=stand
    stole=steal stuck=stick swore=swear threw=throw thrown=throw understood=understand woke=wake
    wore=wear worn=wear men=man women=woman people=person feet=foot teeth=tooth mice=mouse
    better=good best=good worse=bad worst=bad bro=brother sis=sister grandma=grandmother
    grandpa=grandfather tv=television uni=university prof=professor vet=veterinarian
    bday=birthday fav=favorite favourite=favorite colour=color
"""
_ENDINGS: Final = (
    *(("ational", "ate"), ("fulness", "ful"), ("iveness", "ive"), ("ization", "ize")),
    *(("ousness", "ous"), ("ements", "e"), ("ement", ""), ("ments", ""), ("ment", "")),
    *(("ingly", ""), ("edly", ""), ("ities", "ity"), ("iness", "y"), ("ness", "")),
    *(("ations", "ate"), ("ation", "ate"), ("ions", "ion"), ("ing", ""), ("ies", "y")),
    *(("ied", "y"), ("ed", ""), ("ers", "er"), ("es", ""), ("ly", ""), ("s", ""), ("e", "")),
)
_STEM_LEN_MIN: Final = 3
_KEPT_MAX: Final = 16_384
_WORD_LEN_MAX: Final = 32

_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
NOBODYS_WORDS_MAX: Final = 3
# Words this short occur in every text, and so do single marks between words.
_NOBODYS_LEN_MAX: Final = 96
_NOBODYS_GAPS_MAX: Final = 8
_COMMON_RANK_MAX: Final = 1
RARE: Final = 3
"""The rank of a word that is in no list; 0 is in every text and says nothing."""


def stem_of(word: str) -> str:
    """A word of a skeleton without its ending; most forms of one word share one stem."""
    word = _FORMS.get(word, word)
    if len(word) <= _STEM_LEN_MIN or not word.isascii():
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_LEN_MIN:
            word = word[: -len(ending)] + instead
            break
    if len(word) > _STEM_LEN_MIN and word[-1] == word[-2] and word[-1] not in "sl":
        word = word[:-1]
    if len(word) > _STEM_LEN_MIN + 1 and word.endswith("e"):
        word = word[:-1]
    if word.endswith("i"):
        word = word[:-1] + "y"
    return _FORMS.get(word, word)


def is_nobodys(sentence: str) -> bool:
    """Whether a sentence is too short and too common to belong to anybody, as "Thanks!" is.

    Who said such a sentence first proves nothing about its origin, so it lowers nobody else's
    label.
    """
    if len(sentence) > _NOBODYS_LEN_MAX or sentence.count(" ") > _NOBODYS_GAPS_MAX:
        return False
    words = _WORD.findall(sentence.lower().replace("\u2019", "'"))
    return len(words) <= NOBODYS_WORDS_MAX and are_common(words)


def are_common(words: Iterable[str]) -> bool:
    """Whether each given word belongs to the two commonest ranks."""
    return all(_is_common(word) for word in words)


@lru_cache(maxsize=_KEPT_MAX)
def _is_common(word: str) -> bool:
    return _RANKS.get(stem_of(word), RARE) <= _COMMON_RANK_MAX


def ranked(word: str) -> tuple[str, int]:
    """The stem of a word, and its rank: 0 for words of every text, up to `RARE`."""
    return _ranked(word) if len(word) <= _WORD_LEN_MAX else (word, RARE)


@lru_cache(maxsize=_KEPT_MAX)
def _ranked(word: str) -> tuple[str, int]:
    stem = stem_of(word)
    rank = _RANKS.get(stem)
    if rank is None:
        # Words that are not in the lists are ranked by length: in every language short words are
        # the common ones.
        rank = min(RARE, max(1, len(word) - 2))
    return stem, rank


_FORMS: Final = {
    form: word for form, _, word in (pair.partition("=") for pair in _IRREGULAR.split())
}
_RANKS: Final = {
    stem_of(word): rank
    for rank, words in reversed(tuple(enumerate((_EVERYWHERE, _VERY_COMMON, _COMMON))))
    for word in words.split()
}
