from collections.abc import Iterator

import pytest

from tests.redis_server import running_redis

REDIS_PASSWORD = "redis-5c1e"


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a Redis server for all tests that need one."""
    folder = tmp_path_factory.mktemp("redis")
    with running_redis(folder, password=REDIS_PASSWORD) as port:
        yield f"redis://:{REDIS_PASSWORD}@127.0.0.1:{port}/0"
