"""Words by which a place says that what lies there steers an agent: data, as skeletons.

A map names a list instead of repeating its words. A host loads files and blocks by their name, so a
name tells what they do; what an entity is called tells nothing, its type does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STEERING: Final = _words(
    """
    preference preferences pref prefs userprefs policy policies rule rules identity persona personas
    profile profiles userprofile procedure procedures instruction instructions guideline guidelines
    setting settings standards convention conventions habit habits likes dislikes
    vorliebe vorlieben regel regeln richtlinie richtlinien anweisung anweisungen profil
    einstellung einstellungen gewohnheit gewohnheiten konvention konventionen vorgabe vorgaben
    identitat
    preferencia preferencias regla reglas perfil preferences regles profils
    """
)

LISTS: Final = {
    # Types, tags, collections, notes: what is said of a memory there.
    "$steering": _STEERING,
    # Files and blocks, which are read at the start of later sessions.
    "$places": _STEERING
    | _words("user human about agents claude gemini copilot cursorrules system soul"),
}


@lru_cache(maxsize=256)
def meant_by(words: tuple[str, ...]) -> frozenset[str]:
    """The words of a rule, with those of each list that it names."""
    return frozenset(words).union(*(LISTS.get(word, ()) for word in words))
