"""System calls of real servers that fail or take their time, by `strace`."""

import contextlib
import shutil
import signal
import subprocess

import pytest

# With these a server waits for its disk.
SYNCS = "fsync,fdatasync"


@contextlib.contextmanager
def injected(node, what, calls=SYNCS):
    """Meanwhile system calls of a server fail, or are late."""
    command = ["strace", "-f", "-p", str(node.process.pid), "-e", f"trace={calls}"]
    command += ["-o", str(node.folder / "strace"), "-e", f"inject={calls}:{what}"]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        # It says so when it has all threads.
        line = tracer.stderr.readline()
        assert "attached" in line, line
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=30)


def needs_strace():
    """Skips a test where no process may be traced."""
    if not shutil.which("strace"):
        pytest.skip("the program `strace` is missing: cargo xtask setup")
    with subprocess.Popen(["sleep", "60"]) as victim:
        try:
            command = ["strace", "-o", "/dev/null", "-p", str(victim.pid)]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
                line = tracer.stderr.readline()
                tracer.send_signal(signal.SIGINT)
            if "attached" not in line:
                pytest.skip(f"processes may not be traced here: {line}")
        finally:
            victim.kill()
