"""Policies as TOML files: every setting with its meaning, and what is written reads back the same."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from predictor.errors import ArgumentError, FormatError
from predictor.scheduling.policy import Policy
from predictor.scheduling.policy_file import policy_toml, read_policy, settings_of
from predictor.scheduling.presets import PRESETS
from predictor.scheduling.quota import Quota
from predictor.simulation.policies import contenders

_PAGE = Path(__file__).parents[4] / "docs" / "reference" / "policy.md"


def test_every_setting_says_what_it_means() -> None:
    assert [each.path for each in settings_of(Policy()) if not each.meaning] == []


@pytest.mark.parametrize("name", PRESETS)
def test_a_written_policy_reads_back_the_same(name: str, tmp_path: Path) -> None:
    chosen = replace(PRESETS[name], quotas=(Quota(team='a "team"\\b', units=4, pool="gpu"),))
    path = tmp_path / "policy.toml"
    path.write_text(policy_toml(chosen), encoding="utf-8")
    assert read_policy(path) == chosen


def test_a_changed_setting_shows_its_default() -> None:
    text = policy_toml(PRESETS["conservative"])
    assert "# (default: 1)\nheads = 1000000000" in text
    assert '# (default: 100000.0)\nguard_s = "inf"' in text


def test_a_file_names_all_its_faults(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('[reserve]\nhead = 1\ndepth = "deep"\nheads = -1\n[plam]\n[[quotas]]\nunits = "all"\n')
    with pytest.raises(ArgumentError) as told:
        read_policy(path)
    kinds = (
        "reserve.head is not",
        "reserve.depth='deep'",
        "reserve.heads=-1",
        "plam is not",
        "units='all'",
        "team is",
    )
    assert [sum(kind in fault for fault in told.value.faults) for kind in kinds] == [1] * len(kinds)
    assert len(told.value.faults) == len(kinds)
    path.write_text("[reserve")
    with pytest.raises(FormatError, match=re.escape(str(path))):
        read_policy(path)


@pytest.mark.parametrize(
    ("source", "knows"), [("forecast", "forecast"), ("estimate", "recent"), ("limit", "limit")]
)
def test_a_file_competes_and_is_told_what_it_plans_with(source: str, knows: str, tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(f'[plan]\nsource = "{source}"\n')
    _, file = contenders(f"easy,{path}:reserve.heads=3")
    assert (file.policy.plan.source, file.policy.reserve.heads, file.knows) == (source, 3, knows)


def test_the_page_shows_the_default_policy() -> None:
    assert f"```toml\n{policy_toml(Policy())}```" in _PAGE.read_text(encoding="utf-8")
