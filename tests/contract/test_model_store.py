"""This module holds every model store to its contract: atomic publishing, aliases, roll-back."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from predictor.errors import ArgumentError, BundleCorruptError, BundleMissingError
from predictor.forecasting.store import FileModelStore

MakeStore = Callable[[], FileModelStore]


def verify(directory: Path, expected_digest: str | None) -> str:
    path = directory / "manifest.json"
    if not path.is_file():
        raise BundleCorruptError(f"'{directory}' has no manifest")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if expected_digest not in (None, digest):
        raise BundleCorruptError("altered")
    return digest


@pytest.fixture
def store(tmp_path: Path) -> FileModelStore:
    return FileModelStore(tmp_path / "store", verify=verify)


def publish(store: FileModelStore, version: str, content: str = "") -> None:
    staged = store.staging(version)
    (staged / "manifest.json").write_text(content or version)
    store.publish(staged, version)


def named(store: FileModelStore) -> dict[str, str]:
    return {name: ref.version for name, ref in store.aliases().items()}


def test_an_empty_store_has_no_versions_and_no_aliases(store: FileModelStore) -> None:
    assert store.versions() == ()
    assert store.aliases() == {}
    with pytest.raises(BundleMissingError, match="no version is champion"):
        store.resolve("champion")


def test_a_published_version_resolves_with_its_digest(store: FileModelStore) -> None:
    publish(store, "v1")
    store.promote("v1")
    ref = store.resolve("champion")
    assert (ref.version, ref.directory.name) == ("v1", "v1")
    assert ref.digest == hashlib.sha256(b"v1").hexdigest()
    stored = json.loads((store.root / "aliases.json").read_text())
    assert stored == {"champion": {"version": "v1", "digest": ref.digest}}


def test_publishing_leaves_nothing_in_staging(store: FileModelStore) -> None:
    publish(store, "v1")
    assert not list((store.root / ".staging").iterdir())


def test_publishing_the_same_bundle_twice_changes_nothing(store: FileModelStore) -> None:
    publish(store, "v1")
    publish(store, "v1")
    assert store.versions() == ("v1",)


def test_a_version_is_never_overwritten(store: FileModelStore) -> None:
    publish(store, "v1")
    with pytest.raises(ArgumentError, match="another content"):
        publish(store, "v1", content="other")
    assert (store.root / "v1" / "manifest.json").read_text() == "v1"


def test_a_bundle_that_cannot_be_read_is_not_published(store: FileModelStore) -> None:
    with pytest.raises(BundleCorruptError):
        store.publish(store.staging("v1"), "v1")
    assert store.versions() == ()


@pytest.mark.parametrize("name", ["", ".hidden", "../v1", "a/b", "v 1", "x" * 101])
def test_a_version_that_is_no_plain_name_is_refused(store: FileModelStore, name: str) -> None:
    with pytest.raises(ArgumentError, match="is no version"):
        store.staging(name)


def test_promoting_makes_the_champion_previous(store: FileModelStore) -> None:
    for version in ("v1", "v2"):
        publish(store, version)
        store.promote(version)
    assert named(store) == {"champion": "v2", "previous": "v1"}


def test_promoting_the_champion_again_keeps_the_previous_one(store: FileModelStore) -> None:
    for version in ("v1", "v2", "v2"):
        publish(store, version)
        store.promote(version)
    assert named(store) == {"champion": "v2", "previous": "v1"}


def test_promoting_the_challenger_removes_that_alias(store: FileModelStore) -> None:
    publish(store, "v1")
    publish(store, "v2")
    store.set_aliases(champion="v1", challenger="v2")
    store.promote("v2")
    assert named(store) == {"champion": "v2", "previous": "v1"}


def test_rollback_swaps_champion_and_previous(store: FileModelStore) -> None:
    for version in ("v1", "v2"):
        publish(store, version)
        store.promote(version)
    store.rollback()
    assert named(store) == {"champion": "v1", "previous": "v2"}
    store.rollback()
    assert named(store) == {"champion": "v2", "previous": "v1"}


def test_rollback_without_a_previous_version_says_so(store: FileModelStore) -> None:
    publish(store, "v1")
    store.promote("v1")
    with pytest.raises(BundleMissingError, match="no previous version"):
        store.rollback()
    assert named(store) == {"champion": "v1"}


def test_rollback_leaves_a_champion_that_is_broken(store: FileModelStore) -> None:
    for version in ("v1", "v2"):
        publish(store, version)
        store.promote(version)
    (store.root / "v2" / "manifest.json").unlink()
    store.rollback()
    assert named(store) == {"champion": "v1", "previous": "v2"}


def test_an_altered_bundle_cannot_become_champion(store: FileModelStore) -> None:
    for version in ("v1", "v2"):
        publish(store, version)
        store.promote(version)
    (store.root / "v1" / "manifest.json").write_text("altered")
    with pytest.raises(BundleCorruptError):
        store.rollback()
    with pytest.raises(BundleCorruptError):
        store.verify("v1")
    assert named(store) == {"champion": "v2", "previous": "v1"}


def test_an_unknown_version_cannot_become_champion(store: FileModelStore) -> None:
    publish(store, "v1")
    with pytest.raises(BundleMissingError, match="published: v1"):
        store.promote("v9")
    with pytest.raises(ArgumentError, match="is no alias"):
        store.set_aliases(winner="v1")


def test_all_aliases_change_together_or_not_at_all(store: FileModelStore) -> None:
    publish(store, "v1")
    with pytest.raises(BundleMissingError):
        store.set_aliases(champion="v1", previous="v9")
    assert store.aliases() == {}


def test_setting_the_same_aliases_again_writes_nothing(store: FileModelStore) -> None:
    publish(store, "v1")
    store.set_aliases(champion="v1")
    before = (store.root / "aliases.json").stat().st_ino
    store.set_aliases(champion="v1")
    assert (store.root / "aliases.json").stat().st_ino == before


def test_a_damaged_alias_file_is_reported_as_such(store: FileModelStore) -> None:
    publish(store, "v1")
    (store.root / "aliases.json").write_text("{")
    with pytest.raises(BundleCorruptError, match="alias file"):
        store.resolve("champion")


def test_pruning_keeps_the_newest_and_every_aliased_version(store: FileModelStore) -> None:
    for version in ("v1", "v2", "v3", "v4", "v5"):
        publish(store, version)
    store.set_aliases(champion="v1")
    assert store.prune(3) == ("v2", "v3")
    assert store.versions() == ("v1", "v4", "v5")


def test_concurrent_promotions_lose_no_alias(store: FileModelStore) -> None:
    names = [f"v{at}" for at in range(8)]
    for version in names:
        publish(store, version)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(store.promote, names))
    assert len({ref.version for ref in store.aliases().values()}) == 2


def test_a_kill_at_any_moment_leaves_whole_versions_and_whole_aliases(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import hashlib, itertools, sys
        from pathlib import Path
        from predictor.forecasting.store import FileModelStore
        verify = lambda path, expected: hashlib.sha256((path / "manifest.json").read_bytes()).hexdigest()
        store = FileModelStore(Path(sys.argv[1]), verify=verify)
        for at in itertools.count(int(sys.argv[2])):
            staged = store.staging(f"v{at:06}")
            (staged / "part.bin").write_bytes(b"x" * 200_000)
            (staged / "manifest.json").write_text(str(at))
            store.publish(staged, f"v{at:06}")
            store.promote(f"v{at:06}")
            store.prune(3)
            print(at, flush=True)
        """
    )
    store = FileModelStore(tmp_path / "store", verify=verify)
    start = 0
    for extra in range(5):
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(store.root), str(start)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for _ in range(3 + extra):
            start = int(child.stdout.readline()) + 1
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
        start = max([start, *(int(version[1:]) + 1 for version in store.versions())])
        champion = store.resolve("champion")
        assert store.verify(champion.version).digest == champion.digest
        assert all(
            (store.root / version / "part.bin").stat().st_size == 200_000 for version in store.versions()
        )
        assert not list(store.root.glob(".aliases.json.*")) or store.aliases()
