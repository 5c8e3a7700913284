"""Where assets are kept: Parquet for tables, npz for arrays; a local folder or an object store.

A file is named after its asset and partition, and is written whole or not at all. A streamed table
(`tables.STREAMED`) is handed over as the file it is in, and never read as a whole.
"""

import dagster as dg
import pandas as pd
from upath import UPath

from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.storage.atomic_files import write_atomically, write_bytes_atomically
from tournament_assets.storage.tables import (
    STREAMED,
    AnyTable,
    StoredTable,
    WrittenTable,
    decode_npz,
    decode_parquet,
    encode_npz,
    encode_parquet,
)


class _ParquetFiles(dg.UPathIOManager):
    extension = ".parquet"

    def dump_to_path(
        self, context: dg.OutputContext, obj: pd.DataFrame | WrittenTable, path: UPath
    ) -> None:
        if isinstance(obj, WrittenTable):
            write_atomically(path, obj.content.copy_to)
        else:
            write_bytes_atomically(path, encode_parquet(context.asset_key.path[-1], obj))

    def load_from_path(self, context: dg.InputContext, path: UPath) -> AnyTable:
        name = context.asset_key.path[-1]
        if name in STREAMED:
            return StoredTable(name, path)
        return decode_parquet(name, path.read_bytes())


class _NpzFiles(dg.UPathIOManager):
    extension = ".npz"

    def dump_to_path(self, context: dg.OutputContext, obj: EloTraces, path: UPath) -> None:  # noqa: ARG002
        write_bytes_atomically(path, encode_npz(obj))

    def load_from_path(self, context: dg.InputContext, path: UPath) -> EloTraces:  # noqa: ARG002
        return decode_npz(path.read_bytes())


class ParquetIOManager(dg.ConfigurableIOManagerFactory[_ParquetFiles]):
    """Keeps tables as Parquet files in the schema declared for the asset.

    Attributes:
        base_path: A folder, or a URL such as `s3://bucket/folder`.
    """

    base_path: str

    def create_io_manager(self, context: dg.InitResourceContext) -> _ParquetFiles:  # noqa: ARG002
        """Return the manager that Dagster calls."""
        return _ParquetFiles(base_path=UPath(self.base_path))


class NpzIOManager(dg.ConfigurableIOManagerFactory[_NpzFiles]):
    """Keeps rating traces as npz archives.

    Attributes:
        base_path: A folder, or a URL such as `s3://bucket/folder`.
    """

    base_path: str

    def create_io_manager(self, context: dg.InitResourceContext) -> _NpzFiles:  # noqa: ARG002
        """Return the manager that Dagster calls."""
        return _NpzFiles(base_path=UPath(self.base_path))
