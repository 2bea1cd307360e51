"""Arrays that others wrote: whatever zarr-python opens and reads, zarrow reads equal, or refuses.

They lie in `../shared/data`, a folder beside the checkout; the tests skip where it is absent.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fixed_width
import numpy as np
import objects
import oracle
import pytest
import zarr
import zarrow
from numcodecs.errors import UnknownCodecError

pytestmark = pytest.mark.filterwarnings(
    "ignore::zarr.errors.ZarrUserWarning",
    "ignore::zarr.errors.UnstableSpecificationWarning",
    "ignore::UserWarning",
    "ignore::FutureWarning",
)

RANDOM_BOXES = 20


def names_in(metadata: Any) -> Iterator[str]:
    """The names of all codecs anywhere in metadata of either format, without a prefix."""
    if isinstance(metadata, dict):
        name = metadata.get("name") or metadata.get("id")
        if isinstance(name, str):
            yield name.removeprefix("numcodecs.")
        for value in metadata.values():
            yield from names_in(value)
    elif isinstance(metadata, list):
        for value in metadata:
            yield from names_in(value)


def is_variable(metadata: Any) -> bool:
    """Whether elements are text or bytes of variable length."""
    return any(name.startswith("vlen-") for name in names_in(metadata))


@dataclass
class Survey:
    """What became of each metadata document of a folder."""

    read: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    groups: int = 0

    def folder(self, folder: Path) -> Survey:
        """Try every array below a folder."""
        for document in sorted(folder.rglob("*")):
            if document.name in ("zarr.json", ".zarray") and document.is_file():
                self.document(document, document.relative_to(folder).as_posix())
        return self

    def document(self, document: Path, name: str) -> None:
        """Try the array of one metadata document, as zarr-python opens it in that very format."""
        metadata = json.loads(document.read_text())
        if metadata.get("node_type") == "group":
            self.groups += 1
            with pytest.raises((zarrow.MetadataError, zarrow.NotFoundError)):
                zarrow.open_array(document.parent)
            return
        zarr_format: Any = 3 if document.name == "zarr.json" else 2
        source: Any = document.parent
        values: Any = None
        try:
            source = zarr.open_array(source, mode="r", zarr_format=zarr_format)
            values = np.asarray(source[...])
        except Exception as error:  # noqa: BLE001
            values = error
        dtype = values.dtype.name if isinstance(values, np.ndarray) else "nothing"
        if dtype in oracle.ARROW_TYPES:
            self.equal(source, values.astype(dtype), name)
        elif dtype.startswith(("datetime64[", "timedelta64[")):
            self.times(source, values, name)
        elif is_variable(metadata) and isinstance(values, np.ndarray):
            self.variable(source, values, name)
        elif dtype.startswith(("str", "bytes", "void")):
            values = values.astype(values.dtype.newbyteorder("="))
            leaf = fixed_width.leaf_of(zarrow.read_ragged(source, [...]), values.ndim)
            fixed_width.assert_values(leaf, values.reshape(-1))
            self.read.append(name)
        elif (
            isinstance(metadata.get("data_type"), dict)
            and "optional" in metadata["data_type"]["name"]
        ):
            self.optional(document.parent, metadata, name)
        elif isinstance(values, UnknownCodecError):
            self.skipped[name] = f"zarr-python's extra is not installed: {values}"
        else:
            with pytest.raises((zarrow.UnsupportedError, zarrow.MetadataError)) as caught:
                zarrow.read_ragged(source, [...])
            reason = f"data type {dtype.partition('[')[0]}"
            self.refused[name] = f"{type(caught.value).__name__}: {reason}"

    def equal(self, source: Any, values: np.ndarray[Any, Any], name: str) -> None:
        """Read whole and in random boxes, from the zarr.Array and from its path."""
        random = np.random.default_rng(len(name))
        ends = np.sort(
            random.integers(0, np.array(values.shape) + 1, (RANDOM_BOXES, 2, values.ndim)), 1
        )
        boxes = [tuple(map(slice, *box)) for box in ends.tolist()]
        sources = [source]
        handle = zarrow.open_array(Path(source.store.root) / source.path)
        if handle.zarr_format == source.metadata.zarr_format:
            sources.append(handle)
        for opened in sources:
            try:
                oracle.assert_reads(zarrow.read_ragged(opened, [...]), values, [...])
                oracle.assert_reads(zarrow.read_ragged(opened, boxes), values, boxes)
                columns = zarrow.boxes(ends[:, 0], ends[:, 1])
                oracle.assert_reads(zarrow.read_ragged(opened, columns), values, boxes)
            except (AssertionError, zarrow.ZarrowError) as error:
                error.add_note(f"in {name}")
                raise
        self.read.append(name)

    def times(self, source: Any, values: np.ndarray[Any, Any], name: str) -> None:
        """Read whole; NaT is null."""
        try:
            leaf = zarrow.read_ragged(source, [...])
        except zarrow.UnsupportedError as error:
            assert "holds exactly" in str(error), name
            self.refused[name] = f"UnsupportedError: {values.dtype.name} beyond Arrow's units"
            return
        while hasattr(leaf, "values"):
            leaf = leaf.values
        expected = values.astype(f"{values.dtype.kind}8[{leaf.type.unit}]").reshape(-1)
        got = leaf.to_numpy(zero_copy_only=False)
        np.testing.assert_array_equal(got.view("i8"), expected.view("i8"), err_msg=name)
        self.read.append(name)

    def optional(self, path: Path, metadata: Any, name: str) -> None:
        """Compare with what the array's description shows: zarr-python has no such type."""
        try:
            result = zarrow.read_ragged(path, [...])
        except zarrow.UnsupportedError as error:
            assert "optional in others" in str(error), name
            self.refused[name] = "UnsupportedError: optional values that are optional"
            return
        shown = metadata["attributes"]["description"].splitlines()[2:]
        rows = [[None if word == "N" else int(word) for word in line.split()] for line in shown]
        assert result.to_pylist() == [rows], name
        self.read.append(name)

    def variable(self, source: Any, values: np.ndarray[Any, Any], name: str) -> None:
        """Read text or bytes whole and in random boxes."""
        ends = np.random.default_rng(len(name)).integers(
            0, np.array(values.shape) + 1, (RANDOM_BOXES, 2, values.ndim)
        )
        boxes = [tuple(map(slice, *box)) for box in np.sort(ends, 1).tolist()]
        for opened in (source, Path(source.store.root) / source.path):
            for selections in ([...], boxes):
                got = zarrow.read_ragged(opened, selections).to_pylist()
                assert got == objects.rows_of(values, selections), name
        self.read.append(name)

    def report(self, title: str) -> str:
        """The counts, and the reasons of refusal."""
        counts = f"{len(self.refused)} refused, {len(self.skipped)} skipped, {self.groups} groups"
        lines = [f"{title}: {len(self.read)} read, {counts}"]
        for kind in ("refused", "skipped"):
            reasons = Counter(getattr(self, kind).values()).most_common()
            lines += [f"  {count} {kind}: {reason}" for reason, count in reasons]
        return "\n".join(lines)


def check(survey: Survey, title: str, at_least: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Print what became of a folder, and assert that enough of it was read."""
    with capsys.disabled():
        print(f"\n{survey.report(title)}")
    assert len(survey.read) >= at_least


@pytest.mark.parametrize(("folder", "at_least"), [("zarrs", 66), ("zarrita-v3", 45)])
def test_folder(
    peer_data: Path, folder: str, at_least: int, capsys: pytest.CaptureFixture[str]
) -> None:
    check(Survey().folder(peer_data / folder), folder, at_least, capsys)


@pytest.mark.parametrize(
    ("archive", "at_least"),
    [
        ("anndata/v0.7.8.zarr.zip", 83),
        ("zarrita-v3/data.uncompressed.zarr.zip", 45),
        ("zarrita-v3/data.zipped_from_parent.zarr.zip", 45),
        ("zarrita-v3/data.zipped_from_within.zarr.zip", 45),
    ],
)
def test_archive(
    peer_data: Path,
    tmp_path: Path,
    archive: str,
    at_least: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with zipfile.ZipFile(peer_data / archive) as opened:
        opened.extractall(tmp_path)
    check(Survey().folder(tmp_path), archive, at_least, capsys)


def test_csr_rows_of_anndata(peer_data: Path, tmp_path: Path) -> None:
    """The rows of a sparse matrix, by its own row boundaries: two arrays, the same ranges."""
    with zipfile.ZipFile(peer_data / "anndata/v0.7.8.zarr.zip") as opened:
        opened.extractall(tmp_path)
    matrices = [p.parent for p in sorted(tmp_path.rglob("indptr")) if p.is_dir()]
    assert matrices
    for matrix in matrices:
        indptr = np.asarray(zarr.open_array(matrix / "indptr", mode="r")[...])
        ranges = zarrow.ranges(indptr[:-1], indptr[1:])
        rows = [slice(a, b) for a, b in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True)]
        for name in ("data", "indices"):
            values = np.asarray(zarr.open_array(matrix / name, mode="r")[...])
            result = zarrow.read_ragged(matrix, ranges, path=name)
            oracle.assert_reads(result, values, rows)
