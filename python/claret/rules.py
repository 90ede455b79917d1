"""Checks at run time that a program may send its commands without waiting for each other.

When a program that waits for every reply is changed into one that does not, its users notice
nothing as long as three conditions hold: an action that depends on a reply waits for it; commands
keep the order that they had; and before any other action that others could see, all commands have
successful replies. :class:`Future` ensures the first. This module checks the third: while commands
of a dispatch with ``debug=True`` are unanswered, the thread (or task) that has sent them may not
write files, use the network or start programs.

It sees the events of Python's audit hooks, and commands that go to the server another way. It does
not see writes to files that are open already, nor actions of code in other languages.
"""

import asyncio
import os
import sys
import threading

from .errors import OrderError

# Actions that others can see, by the names of Python's audit events.
SEEN_BY_OTHERS = frozenset(
    "ftplib.sendcmd http.client.connect http.client.send imaplib.send nntplib.putline os.exec "
    "os.fork os.forkpty os.kill os.link os.mkdir os.posix_spawn os.remove os.rename os.rmdir "
    "os.spawn os.symlink os.system os.truncate poplib.putline shutil.copyfile shutil.copytree "
    "shutil.move shutil.rmtree smtplib.connect smtplib.send socket.connect socket.sendmsg "
    "socket.sendto sqlite3.connect subprocess.Popen urllib.Request webbrowser.open".split()
)

# For each thread and task with unanswered commands, the dispatches that watch it.
_watched = {}
_hooked = []
_own = threading.local()


def _who():
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return threading.get_ident(), task


class Watch:
    """Watches the thread or task that has created it, while ``open_commands()`` is above zero."""

    def __init__(self, open_commands):
        self._open_commands = open_commands
        self._who = _who()
        if not _hooked:
            _hooked.append(True)
            sys.addaudithook(_heard)
        _watched.setdefault(self._who, []).append(self)

    def end(self):
        """Ends the watch."""
        watches = _watched.get(self._who, [])
        if self in watches:
            watches.remove(self)
        if not watches:
            _watched.pop(self._who, None)

    def sent_by(self):
        """Checks that the sender of a command is the watched thread or task."""
        if self._who[0] != threading.get_ident():
            raise OrderError(
                "a dispatch belongs to the thread that began it: "
                "commands of two threads have no order"
            )

    def __enter__(self):
        """Marks the following actions as the dispatch's own."""
        _own.doing = getattr(_own, "doing", 0) + 1

    def __exit__(self, *_):
        _own.doing -= 1

    def check(self, what):
        """Raises :class:`OrderError` if a command is unanswered."""
        count = self._open_commands()
        if count:
            raise OrderError(
                f"{what} while {count} commands that were sent before are not answered: "
                "wait for them first, with wait() or for the last one's result"
            )


def check(what):
    """Raises :class:`OrderError` if the calling thread or task is watched and has open commands."""
    if _watched and not getattr(_own, "doing", 0):
        for watch in _watched.get(_who(), ()):
            watch.check(what)


def _heard(event, args):
    if not _watched:
        return
    if event == "open":
        _, mode, flags = args
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR)) if isinstance(flags, int) else False
        writes = writes or bool(set(mode or "") & set("wax+"))
        # Python itself writes compiled code of imported modules.
        if writes and "__pycache__" not in str(args[0]):
            check(f"opening {args[0]!r} for writing")
    elif event in SEEN_BY_OTHERS:
        check(event)
