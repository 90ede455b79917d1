"""Programs that tests of this folder run."""

import subprocess


def lines_of(words, timeout_s, **options):
    """What a program says, which must succeed within a time."""
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
