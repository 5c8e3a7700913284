"""`tournament export`."""

from pathlib import Path

import click

from tournament_assets.cli import echo
from tournament_assets.extras.exports.forms import FORMS
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.formatting import format_plural
from tournament_assets.python_api import open_run
from tournament_assets.storage.atomic_files import write_bytes_atomically

_LINES = "\n".join(f"{name:<8} {form.__doc__}" for name, form in FORMS.items())


@click.command("export", epilog=f"\b\nForms:\n{_LINES}")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "names",
    multiple=True,
    type=click.Choice([*FORMS]),
    help="A form to write; all of them by default. May be repeated.",
)
@click.option(
    "-o",
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder to write into; by default exports/ and the run's name.",
)
def export_command(folder: Path, names: tuple[str, ...], out: Path | None) -> None:
    """Write the run directory RUN in other forms, from what it holds alone. It sends no request.

    A file that is there already with the same content stays as it is. If one has another content,
    nothing is written.

    \b
    tournament export runs/headline_20261104T101500Z --to paper --to figures -o article
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    run = open_run(folder)
    target = out or Path("exports", folder.resolve().name)
    if target.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{target}: is inside the run directory, whose files have checksums; expected another "
            "folder; name it with --out"
        )
    files: dict[Path, bytes] = {}
    for name in dict.fromkeys(names or FORMS):
        try:
            files |= {target / path: content for path, content in FORMS[name](run).items()}
        except (KeyError, TypeError) as error:
            raise InputError(
                f"{folder / 'manifest.json'}: {name} cannot be made of it "
                f"({type(error).__name__}: {error}); expected the manifest as this version writes "
                "it; run the mode again, which sends no request"
            ) from None
    try:
        missing = {path: content for path, content in files.items() if not path.exists()}
        others = [
            path for path in files if path not in missing and path.read_bytes() != files[path]
        ]
        if others:
            raise InputError(
                f"{path}: the file has another content; expected none, or the same; remove it, or "
                "name another folder with --out"
                for path in others
            )
        for path, content in missing.items():
            write_bytes_atomically(path, content)
    except OSError as error:
        raise InputError(
            f"{error.filename}: {error.strerror}; expected a folder that can be written to"
        ) from None
    echo(f"{target}: {format_plural(len(files), 'file')}")
