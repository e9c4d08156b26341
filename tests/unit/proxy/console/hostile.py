"""Texts that would act on a page, or look like something else, if they were not drawn as text."""

from __future__ import annotations

from typing import Final

HOSTILE: Final = (
    "<script>window.ran = 1</script>",
    "</pre><script>window.ran = 1</script>",
    "<img src=x onerror=window.ran=1>",
    "<svg onload=window.ran=1>",
    "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    '" autofocus onfocus="window.ran=1',
    "' onmouseover='window.ran=1",
    "</title><script>window.ran=1</script>",
    "</textarea><script>window.ran=1</script>",
    "<style>*{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=http://elsewhere.example/'>",
    "<form action=http://elsewhere.example/><button>Let it in</button></form>",
    "<a href=javascript:window.ran=1>Read and decide</a>",
    "http://elsewhere.example/ is a link",
    "{{ 7 * 7 }} {% raw %} {# x #}",
    "&lt;script&gt;",
    "pay \u202eroloc\u202c now",
    "in\u200bvi\u2060si\ufeffble \U000e0041\U000e0042",
    "n\x00ul",
    "\x1b[2J\x1b[31mred\x1b[0m\x07",
    "a" + "\u0301" * 10_000,
    "x" * 65_536,
    '=HYPERLINK("http://elsewhere.example/","click")',
    "p\u0430ypal \uff1cscript\uff1e \u2028\u2029",
)
