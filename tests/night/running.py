"""Programs that tests of this folder run."""

import subprocess

RUN_S_MAX = 3600


def lines_of(words, **options):
    """What a program says, which must succeed."""
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S_MAX, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
