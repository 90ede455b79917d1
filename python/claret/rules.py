"""Checks at run time that a program may send its commands without waiting for each other.

When a program that waits for every reply is changed into one that does not, its users notice
nothing as long as three things hold: what depends on a reply waits for it; commands keep the order
that they had; and before the program does anything else that somebody could see, everything that
it has sent is answered, and well. The first is seen to by :class:`Future`. Here is the third: while
commands of a dispatch with ``debug=True`` are not answered, the thread (or task) that has sent them
may not write files, talk to others or start programs.

It sees what Python tells its audit hooks, and commands that go to the server another way. It does
not see what is written to what is open already, and not what other languages' code does.
"""

import asyncio
import os
import sys
import threading

from .errors import OrderError

# What others can see, by the names under which Python's audit hooks hear of it.
SEEN_BY_OTHERS = frozenset(
    "ftplib.sendcmd http.client.connect http.client.send imaplib.send nntplib.putline os.exec "
    "os.fork os.forkpty os.kill os.link os.mkdir os.posix_spawn os.remove os.rename os.rmdir "
    "os.spawn os.symlink os.system os.truncate poplib.putline shutil.copyfile shutil.copytree "
    "shutil.move shutil.rmtree smtplib.connect smtplib.send socket.connect socket.sendmsg "
    "socket.sendto sqlite3.connect subprocess.Popen urllib.Request webbrowser.open".split()
)

# Whose commands are not answered: for each thread and task, the dispatches that watch it.
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
    """Watches whoever has made it, while ``open_commands()`` gives more than zero."""

    def __init__(self, open_commands):
        self._open_commands = open_commands
        self._who = _who()
        if not _hooked:
            _hooked.append(True)
            sys.addaudithook(_heard)
        _watched.setdefault(self._who, []).append(self)

    def end(self):
        """Watches nobody any more."""
        watches = _watched.get(self._who, [])
        if self in watches:
            watches.remove(self)
        if not watches:
            _watched.pop(self._who, None)

    def sent_by(self):
        """Somebody sends a command: it must be whoever is watched."""
        if self._who[0] != threading.get_ident():
            raise OrderError(
                "a dispatch belongs to the thread that began it: "
                "the order of two threads' commands is nobody's"
            )

    def __enter__(self):
        """What happens now is the dispatch's own doing."""
        _own.doing = getattr(_own, "doing", 0) + 1

    def __exit__(self, *_):
        _own.doing -= 1

    def check(self, what):
        """Raises :class:`OrderError` if something is not answered."""
        count = self._open_commands()
        if count:
            raise OrderError(
                f"{what} while {count} commands that were sent before are not answered: "
                "wait for them first, with wait() or for the last one's result"
            )


def check(what):
    """Raises :class:`OrderError` if the one who calls this is watched and has open commands."""
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
        # Python itself writes what it has compiled of the modules that it imports.
        if writes and "__pycache__" not in str(args[0]):
            check(f"opening {args[0]!r} for writing")
    elif event in SEEN_BY_OTHERS:
        check(event)
