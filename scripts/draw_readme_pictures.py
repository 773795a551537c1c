#!/usr/bin/env python3
"""Makes the pictures of README.md (docs/images) from a real run: the summary as a terminal shows it, and the timeline page.

usage: draw_readme_pictures.py BIN_DIR [WEIGHTS]

Measures on the CPU, with initialised weights where none are named. Needs a headless Chromium.
"""

import base64
import html
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs/images"
sys.path.insert(0, str(ROOT / "tests/e2e"))

import chromium  # noqa: E402

HEIGHT = 620

TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #16181d; }}
pre {{ display: inline-block; margin: 0; max-width: 1140px; white-space: pre-wrap; padding: 14px 18px; color: #d7dae0;
       font: 13px/1.45 "DejaVu Sans Mono", monospace; }}
b {{ color: #8ec07c; font-weight: normal; }}
</style><pre id="text"><b>$ {command}</b>\n{text}</pre>"""


def picture(browser, page, name, width, height):
    browser.open(page)
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    data = browser.call("Page.captureScreenshot", format="png", clip=clip)["data"]
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / name).write_bytes(base64.b64decode(data))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    client = pathlib.Path(sys.argv[1]).resolve() / "libreyolo"
    weights = ["--weights", "random"]
    with tempfile.TemporaryDirectory(prefix="ly-") as folder:

        def libreyolo(*words):
            return subprocess.run([client, *words], cwd=folder, check=True, capture_output=True, text=True).stdout

        if len(sys.argv) == 3:
            # Found by its name, as in the tour.
            pathlib.Path(folder, "weights").mkdir()
            shutil.copy(sys.argv[2], pathlib.Path(folder, "weights", "LibreYOLO9t.pt"))
            weights = []
        libreyolo("profile", "infer", "--device", "cpu", *weights, "--warmup", "5", "--runs", "20")
        profile = "runs/profile/infer/profile.json"
        said = libreyolo("profile", "summary", profile)
        libreyolo("profile", "timeline", profile, "-o", "timeline.html")
        libreyolo("daemon", "stop")
        command = f"libreyolo profile summary {profile}"
        text = pathlib.Path(folder, "summary.html")
        text.write_text(TERMINAL.format(command=command, text=html.escape(said)))
        browser = chromium.Chromium(width=1200, height=HEIGHT)
        try:
            browser.open(text)
            size = browser.evaluate("(({offsetWidth, offsetHeight}) => [offsetWidth, offsetHeight])(document.all.text)")
            picture(browser, text, "summary.png", *size)
            picture(browser, pathlib.Path(folder, "timeline.html"), "timeline.png", 1200, HEIGHT)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
