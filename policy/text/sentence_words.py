"""Abbreviations after which a sentence does not end: data, all in lower case.

Where an abbreviation is missing here, one sentence is cut in two, and each half is searched for;
that does no harm.
"""

from __future__ import annotations

from typing import Final

_WORDS: Final = """
    mr mrs ms mx dr prof st sr jr rev hon gen col capt lt sgt maj sen rep gov pres supt messrs
    mme mlle vs etc eg ie cf al ca approx est fig figs no nos nr vol vols ed eds pp ch sec art
    para inc ltd co corp llc plc gmbh bros dept univ assn intl natl min max avg tel ext ave blvd
    rd jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat
    sun bzw usw evtl ggf vgl bspw inkl exkl z.b d.h u.a str hr fr ing dipl sra srta ud uds av
    num pag tlf adj apdo dra mm env p.ex boul bd hab sig sigg dott ecc avv t.e e.g i.e a.m p.m
    u.s u.k u.n e.u d.c ph.d b.a m.a b.sc m.sc a.k.a r.i.p p.s n.b ул гл им др пр см рис стр тыс
    млн млрд
"""
ABBREVIATIONS: Final = frozenset(_WORDS.split())
"""Before a full stop, these end no sentence. (In front of the stop, without it.)"""
