import json
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from tests.projects import make_project
from tournament_assets.definitions import load_project
from tournament_assets.tournament.errors import InputError

ROOT = Path(__file__).parents[1]
HEAVY = (
    "sqlalchemy",
    "torch",
    "transformers",
    "anthropic",
    "openai",
    "numba",
    "scipy",
    "matplotlib",
    "jinja2",
    "starlette",
)


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    return load_project(ROOT, {})


def test_definitions_load_without_the_heavy_libraries() -> None:
    script = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from tournament_assets.definitions import load_project\n"
        "import dagster as dg\n"
        f"dg.Definitions.validate_loadable(load_project(Path({str(ROOT)!r}), {{}}))\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_every_config_has_every_asset_of_the_graph(definitions: dg.Definitions) -> None:
    keys = {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}
    names = {
        "prompt_bank",
        "selected_prompts",
        "entrant_responses",
        "rubrics",
        "prompt_file",
        "entrants",
        "price_list",
        "match_list",
        "judging_estimate",
        "judge_replies",
        "judge_controls",
        "judge_drift",
        "judge_retest",
        "judge_agreement",
        "judge_verdicts",
        "elo_traces",
        "elo_ratings",
        "bradley_terry_ratings",
        "model_comparison",
        "style_control",
        "trust_panel",
        "win_rates",
        "battles",
        "audit",
        "prompt_audit",
        "fair_comparison",
        "leaderboard",
        "report",
        "run_artifacts",
        "run_comparison",
    }
    tournaments = ("ablation", "demo", "tournament1")
    assert keys == {f"{tid}/{name}" for tid in tournaments for name in names}


def test_every_asset_says_what_it_is_and_belongs_to_a_stage(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert len(node.description or "") > 40, key
        assert node.group_name.startswith(f"{key.path[0]}_"), key


def test_generation_and_judging_run_in_their_pools(definitions: dg.Definitions) -> None:
    pools = {
        name: definitions.resolve_assets_def(dg.AssetKey(["demo", name])).op.pool
        for name in ("entrant_responses", "judge_replies", "match_list")
    }
    assert pools == {"entrant_responses": "gpu", "judge_replies": "judge", "match_list": None}


def test_secrets_are_named_and_not_copied_into_resources() -> None:
    address = "https://ada:sk-secret-2@gateway.example"
    loaded = load_project(ROOT, {"ANTHROPIC_API_KEY": "sk-secret-1", "ANTHROPIC_BASE_URL": address})
    judge = (loaded.resources or {})["judge"]
    assert "sk-secret" not in repr(judge)
    assert judge.variables["ANTHROPIC_API_KEY"] == dg.EnvVar("ANTHROPIC_API_KEY")
    assert judge.variables["ANTHROPIC_BASE_URL"] == dg.EnvVar("ANTHROPIC_BASE_URL")


def test_every_broken_config_is_named_at_once(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    configs = project.folder / "configs"
    (configs / "twin.yaml").write_text(project.config_path.read_text())
    (configs / "broken.yaml").write_text("tournament_id: [\n")
    with pytest.raises(InputError) as caught:
        load_project(project.folder, {})
    assert len(caught.value.problems) == 2
    assert "broken.yaml:2" in str(caught.value)
    assert "tournament_id 'small' is already used" in str(caught.value)


def test_a_folder_without_configs_says_where_to_start(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="set TOURNAMENT_PROJECT"):
        load_project(tmp_path, {})
