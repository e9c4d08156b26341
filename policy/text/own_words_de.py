"""German: how a person asks to remember, answers, points at earlier words, and forwards a text.

German has no rewriting to the third person: more than the verb's ending would change.
"""

from __future__ import annotations

from typing import Final

from policy.text.own_words_form import OwnWords, words

GERMAN: Final = OwnWords(
    courtesies=("bitte", "hallo", "hey", "hi", "ok", "okay", "auch", "und", "also", "immer"),
    keeping=(
        *("merk dir", "merke dir", "merken sie sich", "merk dir bitte", "merke dir bitte"),
        *("denk daran", "denke daran", "vergiss nicht", "vergessen sie nicht", "notiere", "notier"),
        *("notiere dir", "speichere", "speicher", "beachte", "beachten sie", "behalte im kopf"),
        *("schreib auf", "schreibe auf", "schreib dir auf"),
    ),
    labels=("notiz", "merkzettel", "zur erinnerung", "fürs protokoll", "zu merken"),
    that=("dass", "daß"),
    this=("dies", "das", "folgendes", "das folgende"),
    herself=(),
    answers=words(
        "ja jawohl klar ok okay nein nö genau richtig stimmt einverstanden gut bitte gern gerne "
        "sicher natürlich passt freigegeben genehmigt mach"
    ),
    pointing=words(
        "das dies diese dieser dieses diesen diesem es so solche gleiche dasselbe selbe sie ihn "
        "ihm er ihr ihnen davon damit dazu darauf oben unten dort hier erste zweite dritte letzte "
        "beide alle jene jener"
    ),
    forwarded=("weitergeleitete nachricht", "ursprüngliche nachricht", "schrieb:"),
)
