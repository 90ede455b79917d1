"""Hooks of MkDocs that make the site of docs/: see the README beside this file.

The pages are written for a reader of the repository. The hooks add what a site needs: a page for
each command, pages for linked files outside of docs/, and Markdown that MkDocs' parser understands.
"""

from pathlib import Path

import commands
import limits
import outside
import prepare
from mkdocs.structure.files import File

DOCS = Path(__file__).resolve().parent.parent
ROOT = DOCS.parent
HOME = "site/home.md"
REFERENCE = "reference/commands.md"

_reference = commands.Reference((DOCS / REFERENCE).read_text())
_outside = outside.Outside(ROOT, DOCS)


def on_config(config):
    """Adds to the navigation what needs no sorting by hand."""
    reference = next(part["Reference"] for part in config.nav if "Reference" in part)
    reference[0] = {"Commands": [REFERENCE, *_reference.navigation()]}
    config.nav.append(
        {
            "Development": [
                *({title: path} for title, path in _outside.navigation(["ARCHITECTURE.md"])),
                {"Internals": _folder("internals")},
                {"Decisions": _folder("adr")},
                *(
                    {title: path}
                    for title, path in _outside.navigation(
                        ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
                    )
                ),
                {"Linked files": [{title: path} for title, path in _outside.others()]},
            ]
        }
    )
    return config


def _folder(name):
    """The pages of a folder: its overview, then the others by name."""
    pages = sorted(path.name for path in (DOCS / name).glob("*.md") if path.name != "README.md")
    return [f"{name}/README.md", *(f"{name}/{page}" for page in pages)]


def on_files(files, config):
    """Adds the pages that are made from others, and puts the home page at the root."""
    for path, text in (*_reference.pages(), *_outside.pages()):
        files.append(File.generated(config, path, content=text))
    home = files.get_file_from_path(HOME)
    home.dest_uri = home.url = "index.html"
    return files


def on_page_markdown(markdown, page, config, files):
    """Makes a page of the repository into one of the site."""
    path = page.file.src_uri
    if path == HOME:
        page.meta["hide"] = ["navigation", "toc"]
    if path == REFERENCE:
        markdown = _reference.overview()
    if path == limits.PAGE:
        markdown += limits.table(ROOT)
    if path not in _outside.made:
        markdown = _outside.relink(markdown, path)
    return prepare.prepare(_reference.relink(markdown, path))
