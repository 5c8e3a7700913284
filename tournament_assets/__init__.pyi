from tournament_assets.definitions import TournamentComponent as TournamentComponent
from tournament_assets.foundation.errors import InputError as InputError
from tournament_assets.foundation.errors import TournamentError as TournamentError
from tournament_assets.foundation.errors import WorkError as WorkError
from tournament_assets.python_api import Run as Run
from tournament_assets.python_api import Tournament as Tournament
from tournament_assets.python_api import compare as compare
from tournament_assets.python_api import compare_answers as compare_answers
from tournament_assets.python_api import load as load
from tournament_assets.python_api import open_run as open_run
from tournament_assets.python_api import rate as rate
from tournament_assets.python_results import Comparison as Comparison
from tournament_assets.python_results import GateResult as GateResult
from tournament_assets.python_results import Picture as Picture
from tournament_assets.python_results import PriceEstimate as PriceEstimate
from tournament_assets.python_results import Ratings as Ratings
from tournament_assets.tournament.battles import RatingSettings as RatingSettings

__all__: list[str]
