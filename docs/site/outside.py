"""Pages for files of the repository that lie outside of docs/ and that pages link."""

import posixpath
import re

FOLDER = "repository"
# Documents that have a place in the navigation, whether or not pages link them.
_DOCUMENTS = ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
_LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
_KINDS = {".rs": "rust", ".toml": "toml", ".py": "python", ".yaml": "yaml"}


class Outside:
    """The linked files outside of docs/, with what they link, and the paths of their pages."""

    def __init__(self, root, docs):
        self._root, self._docs = root, docs
        self._paths = {}
        for path in _DOCUMENTS:
            self._add(path)
        for page in sorted(docs.rglob("*.md")):
            self._add_links(page.read_text(), page.relative_to(root).as_posix())
        self.made = set(self._paths.values())

    def navigation(self, paths):
        """Titles and pages of documents."""
        for path in paths:
            title = path.removesuffix(".md").capitalize()
            yield title, self._paths[path]

    def others(self):
        """Titles and pages of the linked files that are not such documents."""
        return sorted((path, page) for path, page in self._paths.items() if path not in _DOCUMENTS)

    def pages(self):
        """Paths and texts of the pages."""
        for path, page in self._paths.items():
            file = self._root / path
            if file.is_dir():
                names = sorted(
                    f"{child.name}/" if child.is_dir() else child.name for child in file.iterdir()
                )
                rows = "\n".join(f"- {self._entry(path, name)}" for name in names)
                yield page, f"# {path}/\n\n{rows}\n"
            elif path.endswith(".md"):
                yield page, self._relinked(file.read_text(), path, page)
            else:
                text, kind = file.read_text(), _KINDS.get(file.suffix, "text")
                yield page, f"# {path}\n\n````{kind}\n{text.rstrip()}\n````\n"

    def relink(self, markdown, path):
        """Leads links of a page of docs/ that leave docs/ to the pages here."""
        return self._relinked(markdown, f"docs/{path}", path)

    def _relinked(self, markdown, source, page):
        def link(match):
            target = _target(source, match[1])
            if target is None:
                return match[0]
            if target in self._paths:
                to = self._paths[target]
            elif target.startswith("docs/"):
                to = target.removeprefix("docs/")
            else:
                return match[0]
            if (self._docs / to).is_dir():
                to += "/README.md"
            return f"]({posixpath.relpath(to, posixpath.dirname(page))}{match[2] or ''})"

        return _LINK.sub(link, markdown)

    def _entry(self, folder, name):
        page = self._paths.get(f"{folder}/{name.rstrip('/')}")
        if page is None:
            return f"`{name}`"
        return f"[`{name}`]({posixpath.relpath(page, posixpath.dirname(self._paths[folder]))})"

    def _add(self, path):
        file = self._root / path
        if path in self._paths or not file.exists():
            return
        if file.is_dir():
            self._paths[path] = f"{FOLDER}/{path}/index.md"
            for child in sorted(file.iterdir()):
                self._add(f"{path}/{child.name}")
        elif path.endswith(".md"):
            self._paths[path] = f"{FOLDER}/{path}"
            self._add_links(file.read_text(), path)
        else:
            self._paths[path] = f"{FOLDER}/{path}.md"

    def _add_links(self, text, source):
        for match in _LINK.finditer(text):
            target = _target(source, match[1])
            if target and not target.startswith("docs/") and not target.startswith(".."):
                self._add(target)


def _target(source, link):
    """The path from the root that a relative link in a document means, or None for other links."""
    if "://" in link or link.startswith(("mailto:", "/")):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
