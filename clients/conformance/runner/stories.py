"""Stories: where they are, and what they need."""

import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "stories"

# Requests that every agent answers.
ALWAYS = frozenset(["hello", "open", "close", "command"])


class StoryError(Exception):
    """A story that is not there or cannot be read."""


def chosen(patterns):
    """Pairs of file and story; all without patterns, which are `FILE` or `FILE:TEXT`."""
    if not patterns:
        return [pair for path in sorted(FOLDER.glob("*.json")) for pair in _read(path)]
    found = []
    for pattern in patterns:
        file, _, text = pattern.partition(":")
        pairs = _read(FOLDER / f"{pathlib.Path(file).stem}.json")
        pairs = [pair for pair in pairs if text in pair[1]["name"]]
        if not pairs:
            raise StoryError(f"no story matches {pattern!r}")
        found += [pair for pair in pairs if pair not in found]
    return found


def _read(path):
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        texts = {name: "\n".join(text) for name, text in content.get("definitions", {}).items()}
        return [(path.stem, _checked(story, texts)) for story in content["stories"]]
    except (OSError, ValueError, KeyError) as error:
        raise StoryError(f"{path.name}: {error!r}") from error


def _checked(story, definitions):
    unknown = story.keys() - {"name", "needs", "machines", "tls", "steps"}
    if unknown:
        raise ValueError(f"{story.get('name')}: unknown fields {sorted(unknown)}")
    steps = [_defined(step, definitions) for step in story["steps"]]
    machines = story.get("machines", 0)
    if machines not in (0, 3):
        raise ValueError(f"{story['name']}: a cluster has 3 machines")
    needed = story.get("needs", []) + (["addresses"] if machines else [])
    kind = {"machines": machines, "tls": story.get("tls", False)}
    return {"name": story["name"], "needs": needed, "steps": steps, **kind}


def _defined(step, definitions):
    """A step with the text of its definition in the place of that one's name."""
    if "definition" not in step:
        return step
    return {**step, "definition": definitions[step["definition"][1:]]}


def needs(story):
    """Names of what a client must offer for a story."""
    needed = set(story["needs"])
    for step in story["steps"]:
        if "load" in step:
            step = step["load"]["request"]
        needed |= {step["do"]} if "do" in step else step.keys() & {"resume", "cancel"}
    return needed - ALWAYS
