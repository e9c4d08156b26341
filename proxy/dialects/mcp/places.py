"""Lists of names of places whose content steers an agent: data, as skeletons.

A map refers to a list instead of repeating its words. A host loads files and blocks by their name,
so the name of a file tells what it does. The name of an entity tells nothing, but its type does.
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
    # Names of types, tags, collections and kinds of notes that steer an agent.
    "$steering": _STEERING,
    # The words of "$steering", and names of files and blocks that hosts read at the start of later
    # sessions.
    "$places": _STEERING
    | _words("user human about agents claude gemini copilot cursorrules system soul"),
}


@lru_cache(maxsize=256)
def meant_by(words: tuple[str, ...]) -> frozenset[str]:
    """The words of a rule, in which each list's name is replaced by that list's words."""
    return frozenset(words).union(*(LISTS.get(word, ()) for word in words))
