"""All that an extension may import: the rows that it adds, and the nouns that they are made of.

An extension is a distribution whose entry point of the group `tournament_assets.extensions` names a
package; `foundation/extensions.py` says which modules of it are read. These names are promised not
to change, and every other module may. A name is imported when it is first used, so that `measures`
does not load what `assets` needs; what a row needs only once it is called is best named then, as
`extension.Reply`.

| to add | names |
|---|---|
| `measures` | `Measure`, `JudgeEvidence`, `Estimate`, `measure_by_prompt`, `Bias` |
| `methods` | `RatingMethod`, `Evidence`, `Matches`, `Rating`, `rows_of_ratings` |
| `sections` | `SectionRow`, `ReportSection`, `ReportTable`, `Doubt` |
| `assets`, `jobs` | `AssetRow`, `Where`, `JobRow`, `Step`, `Made`, `Check`, `Markdown` |
| `services` | `JudgeService`, `ServiceConnection`, `TakesBatches`, `BatchStatus`, `ReplyRow`, |
| | `SubmittedRequest`, `TokenUsage`, `JudgeError`, `JudgeFailure` |
| `prices` | `ConfiguredPrice` |
| `loaders` | `LoaderRow`, `EntrantSpec`, `WrittenEntrant`, `Location`, `Wanted`, |
| | `CompletedResponses`, `GeneratedResponse`, `Prompt`, `places_of` |
| `formats` | `RowFormat`, `FormatOptions`, `LeftOut` |
| `commands`, `configs` | `load_config`, `ConfigFile`, `TournamentPlan`, `TournamentConfig` |
| any | `rows_of`, `render_template`, `InputError`, and the rows of tables: |
| | `ResponseRow`, `MatchRow`, `JudgeReplyRow`, `VerdictRow`, `RatingRow`, `MeasureRow` |
"""

from typing import Any

from tournament_assets.lazy_names import LazyNames

_names = LazyNames(__name__, __file__)


def __getattr__(name: str) -> Any:
    return _names.load(name)


def __dir__() -> list[str]:
    return sorted(_names)
