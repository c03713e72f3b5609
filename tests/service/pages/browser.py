"""A real browser on the pages: Debian's Chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

AXE = Path(__file__).parent / "axe.min.js"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Chromium without a window. In a container of root's its sandbox cannot start."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        raise FileNotFoundError("these tests need Chromium: apt-get install chromium, or set CHROMIUM to its path")
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=flags)
        yield browser
        browser.close()


def violations(page: Page) -> list[str]:
    """What axe finds serious or critical on a page. It is evaluated from outside, past the page's own policy."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("(rules) => axe.run(document, rules)", RULES)
    return [
        f"{one['id']} ({one['impact']}): {one['nodes'][0]['target']} {one['nodes'][0]['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def troubles(page: Page) -> list[str]:
    """What is wrong with a page once it has loaded: what axe finds, and that it scrolls sideways."""
    page.wait_for_load_state("networkidle")
    wrong = [f"{page.url}: {one}" for one in violations(page)]
    if page.evaluate("() => document.documentElement.scrollWidth > innerWidth"):
        wrong.append(f"{page.url} is wider than the window")
    return wrong
