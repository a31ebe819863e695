"""Draw docs/images/dashboard.png, the README's picture of the dashboard, from an experiment:

    genepool run shirts --time 5m && python tools/dashboard_picture.py shirts

The best individual is selected, so a line joins its ancestors.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

TARGET = Path(__file__).parents[1] / "docs" / "images" / "dashboard.png"
DRAWN = "window.genepoolCloud?.frames.count > 0 && genepoolCloud.population.order.length > 0"


def main() -> None:
    """Serve the experiment, take the picture and exit."""
    command = [sys.executable, "-m", "genepool", "dashboard", sys.argv[1], "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        assert server.stdout is not None
        address = server.stdout.readline().split()[1]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 740})
        page.goto(address)
        while not page.evaluate(f"() => Boolean({DRAWN})"):
            page.wait_for_timeout(100)
        page.focus(".cloud")
        page.keyboard.press("b")
        while not page.evaluate("() => genepoolCloud.selected >= 0"):
            page.wait_for_timeout(100)
        page.evaluate("() => document.activeElement.blur()")
        page.screenshot(path=TARGET)
        browser.close()
        server.terminate()
    Image.open(TARGET).quantize(128, dither=Image.Dither.NONE).save(TARGET, optimize=True)
    print(TARGET)


if __name__ == "__main__":
    main()
