"""What this extra adds to a small project in tests of everything that a tournament can have."""

from tests.extras.people.test_human_battles import add_arena
from tests.extras.people.test_human_labels import label
from tests.projects import SmallProject

MODE_KEYS: dict[str, object] = {}


def add_to(project: SmallProject, dimension: str) -> None:
    """Add an arena, and votes of two people on pairs of the pilot."""
    add_arena(project)
    project.tables("match_list")
    votes = [("ann", {0: "a", 1: "tie"}), ("bo", {0: "a", 2: "b"})]
    label(project, votes, dimension=dimension, frame=dimension)
