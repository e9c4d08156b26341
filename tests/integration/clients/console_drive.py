"""Drives one Chromium through the console, in an environment of Playwright's own.

Reads one JSON object from standard input, and writes what was seen as one JSON object. It judges
nothing: the test that starts it does.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

WIDTHS = {"360": (360, 1), "768": (768, 1), "1440": (1_440, 1), "1440 at 200 %": (720, 2)}
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# What is cut: a line of words that is wider than its box, where the box does not scroll.
CUT = """() => [...document.querySelectorAll('main *, header *')].filter(one =>
  one.matches('.table') ? one.scrollWidth > one.clientWidth + 1 :
  one.childElementCount === 0 && one.textContent.trim() && one.checkVisibility() &&
  one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline' &&
  !['auto', 'scroll'].includes(getComputedStyle(one).overflowX) && !one.closest('.aside, .skip'))
  .map(one => one.outerHTML.slice(0, 200))"""
# A character that is not seen, or that turns the text around it, anywhere in the document.
RAW = """() => /[\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff]/
  .test(document.documentElement.outerHTML)"""
AXE = """() => axe.run(document, {runOnly: {type: 'tag', values:
  ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}})
  .then(found => found.violations.map(one =>
    [one.id, one.nodes.slice(0, 3).map(node => node.html.slice(0, 200))]))"""


class Drive:
    """One browser, and what was seen with it."""

    def __init__(self, browser: Browser, asked: dict[str, Any]) -> None:
        self.browser = browser
        self.asked = asked
        self.base = asked["admin"]
        self.seen: dict[str, Any] = {"requests": [], "ran": [], "raw": [], "errors": []}
        self.seen |= {"axe": {}, "cut": {}, "text": {}}

    def context(self, **options: Any) -> BrowserContext:  # noqa: ANN401 - as Playwright has them
        context = self.browser.new_context(**options)
        context.on("request", lambda request: self.seen["requests"].append(request.url))
        # The browser keeps the key for this origin, as after its own dialogue.
        signed = self.base.replace("http://", f"http://me:{self.asked['key']}@")
        page = context.new_page()
        page.goto(f"{signed}/trust")
        page.close()
        return context

    def open(self, context: BrowserContext, path: str) -> Page:
        page = context.new_page()
        page.on("pageerror", lambda error: self.seen["errors"].append(str(error)))
        page.goto(self.base + path)
        return page

    def control(self) -> None:
        """A page without the console's walls, where a script runs and a word is cut."""
        page = self.browser.new_page()
        page.set_content(
            "<main><script>window.ran = 1</script><p style='width:9px'>www\u202ewww</p></main>"
        )
        seen = [page.evaluate("window.ran"), page.evaluate(RAW), len(page.evaluate(CUT))]
        self.seen["control"] = seen
        page.close()

    def pictures(self) -> None:
        source = Path(self.asked["axe"]).read_text()
        for name in self.asked.get("widths", WIDTHS):
            width, scale = WIDTHS[name]
            scheme = "dark" if name == "768" else "light"
            context = self.context(
                viewport={"width": width, "height": 900},
                device_scale_factor=scale,
                color_scheme=scheme,
            )
            page = self.open(context, "/now")
            for path in self.asked["paths"]:
                page.goto(self.base + path)
                where = f"{path} at {name}"
                found = page.evaluate(CUT)
                overflow = page.evaluate(OVERFLOW)
                if found or overflow > 0:
                    self.seen["cut"][where] = [overflow, found]
                if page.evaluate(RAW):
                    self.seen["raw"].append(where)
                self.seen["text"][where] = page.inner_text("main")
                if name != "1440 at 200 %":
                    page.evaluate(source)
                    self.seen["axe"][where] = page.evaluate(AXE)
                if page.evaluate("window.ran"):
                    self.seen["ran"].append(where)
                file = re.sub(r"[^a-z0-9]+", "-", where).strip("-")
                page.screenshot(path=f"{self.asked['out']}/{file}.png", full_page=True)
            context.close()

    def keyboard(self) -> None:
        """Review by the keyboard alone: one line struck out, the other let in."""
        context = self.context()
        page = self.open(context, "/review")
        self.tab_to(page, f'a[href$="{self.asked["by_keyboard"]}"]')
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/review/{self.asked['by_keyboard']}")
        self.tab_to(page, "input[name=strike]")
        page.keyboard.press("Space")
        self.tab_to(page, "button[value=approve]")
        page.keyboard.press("Enter")
        page.wait_for_url("**/done/*")
        self.seen["by keyboard"] = page.inner_text("main")
        context.close()

    def tab_to(self, page: Page, selector: str) -> None:
        for _ in range(200):
            page.keyboard.press("Tab")
            if page.evaluate("one => document.activeElement.matches(one)", selector):
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                self.seen.setdefault("outlines", []).append(outline)
                return
        raise SystemExit(f"no key leads to {selector}")

    def without_script(self) -> None:
        context = self.context(java_script_enabled=False)
        page = self.open(context, "/now")
        self.seen["now without script"] = page.inner_text("#verdicts")
        page.goto(f"{self.base}/review/{self.asked['without_script']}")
        page.click("button[value=deny]")
        self.seen["denied without script"] = page.inner_text("main")
        context.close()

    def acts(self) -> None:
        """Each act by the form of its own page, and what it leaves, without script."""
        context = self.context(java_script_enabled=False)
        page = self.open(context, "/memory")
        for act in self.asked["acts"]:
            page.goto(self.base + act["at"])
            form = f'form[action$="{act["path"]}"]'
            for name, value in act["fill"].items():
                page.fill(f"{form} [name={name}]", value)
            page.click(f"{form} button")
            self.seen.setdefault("acts", []).append(page.inner_text("main"))
        context.close()

    def foreign(self) -> None:
        """Another port of the address: a page there sends forms and requests, and gets no key."""
        context = self.context()
        page = self.open(context, "/review")
        page.goto(self.asked["foreign"])
        target = f"{self.base}/review/{self.asked['foreign_group']}"
        self.seen["foreign fetch"] = page.evaluate(
            "url => fetch(url, {credentials: 'include'}).then(one => one.text(), () => 'refused')",
            target,
        )
        self.seen["foreign socket"] = page.evaluate(
            "url => new Promise(done => { const one = new WebSocket(url);"
            " one.onopen = () => done('open'); one.onerror = () => done('refused'); })",
            self.base.replace("http", "ws") + "/now/events",
        )
        frame = page.evaluate_handle(
            "url => new Promise(done => { const one = document.createElement('iframe');"
            " one.onload = () => done(one); one.src = url; document.body.append(one); })",
            target,
        ).as_element()
        inside = frame.content_frame() if frame else None
        self.seen["foreign frame"] = "" if inside is None else inside.content()
        with page.expect_navigation():
            page.evaluate(
                "url => { document.forms[0].action = url; document.forms[0].submit(); }", target
            )
        self.seen["foreign form"] = page.inner_text("body")
        context.close()

    def live(self) -> None:
        """Now, fed while it is looked at, while it is frozen, and after."""
        context = self.context()
        page = self.open(context, "/now")
        before = int(page.inner_text("#count-admit"))
        self.write("Live one")
        page.wait_for_function(
            "count => document.getElementById('count-admit').textContent === count",
            arg=str(before + 1),
            timeout=20_000,
        )
        session = context.new_cdp_session(page)
        session.send("Page.setWebLifecycleState", {"state": "frozen"})
        self.write("Frozen one")
        session.send("Page.setWebLifecycleState", {"state": "active"})
        page.wait_for_function(
            "count => document.getElementById('count-admit')?.textContent === count",
            arg=str(before + 2),
            timeout=20_000,
        )
        page.wait_for_function("document.querySelectorAll('#verdicts tbody tr').length >= 3")
        self.seen["live"] = page.inner_text("#live")
        context.close()

    def signed_in(self) -> None:
        """A host name of the console's own, with TLS: a session from the sign-in to its end."""
        base = self.asked["host"]
        context = self.browser.new_context(ignore_https_errors=True)
        page = context.new_page()
        page.goto(f"{base}/review/{self.asked['group']}")
        page.fill("#key", "not-a-key")
        page.click("main button")
        self.seen["wrong key"] = page.inner_text("main")
        page.goto(f"{base}/review/{self.asked['group']}")
        page.fill("#key", self.asked["key"])
        page.click("main button")
        self.seen["signed in"] = [page.url.removeprefix(base), page.inner_text("header")]
        self.seen["cookies"] = context.cookies()
        self.seen["cookie of the page"] = page.evaluate("document.cookie")
        page.click("button[value=deny]")
        self.seen["denied in a session"] = page.inner_text("main")
        page.goto(f"{base}/now")
        page.locator("#live", has_text="Live.").wait_for()
        page.click("header button")
        self.seen["signed out"] = [page.url.removeprefix(base), len(context.cookies())]
        page.goto(f"{base}/memory")
        self.seen["after it"] = page.url.removeprefix(base)
        context.close()

    def write(self, text: str) -> None:
        request = urllib.request.Request(  # noqa: S310 - our own
            f"{self.asked['data']}/v1/memories",
            data=json.dumps({"text": f"Ada keeps bees. {text}"}).encode(),
            headers={"Authorization": f"Bearer {self.asked['agent']}"},
        )
        request.add_header("Content-Type", "application/json")
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310 - our own


def main() -> None:
    asked = json.load(sys.stdin)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", *asked.get("arguments", ())]
        browser = playwright.chromium.launch(executable_path=asked["chromium"], args=arguments)
        drive = Drive(browser, asked)
        parts = {
            "control": drive.control,
            "pictures": drive.pictures,
            "foreign": drive.foreign,
            "keyboard": drive.keyboard,
            "without script": drive.without_script,
            "acts": drive.acts,
            "live": drive.live,
            "signed in": drive.signed_in,
        }
        for name in asked["parts"]:
            parts[name]()
        browser.close()
    json.dump(drive.seen, sys.stdout)


if __name__ == "__main__":
    main()
