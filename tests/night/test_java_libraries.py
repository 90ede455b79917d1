"""Libraries of Java do their work on Claret and on redis-server, with the same results."""

import pathlib
import re
import shutil
import subprocess

import pytest
import three_machines
from beside import same_on_both
from running import lines_of

PROJECT = pathlib.Path(__file__).with_name("java") / "pom.xml"
FOLDER = pathlib.Path(__file__).parents[2] / "target" / "java"
STORIES = [
    "LettuceStory",
    "JedisStory",
    "RedissonStory",
    "RedissonObjectsStory",
    "BucketStory",
    "SpringStory",
]
# The plugin's goal that runs a program: `echo`, which says where the classes are.
PATH = "org.codehaus.mojo:exec-maven-plugin:3.1.0:exec"
BUILD_S = 900
STORY_S = 300


def maven(*more):
    """Compiles the programs, and says where they and the libraries are."""
    words = ["mvn", "-q", "-B", *more, f"-Dbuild.folder={FOLDER}", "-f", PROJECT, "compile", PATH]
    words += ["-Dexec.executable=echo", "-Dexec.args=%classpath"]
    return subprocess.run(words, capture_output=True, text=True, timeout=BUILD_S)


@pytest.fixture(scope="module")
def java():
    """A function that runs a program in a Java machine of its own, and returns its lines."""
    for program in ["java", "mvn"]:
        if not shutil.which(program):
            pytest.skip(f"there is no {program}: apt-get install maven")
    done = maven("-o")
    if done.returncode:
        # The libraries are not on this machine yet.
        done = maven()
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    path = re.search(rf"{re.escape(str(FOLDER))}/classes:\S+", done.stdout).group()

    def run(program, *words):
        return lines_of(["java", "-Xmx512m", "-cp", path, program, *words], STORY_S)

    return run


@pytest.mark.parametrize("story", STORIES)
def test_a_library_of_java_says_the_same_on_both(java, story, tmp_path):
    assert len(same_on_both(lambda port: java(story, port), tmp_path)) > 10


def test_clients_for_clusters_say_the_same_on_both(java, tmp_path):
    said = same_on_both(lambda port: java("ClusterStory", port), tmp_path, three_machines.KINDS)
    assert len(said) > 5
