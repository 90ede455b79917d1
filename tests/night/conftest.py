"""Programs of other languages, built or with their libraries installed, for the tests of this folder."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
from running import lines_of

SOURCES = pathlib.Path(__file__).parent
TARGET = SOURCES.parents[1] / "target"


@pytest.fixture(scope="session")
def programs():
    """A function that runs one of the programs of Go, built if Go is there and new enough."""
    sources, folder = SOURCES / "go", TARGET / "go"
    go = shutil.which("go")
    if not go:
        pytest.skip("Go is not installed")
    needed = re.search(r"^go (\d+)\.(\d+)", (sources / "go.mod").read_text(), re.MULTILINE).groups()
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    said = subprocess.run([go, "version"], capture_output=True, text=True, check=True, env=environment).stdout
    found = re.search(r"go(\d+)\.(\d+)", said).groups()
    if tuple(map(int, found)) < tuple(map(int, needed)):
        pytest.skip(f"the libraries need Go {'.'.join(needed)}, and {'.'.join(found)} is installed")
    folder.mkdir(parents=True, exist_ok=True)
    for words in (["vet", "./..."], ["build", "-o", f"{folder}/", "./..."]):
        subprocess.run([go, *words], cwd=sources, check=True, timeout=600, env=environment)

    def run(program, *words, timeout_s=1200):
        return lines_of([folder / program, *words], timeout_s)

    return run


@pytest.fixture(scope="session")
def node():
    """A function that runs one of the programs of JavaScript, whose libraries are installed."""
    assert shutil.which("node") and shutil.which("npm"), "install node and npm: apt-get install nodejs npm"
    folder = TARGET / "javascript"
    folder.mkdir(parents=True, exist_ok=True)
    for source in (SOURCES / "javascript").iterdir():
        shutil.copy(source, folder)
    subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True, timeout=600)

    def run(program, *words, timeout_s=900):
        return lines_of(["node", program, *words], timeout_s, cwd=folder)

    return run
