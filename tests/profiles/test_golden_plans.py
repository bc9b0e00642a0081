"""Each framework's plan is the reviewed file in golden/."""

import json

import golden_plans
import pytest

from rankdeck_profiles import frameworks
from rankdeck_profiles.plan import LaunchPlan

WANTED = golden_plans.wanted()


@pytest.mark.parametrize("name", sorted(WANTED))
def test_the_plan_is_the_reviewed_one(name):
    path = golden_plans.FOLDER / name
    assert path.exists(), "write it: python tests/profiles/golden_plans.py --write"
    assert json.loads(path.read_text()) == WANTED[name]


def test_there_is_no_file_that_nothing_makes():
    there = {str(path.relative_to(golden_plans.FOLDER)) for path in golden_plans.FOLDER.rglob("*.json")}
    assert there == set(WANTED)


@pytest.mark.parametrize("name", sorted(name for name in WANTED if "refused" not in WANTED[name]))
def test_every_plan_survives_json_and_places_each_rank_once(name):
    made = LaunchPlan.from_json(WANTED[name])
    assert made.to_json() == WANTED[name]
    placed = [rank for node in made.nodes for rank in node.ranks]
    assert placed == list(range(made.world_size))
    started = [rank for node in made.nodes for process in node.processes for rank in process.ranks]
    assert started == placed
    for node in made.nodes:
        for process in node.processes:
            assert set(process.env) <= set(made.reasons)
            assert not {"SLURM_CPU_BIND"} & set(process.env)
        assert set(node.rank_env) <= set(made.reasons)
    assert [v.name for v in made.nodes[0].env_removed] == ["LOCAL_RANK", "SLURM_CPU_BIND"]


def test_uneven_nodes_are_refused_just_where_the_framework_cannot_have_them():
    refused = {name.partition("/")[0] for name in WANTED if "refused" in WANTED[name]}
    assert refused == {"torchrun", "transformers", "accelerate", "launch", "lightning"}
    assert all(name.endswith("uneven.json") for name in WANTED if "refused" in WANTED[name])


def test_every_framework_says_when_to_choose_it():
    summaries = frameworks.summaries()
    assert set(summaries) == set(frameworks.names())
    assert all(text and "\n" not in text and len(text) < 120 for text in summaries.values())
