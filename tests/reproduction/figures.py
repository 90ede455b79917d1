#!/usr/bin/env python3
"""Figures of a report as one picture: python3 tests/reproduction/figures.py REPORT.html OUT.png SECTION...

Sections are named as in the page: cdf, by-size, by-workload, matrix, timeline, slow-histogram, jaccard,
correlations, scatter. Needs Debian's package chromium.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

WIDTH = 1000
# The page is drawn in a light room, whatever the machine likes.
STYLE = """<style>
:root {{ color-scheme: light }} header, section, .controls {{ display: none }}
{shown} {{ display: block !important }} main {{ padding: .4rem }}
</style>"""
# The page says how high it is.
MEASURE = "<script>document.body.dataset.height = document.documentElement.offsetHeight</script>"


def browse(page, profile, *flags):
    """What a browser says of a page."""
    browser = shutil.which("chromium")
    if not browser:
        sys.exit("figures.py: chromium is missing: apt-get install chromium")
    common = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command = [browser, *common, *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit(f"figures.py: {done.stderr}")
    return done.stdout


def main(report, out, *sections):
    text = pathlib.Path(report).read_text()
    for name in sections:
        if f'<section id="{name}"' not in text:
            sys.exit(f"figures.py: {report} has no section {name}")
    shown = ", ".join(f"#{name}" for name in sections)
    # Half of a page is too narrow for some: each figure gets a line of its own.
    text = text.replace('class="half"', "").replace("</head>", STYLE.format(shown=shown) + "</head>")
    text = text.replace("</body>", MEASURE + "</body>")
    with tempfile.TemporaryDirectory() as folder:
        page, profile = pathlib.Path(folder, "page.html"), pathlib.Path(folder, "profile")
        page.write_text(text)
        drawn = browse(page, profile, f"--window-size={WIDTH},800", "--dump-dom")
        height = int(re.search(r'data-height="(\d+)"', drawn)[1])
        size = f"--window-size={WIDTH},{height}"
        browse(page, profile, size, "--hide-scrollbars", f"--screenshot={pathlib.Path(out).resolve()}")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
