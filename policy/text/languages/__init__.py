"""The languages in which orders and attacks are found: one file of data for each."""

from __future__ import annotations

from typing import Final

from policy.text.languages.english import ENGLISH
from policy.text.languages.german import GERMAN
from policy.text.languages.romance import ROMANCE

LANGUAGES: Final = (ENGLISH, GERMAN, ROMANCE)
