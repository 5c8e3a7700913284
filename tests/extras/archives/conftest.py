from pathlib import Path

import pytest

from tests.extras.archives.builders import SmallArchive, make_archive


@pytest.fixture
def archive(tmp_path: Path) -> SmallArchive:
    """An archive of three models whose runs are all there and clean."""
    return make_archive(tmp_path)
