"""All pages of the console, in the order of the navigation."""

from __future__ import annotations

from typing import Final

from proxy.console import after, memories, now, review_pages, rules
from proxy.console.page import Page

PAGES: Final[tuple[Page, ...]] = (
    *now.PAGES,
    *review_pages.PAGES,
    *memories.PAGES,
    *after.PAGES,
    *rules.PAGES,
)
