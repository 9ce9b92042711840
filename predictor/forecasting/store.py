"""This module keeps published model bundles and the aliases that say which of them serves.

::

    <root>/<version>/...        one bundle, never changed after it was published
    <root>/aliases.json         {"champion": {"version": ..., "digest": ...}, "previous": {...}, ...}
    <root>/.staging/<version>/  a bundle in the making

A bundle appears by one rename and all aliases change by one rename, so that a reader, or a crash, at any
moment sees the old state or the new one, whole. The digest beside an alias is that of the bundle's
manifest; who loads the bundle checks it.
"""

import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from predictor.errors import ArgumentError, BundleCorruptError, BundleMissingError

CHAMPION, PREVIOUS, CHALLENGER = "champion", "previous", "challenger"
ALIASES = (CHAMPION, PREVIOUS, CHALLENGER)
Verifier = Callable[[Path, str | None], str]
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_ALIAS_FILE = "aliases.json"
_STAGING = ".staging"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """One published bundle: its version, the digest of its manifest, and where it lies."""

    version: str
    digest: str
    directory: Path


def verify_bundle(directory: Path, expected_digest: str | None) -> str:
    """Read a whole bundle, check every digest, and return that of its manifest."""
    from predictor.forecasting.bundle import read_bundle  # noqa: PLC0415  (LightGBM loads only when needed)

    return str(read_bundle(directory, expected_digest=expected_digest).info.digest)


class FileModelStore:
    """Versions of one model in a folder, with the aliases champion, previous and challenger.

    Args:
        root: folder of the store; it is made when something is first written.
        verify: reads a bundle and returns its digest; raises BundleError where it cannot be used.

    Notes:
        Writers of aliases exclude each other by a file lock; readers never wait. All files must lie on
        one local file system, as renames are atomic only there.
    """

    def __init__(self, root: Path, *, verify: Verifier = verify_bundle) -> None:
        self.root = root
        self._verify = verify

    def versions(self) -> tuple[str, ...]:
        """Return the published versions in the order of their names."""
        if not self.root.is_dir():
            return ()
        return tuple(sorted(p.name for p in self.root.iterdir() if p.is_dir() and _VERSION.fullmatch(p.name)))

    def directory(self, version: str) -> Path:
        """Return the folder of a published version.

        Raises:
            BundleMissingError: there is no such version.
        """
        if not _VERSION.fullmatch(version) or not (self.root / version).is_dir():
            known = ", ".join(self.versions()) or "none"
            raise BundleMissingError(f"there is no version '{version}' in '{self.root}'; published: {known}")
        return self.root / version

    def aliases(self) -> dict[str, ModelRef]:
        """Return the aliases that are set.

        Raises:
            BundleCorruptError: the alias file cannot be read.
        """
        path = self.root / _ALIAS_FILE
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            return {
                str(name): ModelRef(
                    version=str(entry["version"]), digest=str(entry["digest"]),
                    directory=self.root / str(entry["version"]),
                )
                for name, entry in stored.items()
            }  # fmt: skip
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BundleCorruptError(
                f"the alias file '{path}' cannot be read ({error}); remove it and promote a version anew"
            ) from error

    def resolve(self, alias: str) -> ModelRef:
        """Return the bundle that an alias names.

        Raises:
            BundleMissingError: the alias is not set, or its bundle is gone.
        """
        found = self.aliases().get(alias)
        if found is None:
            raise BundleMissingError(
                f"no version is {alias} in '{self.root}'; train one with 'predictor retrain' "
                f"or name one with 'predictor models promote VERSION'"
            )
        self.directory(found.version)
        return found

    def verify(self, version: str) -> ModelRef:
        """Read a version and check all its digests, against the alias record too where it has one.

        Raises:
            BundleError: the bundle is missing, altered or unreadable.
        """
        directory = self.directory(version)
        recorded = {ref.digest for ref in self.aliases().values() if ref.version == version}
        digest = self._verify(directory, next(iter(recorded)) if recorded else None)
        return ModelRef(version=version, digest=digest, directory=directory)

    def staging(self, version: str) -> Path:
        """Return an empty folder inside the store to write a bundle into; leftovers of a crash go."""
        _check_version(version)
        path = self.root / _STAGING / version
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def publish(self, staged_dir: Path, version: str) -> ModelRef:
        """Make a staged bundle a version: verify it, force it to disk, rename it into place.

        Publishing the same bundle under the same version again changes nothing.

        Raises:
            BundleError: the staged bundle cannot be used.
            ArgumentError: the version is no name, or names another bundle already.
        """
        _check_version(version)
        digest = self._verify(staged_dir, None)
        final = self.root / version
        if final.exists():
            if self._verify(final, None) != digest:
                raise ArgumentError(f"version '{version}' is published already with another content")
            shutil.rmtree(staged_dir)
        else:
            sync_tree(staged_dir)
            final.parent.mkdir(parents=True, exist_ok=True)
            staged_dir.rename(final)
            _sync(self.root)
        return ModelRef(version=version, digest=digest, directory=final)

    def set_aliases(self, **versions: str | None) -> dict[str, ModelRef]:
        """Point aliases at versions, all in one atomic step; None removes an alias, others stay.

        Raises:
            ArgumentError: a name is no alias.
            BundleError: a version cannot be used; no alias has changed.
        """
        unknown = sorted(set(versions) - set(ALIASES))
        if unknown:
            raise ArgumentError(f"'{unknown[0]}' is no alias; known are {', '.join(ALIASES)}")
        with self._exclusive():
            return self._change(versions)

    def promote(self, version: str, *, retire_challenger: bool = False) -> dict[str, ModelRef]:
        """Make a version champion and the champion previous; promoting the champion changes nothing.

        Args:
            retire_challenger: remove that alias too; without it only where the challenger is promoted.
        """
        self.directory(version)
        with self._exclusive():
            now = self.aliases()
            if CHAMPION in now and now[CHAMPION].version == version:
                return now
            changes: dict[str, str | None] = {CHAMPION: version}
            if CHAMPION in now:
                changes[PREVIOUS] = now[CHAMPION].version
            elif PREVIOUS in now and now[PREVIOUS].version == version:
                changes[PREVIOUS] = None
            if CHALLENGER in now and (retire_challenger or now[CHALLENGER].version == version):
                changes[CHALLENGER] = None
            return self._change(changes, check=(CHAMPION,))

    def rollback(self) -> dict[str, ModelRef]:
        """Swap champion and previous.

        Raises:
            BundleMissingError: there is no previous version.
            BundleError: the previous version cannot be used; no alias has changed.
        """
        with self._exclusive():
            now = self.aliases()
            if PREVIOUS not in now:
                raise BundleMissingError(
                    f"there is no previous version in '{self.root}' to go back to; "
                    f"published: {', '.join(self.versions()) or 'none'}; name one with "
                    f"'predictor models promote'"
                )
            changes: dict[str, str | None] = {CHAMPION: now[PREVIOUS].version, PREVIOUS: None}
            if CHAMPION in now:
                changes[PREVIOUS] = now[CHAMPION].version
            return self._change(changes, check=(CHAMPION,))

    def prune(self, keep: int) -> tuple[str, ...]:
        """Remove all but the last ``keep`` versions, never one with an alias; return those removed."""
        with self._exclusive():
            aliased = {ref.version for ref in self.aliases().values()}
            free = [version for version in self.versions() if version not in aliased]
            removed = tuple(free[: max(0, len(free) - max(0, keep - len(aliased)))])
            for version in removed:
                trash = self.staging(version)
                (self.root / version).rename(trash / "removed")  # gone at once, also if removing is cut short
                shutil.rmtree(trash, ignore_errors=True)
        return removed

    def _change(
        self, versions: dict[str, str | None], check: tuple[str, ...] = ALIASES
    ) -> dict[str, ModelRef]:
        """Write the alias file; versions under the names in ``check`` are read and verified first."""
        now = self.aliases()
        known = {ref.version: ref for ref in now.values()}
        wanted = dict(now)
        for name, version in versions.items():
            if version is None:
                wanted.pop(name, None)
            elif name not in check and version in known:  # an alias moves: the record of its digest stays
                wanted[name] = known[version]
            else:
                wanted[name] = self.verify(version)
        if wanted != now:
            self._write({name: wanted[name] for name in ALIASES if name in wanted})
        return wanted

    def _write(self, refs: dict[str, ModelRef]) -> None:
        text = json.dumps(
            {name: {"version": ref.version, "digest": ref.digest} for name, ref in refs.items()}, indent=2
        )
        handle, temporary = tempfile.mkstemp(dir=self.root, prefix=f".{_ALIAS_FILE}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o644)
            Path(temporary).replace(self.root / _ALIAS_FILE)
        finally:
            Path(temporary).unlink(missing_ok=True)
        _sync(self.root)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # released when the file closes, also by a kill
            yield


def _check_version(version: str) -> None:
    if not _VERSION.fullmatch(version):
        raise ArgumentError(
            f"'{version}' is no version; use letters, digits, '.', '_', '+' and '-', at most 100 characters"
        )


def sync_tree(directory: Path) -> None:
    """Force all files of a folder to disk."""
    for path in directory.rglob("*"):
        _sync(path)
    _sync(directory)


def _sync(path: Path) -> None:
    """Force a file, or the names in a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
