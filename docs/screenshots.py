"""The pages' pictures in docs/pages: a workspace of handwritten digits, served, looked at with Chromium.

    make screenshots            or: python docs/screenshots.py [FOLDER]

Real data (scikit-learn's digits as 64 grey levels, dealt to 24 schools and a museum), no pretrained backbone: it takes
half a minute. Pictures are 1280 pixels wide, those of a phone 390; one of each kind is dark.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from sklearn.datasets import load_digits

from shardgraph import ForgetRequest, OwnGraph, Samples, ShardGraph, Workspace
from shardgraph.cli.demo.digits import digits, write_images
from shardgraph.forget import Submission
from shardgraph.storage.samples import from_arrays

TREES = "alder ash aspen beech birch cedar cherry elm fir hazel holly larch lime maple oak olive pear pine plum rowan"
SCHOOLS = (*TREES.split(), "spruce", "walnut", "willow", "yew")  # six cliques of four
MUSEUM, COUNT = "museum", 1500
SIZES = {"desktop": {"width": 1280, "height": 860}, "phone": {"width": 390, "height": 844}}


def samples() -> Samples:
    """The digits; every tenth is held out, every ninth is the museum's, and writers are the subjects."""
    found = load_digits()
    names = [f"digit-{i:04d}" for i in range(COUNT)]
    return from_arrays(
        found.data[:COUNT].astype("float32") / 16,
        [str(label) for label in found.target[:COUNT]],
        names,
        sources=[MUSEUM if i % 9 == 0 else SCHOOLS[i * 7 % len(SCHOOLS)] for i in range(COUNT)],
        subjects=[f"writer-{i % 43:02d}" for i in range(COUNT)],
        splits=["test" if i % 10 == 3 else "train" for i in range(COUNT)],
    )


def graph() -> ShardGraph:
    """Cliques of four schools each; everybody may learn from the museum."""
    cliques = [SCHOOLS[i : i + 4] for i in range(0, len(SCHOOLS), 4)]
    edges = {(a, b) for clique in cliques for a in clique for b in clique}
    return ShardGraph((*SCHOOLS, MUSEUM), frozenset(edges | {(school, MUSEUM) for school in SCHOOLS}))


def make(root: Path) -> None:
    """A trained workspace with some rights."""
    with Workspace.create(root, seed=1, classes=[str(i) for i in range(10)]) as workspace:
        workspace.add(samples())
        workspace.train(OwnGraph(graph()))
        workspace.consumers.grant("acme", sources=[*SCHOOLS[:8], MUSEUM])
        workspace.consumers.grant("north-library", sources=SCHOOLS[8:14])


class Service:
    """`shardgraph serve` as a process."""

    def __init__(self, root: Path, originals: Path) -> None:
        words = [sys.executable, "-m", "shardgraph.cli.main", "serve", str(root), "--port", "0"]
        self.log = (root.parent / "log").open("w+")
        self.process = subprocess.Popen([*words, "--originals", str(originals)], stderr=self.log)
        self.base = f"http://127.0.0.1:{self._port()}"
        while True:
            try:
                urllib.request.urlopen(f"{self.base}/ready")
                return
            except OSError:
                time.sleep(0.1)

    def _port(self) -> int:
        while self.process.poll() is None:
            for line in Path(self.log.name).read_text().splitlines():
                if '"listening"' in line:
                    return int(json.loads(line)["port"])
            time.sleep(0.1)
        raise SystemExit(Path(self.log.name).read_text())

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def live(root: Path) -> None:
    """Some requests, one after another, so that there is a past to show."""
    with Workspace(root) as workspace:
        for name, reason in (("digit-0011", "consent withdrawn"), ("digit-0052", ""), ("digit-0125", "wrong label")):
            workspace.queue.wait_for(
                workspace.queue.submit(Submission(ForgetRequest((name,), reason=reason), "reception")).number
            )
            time.sleep(1.5)  # the model is measured in between


def previewed(page: Page) -> None:
    """A preview, on the way there by hand: names stand in no address."""
    page.goto("/pages/forget")
    page.get_by_label("whose name begins with").fill("digit-015")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("button", name="Preview").first.click()


def watched(page: Page) -> None:
    """A request that was just confirmed, when it is done."""
    previewed(page)
    page.get_by_label("I am sure").check()
    page.get_by_role("button", name="Forget ").click()
    page.locator("#now [data-state=done]").wait_for(timeout=60_000)


def verified(page: Page) -> None:
    """A certificate that was checked."""
    page.goto("/pages/proof/1")
    page.get_by_role("button", name="Verify", exact=True).click()
    page.evaluate("() => document.activeElement.blur()")


def asked(page: Page) -> None:
    """A right, with its accuracy."""
    page.goto("/pages/rights/of?consumer=acme")
    page.get_by_role("button", name="Measure").click()


SCENES = {
    "overview": lambda page: page.goto("/pages"),
    "graph": lambda page: page.goto(f"/pages/graph?shard={SCHOOLS[5]}"),
    "preview": previewed,
    "proof": verified,
    "rights": asked,
    "request": watched,
}


def picture(browser: Browser, base: str, folder: Path) -> None:
    """Every scene in both sizes."""
    for size, viewport in SIZES.items():
        for name, scene in SCENES.items():
            dark = (name, size) in (("graph", "desktop"), ("request", "phone"))
            options: dict[str, Any] = {
                "viewport": viewport,
                "color_scheme": "dark" if dark else "light",
                "base_url": base,
            }
            context = browser.new_context(**options, timezone_id="Europe/Berlin", locale="en-GB")
            page = context.new_page()
            scene(page)
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(300)
            page.screenshot(path=folder / f"{name}-{size}.png")
            context.close()


def main() -> None:
    """Make the workspace, serve it, look."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "pages")
    folder.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as room, sync_playwright() as driver:
        root, originals = Path(room) / "ws", Path(room) / "originals"
        write_images(digits(COUNT), originals)
        make(root)
        service = Service(root, originals)
        try:
            live(root)
            flags = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = driver.chromium.launch(executable_path=chromium, args=flags)
            picture(browser, service.base, folder)
            browser.close()
        finally:
            service.end()
    print(f"{len(SCENES) * len(SIZES)} pictures in {folder}")


if __name__ == "__main__":
    main()
