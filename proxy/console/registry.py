"""All pages of the console, in the order of the navigation."""

from __future__ import annotations

from typing import Final

from proxy.console import aftermath_pages, memory_pages, now, read_only_pages, review_pages
from proxy.console.page import Page

PAGES: Final[tuple[Page, ...]] = (
    *now.PAGES,
    *review_pages.PAGES,
    *memory_pages.PAGES,
    *aftermath_pages.PAGES,
    *read_only_pages.PAGES,
)
