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

_reference = commands.Reference(DOCS)
_outside = outside.Outside(ROOT, DOCS)


def on_config(config):
    """Adds to the navigation what needs no sorting by hand."""
    reference = next(part["Reference"] for part in config.nav if "Reference" in part)
    reference[0] = {"Commands": _reference.navigation()}
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
    """The pages of a folder: its overview, then the others by name, those of folders in it together."""
    pages = [f"{name}/README.md"]
    for path in sorted((DOCS / name).iterdir()):
        inner = f"{name}/{path.name}"
        if (path / "README.md").exists():
            pages.append({_title(path / "README.md"): _folder(inner)})
        elif path.suffix == ".md" and path.name != "README.md":
            pages.append(inner)
    return pages


def _title(page):
    return page.read_text().split("\n", 1)[0].removeprefix("# ")


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
    markdown = _reference.overview(path) or markdown
    if path == limits.PAGE:
        markdown += limits.table(ROOT)
    if path not in _outside.made:
        markdown = _outside.relink(markdown, path)
    return prepare.prepare(_reference.relink(markdown, path))
