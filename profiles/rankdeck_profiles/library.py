"""The user's saved profiles and pools: `$RANKDECK_CONFIG` and the nearest `.rankdeck/` folder."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rankdeck_profiles import paths, source
from rankdeck_profiles.errors import PoolError, ProfileError, RankdeckError

if TYPE_CHECKING:
    from rankdeck_profiles.model import Pool, Profile
    from rankdeck_profiles.overrides import Override

FOLDER = ".rankdeck"
"""The folder in a user's own repository, found by walking up as git does."""

PROFILES = "profiles"
POOLS = "pools"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
_Value = TypeVar("_Value", "Profile", "Pool")


class Broken(NamedTuple):
    """A file of the library that cannot be used."""

    kind: str
    """`profiles` or `pools`."""
    name: str
    path: Path
    error: RankdeckError


class Contents(NamedTuple):
    """Everything saved, as it was at one moment."""

    profiles: tuple[Profile, ...]
    pools: tuple[Pool, ...]
    broken: tuple[Broken, ...]


class Library:
    """Saved profiles and pools. Reads the disk at each call: files are few and edited by hand."""

    def __init__(
        self,
        config_dir: str | os.PathLike[str] | None = None,
        start_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.start_dir = Path(start_dir if start_dir is not None else os.getcwd()).absolute()
        """Where the command was started: the search for `.rankdeck` begins here; the default workdir."""
        self.config_dir = Path(config_dir if config_dir is not None else paths.config_dir())

    def folders(self, kind: str) -> tuple[Path, ...]:
        """The folders that are looked in, the nearest first.

        Args:
            kind: `PROFILES` or `POOLS`.
        """
        roots = []
        for folder in (self.start_dir, *self.start_dir.parents):
            if (folder / FOLDER).is_dir():
                roots.append(folder / FOLDER)
                break
        if self.config_dir not in roots:
            roots.append(self.config_dir)
        return tuple(root / kind for root in roots)

    def paths(self, kind: str) -> dict[str, Path]:
        """Names and files of one kind, by name; the nearer folder wins."""
        found: dict[str, Path] = {}
        for folder in reversed(self.folders(kind)):
            try:
                names = sorted(os.listdir(folder))
            except OSError:
                continue
            found.update({name.removesuffix(".toml"): folder / name for name in names if _is_entry(name)})
        return dict(sorted(found.items()))

    def profiles(self) -> tuple[Profile, ...]:
        """The profiles that can be read, by name."""
        return self._read(PROFILES, self._load_profile)[0]

    def pools(self) -> tuple[Pool, ...]:
        """The pools that can be read, by name."""
        return self._read(POOLS, _load_pool)[0]

    def broken(self) -> tuple[Broken, ...]:
        """The files that cannot be used, each with its error. They hide farther files of their name, too."""
        return self.contents().broken

    def contents(self) -> Contents:
        """What `profiles`, `pools` and `broken` give, with each file read once."""
        profiles, broken_profiles = self._read(PROFILES, self._load_profile)
        pools, broken_pools = self._read(POOLS, _load_pool)
        return Contents(profiles, pools, broken_profiles + broken_pools)

    def profile(self, name_or_path: str, overrides: Sequence[Override | str] = ()) -> Profile:
        """One profile.

        Args:
            name_or_path: a saved profile's name, or a path to a TOML file (with a `/` in it, or ending in
                `.toml`).
            overrides: `a.b=VALUE`, put on top before checking.

        Raises:
            ProfileError: there is none, or it is wrong.
        """
        if is_path(name_or_path):
            return _load_profile_file(self._given(name_or_path), overrides)
        path = self._find(PROFILES, name_or_path, ProfileError)
        return _load_profile_file(path, overrides, base=self.start_dir)

    def pool(self, name_or_path: str | None = None) -> Pool:
        """One pool.

        Args:
            name_or_path: as for `profile`. None, or `local` where no file has that name: this machine, one
            node.

        Raises:
            PoolError: there is none, or it is wrong.
        """
        from rankdeck_profiles import pools

        if name_or_path is None:
            return pools.local_pool()
        if is_path(name_or_path):
            return _load_pool(self._given(name_or_path))
        if name_or_path == pools.LOCAL and name_or_path not in self.paths(POOLS):
            return pools.local_pool()
        return _load_pool(self._find(POOLS, name_or_path, PoolError))

    def pool_for(self, profile: Profile, name_or_path: str | None = None) -> Pool:
        """The pool a profile runs on.

        Args:
            profile: may name one.
            name_or_path: takes precedence.

        Raises:
            PoolError: there is none, or it is wrong; the message says that the profile asked for it.
        """
        if name_or_path is not None or profile.pool is None:
            return self.pool(name_or_path)
        try:
            return self.pool(profile.pool)
        except PoolError as error:
            where = f"profile '{profile.name}', pool = \"{profile.pool}\""
            hint = f"{error.hint}\n  the profile is {profile.source}" if profile.source else error.hint
            raise PoolError(f"{where}: {error.message}", hint) from None

    def new_path(self, kind: str, name: str) -> Path:
        """The file a new profile or pool of that name goes to: in the config folder.

        Raises:
            ProfileError, PoolError: the name cannot be a file's, or is taken.
        """
        error = ProfileError if kind == PROFILES else PoolError
        if not _NAME.fullmatch(name) or name.endswith(".toml"):
            raise error(
                f"'{name}' is no name for a file in {kind}/",
                "allowed: letters, digits, _ . and -, such as resnet-50",
            )
        taken = self.paths(kind).get(name)
        if taken is not None:
            raise error(f"'{name}' is there already: {taken}", "choose another name, or remove that one")
        return self.config_dir / kind / f"{name}.toml"

    def path(self, kind: str, name: str) -> Path:
        """The file of a saved profile or pool.

        Raises:
            ProfileError, PoolError: there is none.
        """
        return self._find(kind, name, ProfileError if kind == PROFILES else PoolError)

    def copy(self, kind: str, name: str, new_name: str) -> Path:
        """Copy a saved file as it is, comments and all.

        Returns:
            The new file.

        Raises:
            ProfileError, PoolError: there is no such file, or the new name is taken or no name.
        """
        from rankdeck_profiles import edit

        found = self.path(kind, name)
        target = self.new_path(kind, new_name)
        try:
            data = source.content(found, -1)
        except OSError as problem:
            error = ProfileError if kind == PROFILES else PoolError
            raise error(f"{found}: cannot be read: {problem.strerror}") from None
        edit.create(target, data)
        return target

    def remove(self, kind: str, name: str) -> Path:
        """Delete a saved file.

        Returns:
            The file that was deleted.

        Raises:
            ProfileError, PoolError: there is no such file, or it cannot be deleted.
        """
        path = self.path(kind, name)
        try:
            path.unlink()
        except OSError as problem:
            raise (ProfileError if kind == PROFILES else PoolError)(f"{path}: {problem.strerror}") from None
        return path

    def _load_profile(self, path: Path) -> Profile:
        return _load_profile_file(path, base=self.start_dir)

    def _given(self, path: str) -> Path:
        return self.start_dir / os.path.expanduser(path)

    def _read(
        self, kind: str, load: Callable[[Path], _Value]
    ) -> tuple[tuple[_Value, ...], tuple[Broken, ...]]:
        found, broken = [], []
        for name, path in self.paths(kind).items():
            try:
                found.append(load(path))
            except RankdeckError as error:
                broken.append(Broken(kind, name, path, error))
        return tuple(found), tuple(broken)

    def _find(self, kind: str, name: str, error: type[RankdeckError]) -> Path:
        known = self.paths(kind)
        if name in known:
            return known[name]
        from rankdeck_profiles import pools

        near = difflib.get_close_matches(name, known, n=1)
        looked = " and ".join(str(folder) for folder in self.folders(kind))
        names = list(known) + ([pools.LOCAL] if kind == POOLS and pools.LOCAL not in known else [])
        hint = f"known: {', '.join(names) or 'none'}; looked in {looked}"
        if kind == PROFILES and (name == pools.LOCAL or name in self.paths(POOLS)):
            hint = f"a pool has that name: --pool {name}\n  {hint}"
        raise error(
            f"no {kind.removesuffix('s')} named '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""),
            hint,
        )


def is_path(text: str) -> bool:
    """Whether a command line's PROFILE or pool is a path rather than a saved name."""
    return "/" in text or text.endswith(".toml")


def _is_entry(name: str) -> bool:
    return name.endswith(".toml") and not name.startswith(".") and len(name) > len(".toml")


# Reading and checking a file takes parsers that a start without any should not pay for.


def _load_pool(path: Path) -> Pool:
    from rankdeck_profiles import files

    return files.load_pool(path)


def _load_profile_file(
    path: Path, overrides: Sequence[Override | str] = (), *, base: Path | None = None
) -> Profile:
    from rankdeck_profiles import files

    return files.load_profile(path, overrides, base=base)
