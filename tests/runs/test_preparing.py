"""A launch that finds its port taken by another one looks again."""

from dataclasses import replace

import pytest

from rankdeck_profiles.model import Profile
from rankdeck_runs import preparing
from rankdeck_runs.errors import PrepareError

PROFILE = Profile("p", "pytorch", script="t.py")
TAKEN = [("n1", "port 29500 on n1 is in use [port.free]")]


@pytest.mark.parametrize(
    ("profile", "problems", "tries"),
    [
        (PROFILE, TAKEN, 3),
        (replace(PROFILE, master_port=29500), TAKEN, 1),
        (PROFILE, [*TAKEN, ("n2", "no torch [sw.torch]")], 1),
    ],
)
async def test_only_a_port_that_was_free_is_looked_for_again(monkeypatch, profile, problems, tries):
    told, asked = [], []

    async def refused(*_, **__):
        asked.append(1)
        raise PrepareError(problems, "", 1)

    monkeypatch.setattr(preparing, "_prepare", refused)
    with pytest.raises(PrepareError):
        await preparing.prepare(None, profile, None, told.append)
    assert (len(asked), len(told)) == (tries, tries - 1)
