"""The files that this extra reads as a config."""

from tournament_assets.extras.archives.config import ArchiveConfig

ROWS = {"An archive of scored runs": ArchiveConfig}
