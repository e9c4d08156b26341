"""Leaves one Chromium on the page Now, in an environment of Playwright's own, and weighs its tab.

Reads one JSON object from standard input. Each line that follows there asks for one sample, which
is written as a line of JSON; the end of the input ends it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

PAGE_BYTES = 4_096
ROWS = "document.querySelectorAll('#verdicts tbody tr').length"


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES / 1e6


def main() -> None:
    asked: dict[str, Any] = json.loads(sys.stdin.readline())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=asked["chromium"], args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        base = asked["admin"]
        page.goto(base.replace("http://", f"http://me:{asked['key']}@") + "/trust")
        page.goto(f"{base}/now")
        whole, tab = browser.new_browser_cdp_session(), page.context.new_cdp_session(page)
        tab.send("Performance.enable")
        for _ in sys.stdin:
            tab.send("HeapProfiler.collectGarbage")
            heap = {
                one["name"]: one["value"] for one in tab.send("Performance.getMetrics")["metrics"]
            }
            processes = whole.send("SystemInfo.getProcessInfo")["processInfo"]
            tabs = [rss_mb(one["id"]) for one in processes if one["type"] == "renderer"]
            seen = {
                "heap_mb": heap["JSHeapUsedSize"] / 1e6,
                "nodes": heap["Nodes"],
                "tab_mb": max(tabs),
                "browser_mb": sum(rss_mb(one["id"]) for one in processes),
                "rows": page.evaluate(ROWS),
                "counted": sum(
                    int(page.inner_text(f"#count-{one}")) for one in ("admit", "reject")
                ),
                "live": page.inner_text("#live"),
            }
            sys.stdout.write(json.dumps(seen) + "\n")
            sys.stdout.flush()
        browser.close()


if __name__ == "__main__":
    main()
