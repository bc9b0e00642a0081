"""What the commands work on: the saved profiles and pools, and the runs on record."""

from __future__ import annotations

import os

from rankdeck_profiles.paths import config_dir, data_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankdeck_profiles.library import Library
    from rankdeck_profiles.model import Pool, Profile
    from rankdeck_profiles.selection import Choice
    from rankdeck_runs.engine import Engine
    from rankdeck_runs.home import RunHome


def run_home() -> RunHome:
    """The runs on record, in `$RANKDECK_HOME` or the user's data folder."""
    from rankdeck_runs.home import RunHome

    return RunHome(data_dir())


def library() -> Library:
    """The saved profiles and pools, the user's own and those of the repository we are in."""
    from rankdeck_profiles.library import Library

    return Library(config_dir(), os.getcwd())


class engine:  # noqa: N801 - used like a function
    """The engine that talks to nodes, as a context manager. At the end it leaves them; runs go on.

    What logins need to be asked is asked on the terminal; without one, such a login fails.
    """

    def __enter__(self) -> Engine:
        from rankdeck_runs.engine import Engine
        from rankdeck_tui.cli.questions import may_ask

        asker = None
        if may_ask():
            from rankdeck_tui.cli.login_questions import TerminalAsker

            asker = TerminalAsker()
        self._engine = Engine(run_home(), asker=asker)
        return self._engine

    def __exit__(self, *_: object) -> None:
        self._engine.close()


def profile_and_pool(
    name_or_path: str, overrides: Sequence[str], pool_name: str | None, choice: Choice | None = None
) -> tuple[Profile, Pool]:
    """What the person named, read and checked.

    Args:
        name_or_path: PROFILE.
        overrides: each `--set`.
        pool_name: `--pool`, or None: the profile's own pool, and without one this machine.
        choice: what of the pool is used; the profile's own counts give way to it.

    Raises:
        ProfileError, PoolError: there is none, or it says something that cannot be.
    """
    saved = library()
    profile = saved.profile(name_or_path, overrides)
    recorded = _recorded_pool(profile) if pool_name is None else None
    pool = recorded if recorded is not None else saved.pool_for(profile, pool_name)
    if not choice:
        return profile, pool
    from rankdeck_profiles.selection import fitted, select

    chosen = select(pool, choice)
    typed = {text.partition("=")[0].strip() for text in overrides}
    return fitted(profile, choice, pool, chosen, typed), chosen


def _recorded_pool(profile: Profile) -> Pool | None:
    """The pool that a run's own run.toml was launched on, so that it is repeated on the same nodes."""
    from rankdeck_runs import layout

    if profile.source is None or profile.source.name != layout.RUN_TOML:
        return None
    beside = profile.source.with_name(layout.POOL_TOML)
    if not beside.exists():
        return None
    from rankdeck_profiles.files import load_pool

    return load_pool(beside)
