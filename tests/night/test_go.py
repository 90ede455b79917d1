"""Libraries of Go do their work on Claret and on redis-server, with the same results."""

import pytest
from beside import same_on_both

STORIES = ["asynq", "go_redis", "redis_rate", "redsync"]


@pytest.mark.parametrize("story", STORIES)
def test_a_library_of_go_says_the_same_on_both(programs, story, tmp_path):
    assert len(same_on_both(lambda port: programs(story, port), tmp_path)) > 10
