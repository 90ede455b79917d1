#!/usr/bin/env python3
"""Carries out the stories of `stories/` with agents of clients; see `README.md`."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import time

from runner.agents import AGENTS, AgentError, Workshop
from runner.play import Failure, Play
from runner.server import ServerError
from runner.stories import StoryError, chosen, needs
from runner.table import sums, table


def arguments():
    """The arguments of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clients", nargs="+", choices=sorted(AGENTS), help="clients to examine")
    parser.add_argument("--server", default=os.environ.get("CLARET_BIN", "claret"))
    parser.add_argument(
        "--story",
        action="append",
        metavar="FILE[:TEXT]",
        help="only the stories of this file, of which the name contains the text",
    )
    parser.add_argument("--jobs", type=int, default=1, help="clients to examine side by side")
    parser.add_argument("--sums", metavar="PAGE", help="a page whose table of sums is to be written")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    given = parser.parse_args()
    if shutil.which(given.server) is None:
        parser.error(f"there is no server {given.server!r}: set CLARET_BIN, or use --server")
    return given


class Run:
    """All chosen stories with one client."""

    def __init__(self, workshop, name, binary, is_quiet):
        self._workshop = workshop
        self._name = name
        self._binary = binary
        self._is_quiet = is_quiet
        self._agent = None
        self._offers = set()

    def carry_out(self, stories):
        """The result of each story."""
        try:
            return [self._story(*story) for story in stories]
        finally:
            self._end()

    def _end(self):
        if self._agent is not None:
            self._agent.end()
            self._agent = None

    def _story(self, file, story):
        since = time.monotonic()
        status, text = self._attempt(story)
        result = {
            "client": self._name,
            "file": file,
            "story": story["name"],
            "status": status,
            "seconds": round(time.monotonic() - since, 2),
        }
        if text:
            result["text"] = text
        if status == "failed" and not self._is_quiet:
            indented = text.replace("\n", "\n  ")
            print(f"{self._name}, {file}: {story['name']}\n  {indented}\n", file=sys.stderr)
        return result

    def _attempt(self, story):
        try:
            if self._agent is None:
                self._agent, self._offers = self._workshop.start(self._name)
        except AgentError as error:
            return "failed", str(error)
        lacking = sorted(needs(story) - self._offers)
        if lacking:
            return "absent", f"it does not offer {', '.join(lacking)}"
        agent, play = self._agent, None
        try:
            play = Play(agent, self._binary, story)
            play.carry_out(story)
            return "ok", ""
        except (Failure, ServerError, AgentError) as error:
            # What is still under way in this agent must not disturb the next story.
            self._end()
            return "failed", "\n".join([str(error), *agent.errors])
        finally:
            if play is not None:
                play.end()


def beginning_at(stories, part):
    """All stories, from another one on for each part of 1: the long ones are in few files, and not all
    clients should be at these at the same time."""
    first = int(len(stories) * part)
    return stories[first:] + stories[:first]


def write_sums(page, rows):
    """Replaces the table of a page that begins like that of the sums."""
    text = page.read_text(encoding="utf-8")
    table_of_sums = re.compile(r"^\| stories \|.*\n(\|.*\n)*", re.M)
    if not table_of_sums.search(text):
        raise SystemExit(f"{page} has no table that begins with 'stories'")
    page.write_text(table_of_sums.sub(lambda _: rows, text, count=1), encoding="utf-8")


def main():
    """Runs the command and returns its exit code."""
    given = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    workshop = Workshop()
    try:
        stories = chosen(given.story)
        runs = [Run(workshop, name, given.server, given.json) for name in given.clients]
        orders = [beginning_at(stories, at / len(runs)) for at in range(len(runs))]
        with concurrent.futures.ThreadPoolExecutor(given.jobs) as jobs:
            of_each = jobs.map(Run.carry_out, runs, orders)
            results = [result for results in of_each for result in results]
    except StoryError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        workshop.close()
    if given.sums:
        write_sums(pathlib.Path(given.sums), sums(given.clients, results))
    print(json.dumps(results, indent=1) if given.json else table(given.clients, results))
    return 1 if any(result["status"] == "failed" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
