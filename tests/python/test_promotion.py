"""Arrays of several data types in one call: one type, promotion that is exact, or an error."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import oracle
import pytest
import zarr
import zarrow
from arrays import Maker, random_bits
from failures import fails


def test_data_types_must_agree(make: Maker) -> None:
    """Also those of arrays that no row reads; the message says which array, and of which types."""
    one = make(dtype="int32", shape=(4,), chunks=(2,))
    for dtype in ("int64", "uint32", "float32", "bool", "complex64"):
        two = make(dtype=dtype, shape=(4,), chunks=(2,))
        for of in ([0, 1], [0, 0], [1, 1]):
            words = ("int32", dtype, two.path.name)
            with fails(zarrow.SelectionError, words=words):
                zarrow.read_ragged([one.path, two.path], [..., ...], sources=of)
            with fails(zarrow.SelectionError, words=words):
                zarrow.plan([one.path, two.path], [..., ...], sources=of)


def holds(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Whether a type holds all values of another exactly."""
    if narrow.kind == "b" or wide == narrow:
        return True
    if narrow.kind in "iu" and wide.kind in "fc":
        part = np.finfo(wide).nmant + 1
        return np.iinfo(narrow).bits - (narrow.kind == "i") <= part
    return np.can_cast(narrow, wide, "safe")


PAIRS = list(itertools.combinations_with_replacement(oracle.ARROW_TYPES, 2))


@pytest.fixture(scope="module")
def of_every_type(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The path and the values of an array of each type: extremes, and any bits."""
    folder = tmp_path_factory.mktemp("types")
    arrays = {}
    for dtype in oracle.ARROW_TYPES:
        kind = np.dtype(dtype)
        values = random_bits(dtype, 40, 3)
        if kind.kind in "iu":
            values[:2] = np.iinfo(kind).min, np.iinfo(kind).max
        if kind.kind in "fc":
            parts = values.view(f"f{kind.itemsize // (2 if kind.kind == 'c' else 1)}")
            parts[np.isnan(parts)] = np.nan  # casts may make signalling NaNs quiet
            parts[:3] = -0.0, np.inf, np.finfo(kind).max
        zarr.create_array(folder / dtype, data=values, chunks=(7,))
        arrays[dtype] = (folder / dtype, values)
    return arrays


@pytest.mark.parametrize("types", PAIRS, ids=" ".join)
def test_promotion(of_every_type: dict[str, Any], types: tuple[str, str]) -> None:
    """To NumPy's result type if that is exact, else an error that names both."""
    common = np.result_type(*types)
    for one, two in (types, types[::-1]):
        arrays = [of_every_type[one][0], of_every_type[two][0]]
        asked: dict[str, Any] = {"sources": [1, 0, 1], "promote": True}
        selections: list[Any] = [np.s_[3:30], ..., np.s_[::-1]]
        if not all(holds(common, np.dtype(dtype)) for dtype in types):
            for way in (asked, asked | {"promote": False}):
                with fails(zarrow.SelectionError, words=(*types, "separate calls")) as caught:
                    zarrow.read_ragged(arrays, selections, **way)
                assert "promote=True" not in str(caught.value)
            continue
        if one != two:
            with fails(zarrow.SelectionError, words=(*types, "promote=True", common.name)):
                zarrow.read_ragged(arrays, selections, **asked | {"promote": False})
        wholes = [of_every_type[two][1], of_every_type[one][1], of_every_type[two][1]]
        with np.errstate(all="ignore"):
            rows = [
                oracle.as_bits(whole.astype(common)[selection])
                for whole, selection in zip(wholes, selections, strict=True)
            ]
        result = zarrow.read_ragged(arrays, selections, **asked)
        oracle.assert_equal(result, oracle.expect_rows(list(rows), common.name, 1))
        planned = zarrow.plan(arrays, selections, **asked).read()
        assert oracle.values_bytes(planned) == oracle.values_bytes(result)


THREE = [
    ("int8", "uint8", "float16"),
    ("int8", "uint16", "float32"),
    ("uint32", "int8", "float64"),
    ("int16", "uint16", "complex64"),
    ("bool", "uint8", "int8"),
    ("float16", "float64", "float32"),
]


@pytest.mark.parametrize("types", THREE, ids=" ".join)
def test_promotion_of_three(of_every_type: dict[str, Any], types: tuple[str, ...]) -> None:
    """In any order: NumPy's result type is not that of pairs."""
    common = np.result_type(*types)
    assert all(holds(common, np.dtype(dtype)) for dtype in types)
    for order in itertools.permutations(types):
        arrays = [of_every_type[dtype][0] for dtype in order]
        asked = zarrow.ranges([0] * 3, [41] * 3, out_of_bounds="fill")
        zero = np.zeros((), common)
        result = zarrow.read_ragged(arrays, asked, sources=[0, 1, 2], promote=True, fill=zero)
        wholes = [np.append(of_every_type[dtype][1], zero) for dtype in order]
        rows = [oracle.as_bits(whole.astype(common)) for whole in wholes]
        oracle.assert_equal(result, oracle.expect_rows(list(rows), common.name, 1))


def test_promotion_of_nulls_and_fill_values(make: Maker) -> None:
    """Fill values are cast like all others; `fill=` is of the common type."""
    one = make(dtype="int8", shape=(3,), chunks=(2,), missing=1.0, fill_seed=3)
    two = make(dtype="float32", shape=(2,), chunks=(2,))
    arrays, own = [one.path, two.path], float(one.whole[0])
    asked: dict[str, Any] = {"sources": [0, 1], "promote": True}
    nulls = zarrow.ranges([-1, 1], [1, 3], out_of_bounds="null")
    result = zarrow.read_ragged(arrays, nulls, missing_chunks="null", **asked)
    assert result.to_pylist() == [[None, None], [float(two.whole[1]), None]]
    fills = zarrow.ranges([-1, 1], [1, 3], out_of_bounds="fill")
    result = zarrow.read_ragged(arrays, fills, **asked)
    assert result.to_pylist() == [[own, own], [float(two.whole[1]), 0.0]]
    result = zarrow.read_ragged(arrays, fills, fill=0.5, **asked)
    assert result.to_pylist() == [[0.5, own], [float(two.whole[1]), 0.5]]


def test_promotion_of_one_type_changes_no_bit(make: Maker) -> None:
    written = [make(dtype="float32", shape=(99,), chunks=(9,), seed=i) for i in range(2)]
    arrays = [each.path for each in written]
    rows = [oracle.as_bits(each.whole) for each in written]
    result = zarrow.read_ragged(arrays, [..., ...], sources=[0, 1], promote=True)
    oracle.assert_equal(result, oracle.expect_rows(list(rows), "float32", 1))


def test_promotion_of_all_triples(of_every_type: dict[str, Any]) -> None:
    """In every order: NumPy's result type where it is exact, else an error that names all."""
    handles = {dtype: zarrow.open_array(path) for dtype, (path, _) in of_every_type.items()}
    types = {dtype: oracle.arrow_type(dtype, 1) for dtype in oracle.ARROW_TYPES}
    for three in itertools.product(oracle.ARROW_TYPES, repeat=3):
        common = np.result_type(*three)
        arrays = [handles[dtype] for dtype in three]
        if all(holds(common, np.dtype(dtype)) for dtype in three):
            plan = zarrow.plan(arrays, [], sources=[], promote=True)
            assert plan.read().type.value_type == types[common.name].value_type, three
        else:
            with fails(zarrow.SelectionError, words=three):
                zarrow.plan(arrays, [], sources=[], promote=True)


def test_many_data_types_are_not_all_named(of_every_type: dict[str, Any]) -> None:
    arrays = [path for path, _ in of_every_type.values()]
    with fails(zarrow.SelectionError, words=("bool", "others")):
        zarrow.read_ragged(arrays, [], sources=[])


@pytest.mark.parametrize("promote", [None, 1, 0, "yes", np.array([True])], ids=repr)
def test_promote_is_a_bool(of_every_type: dict[str, Any], promote: Any) -> None:
    path = of_every_type["int8"][0]
    for read in (zarrow.read_ragged, zarrow.plan):
        with fails(TypeError, words=("promote", "True or False")):
            read(path, [0], promote=promote)
        read(path, [0], promote=np.True_)


# ---- times -----------------------------------------------------------------------------------

TIMES = ["M8[ns]", "M8[D]", "M8[Y]", "m8[ns]", "m8[s]"]
MIXED = [
    *itertools.combinations(TIMES, 2),
    *itertools.product(TIMES, ["float64", "int64", "bool", "complex64"]),
]


@pytest.mark.parametrize("promote", [False, True])
@pytest.mark.parametrize("types", MIXED, ids=" ".join)
def test_times_and_others(make: Maker, types: tuple[str, str], promote: bool) -> None:
    """Are never mixed: an error of our own that names arrays and types, and what helps."""
    arrays = []
    for number, dtype in enumerate(types):
        path = make.folder / f"array {number}"
        zarr.create_array(path, data=np.arange(4).astype(dtype), chunks=(2,), zarr_format=2)
        arrays.append(path)
    words = (*(np.dtype(dtype).name for dtype in types), "array 0", "array 1", "separate calls")
    outside = zarrow.ranges([0, 0], [9, 9], out_of_bounds="fill")
    asked: list[tuple[Any, Any]] = [([..., ...], None), (outside, 0), (outside, "rubbish")]
    for one, two in (arrays, arrays[::-1]):
        for selections, fill in asked:
            options: dict[str, Any] = {"sources": [0, 1], "promote": promote, "fill": fill}
            for read in (zarrow.read_ragged, zarrow.plan):
                with fails(zarrow.SelectionError, words=words) as caught:
                    read([one, two], selections, **options)
                assert "promote" not in str(caught.value).lower()
        for path in (one, two):  # the remedy works
            assert len(zarrow.read_ragged(path, [...])) == 1


def test_times_of_one_type(make: Maker) -> None:
    """Of whichever byte order and number of the unit, mixed with promotion or without."""
    arrays = []
    for number, dtype in enumerate(["<M8[s]", ">M8[s]", "M8[1s]"]):
        path = make.folder / str(number)
        zarr.create_array(path, data=np.arange(4).astype(dtype), chunks=(2,), zarr_format=2)
        arrays.append(path)
    for promote in (False, True):
        rows = zarrow.read_ragged(arrays, [1, 2, 3], sources=[0, 1, 2], promote=promote)
        assert rows.cast("int64").to_pylist() == [1, 2, 3]
