"""What this extra adds to a small project in tests of everything that a tournament can have."""

from tests.projects import SmallProject

MODE_KEYS = {"adaptive": {"goal": "bank", "rounds": 2, "min_prompts": 2}}


def add_to(project: SmallProject, _dimension: str) -> None:
    """Let the pilot's pairs stop."""
    project.merge_config(modes={"pilot": MODE_KEYS})
