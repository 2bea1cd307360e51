"""Selections that are transforms of zarr-indexing, against what that package reads."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import oracle
import pytest
import zarr
import zarrow
from hypothesis import given
from hypothesis import strategies as st

zarr_indexing = pytest.importorskip(
    "zarr_indexing", reason="needs zarr-indexing, which needs Python 3.12 or later"
)
package_strategies = pytest.importorskip("zarr_indexing.testing.strategies")
package_model = pytest.importorskip("zarr_indexing.testing.stateful")
transforms = pytest.importorskip("zarrow._transforms")

from zarr_indexing import (  # noqa: E402
    ArrayMap,
    ConstantMap,
    DimensionMap,
    IndexDomain,
    IndexTransform,
    LazyArray,
)

SHAPE = (7, 5, 4)
WHOLE = np.random.default_rng(0).permutation(math.prod(SHAPE)).reshape(SHAPE)
LENGTHS = (1, 1, 2, 3, 0)
INDEXING = ("orthogonal", "pointwise")


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> list[zarrow.Array]:
    """`WHOLE` in several kinds of storage."""
    folder = tmp_path_factory.mktemp("arrays")
    kinds: list[dict[str, Any]] = [
        {"chunks": (3, 2, 2)},
        {"chunks": (2, 2, 1), "shards": (4, 4, 2)},
        {"chunks": (7, 5, 4), "compressors": None},
        {"chunks": (1, 5, 3), "zarr_format": 2},
    ]
    for number, kind in enumerate(kinds):
        zarr.create_array(folder / str(number), data=WHOLE, **kind)
    return [zarrow.open_array(folder / str(number)) for number in range(len(kinds))]


# ---- what a transform means ------------------------------------------------------------------


def positions(domain: IndexDomain) -> np.ndarray[Any, Any]:
    """All positions of a domain: shape (*domain.shape, rank)."""
    axes = map(np.arange, domain.inclusive_min, domain.exclusive_max)
    grid = np.meshgrid(*axes, indexing="ij")
    return np.stack(grid, -1) if grid else np.zeros(0, np.intp)


def by_definition(transform: IndexTransform, whole: np.ndarray[Any, Any]) -> Any:
    """Element by element, with the package's own evaluation of the transform."""
    if 0 in transform.domain.shape:
        return np.empty(transform.domain.shape, whole.dtype)
    indices = transform.apply_many(positions(transform.domain))
    beyond = (indices < 0) | (indices >= whole.shape)
    if beyond.any():
        raise IndexError("out of bounds")
    return whole[tuple(np.moveaxis(indices, -1, 0))]


def check(array: Any, selections: Sequence[IndexTransform], rows: Sequence[Any]) -> None:
    """Assert that reading the selections gives the rows."""
    for indexing in INDEXING:
        result = zarrow.read_ragged(array, selections, indexing=indexing)
        oracle.assert_contract(result, "int64", rows[0].ndim)
        assert result.to_pylist() == [row.tolist() for row in rows]
        plan = zarrow.plan(array, selections, indexing=indexing)
        assert plan.row_shapes.tolist() == [list(row.shape) for row in rows]


# ---- chains of what the package offers -------------------------------------------------------


@dataclass
class Chain:
    """A view of the package, and NumPy's result of the same steps."""

    view: Any
    model: Any

    @property
    def transform(self) -> IndexTransform:
        return self.view.transform


def moved(view: Any, outer: IndexTransform) -> Any:
    """Compose a transform in front of that of the view."""
    return view[outer]


@st.composite
def steps(draw: st.DrawFn, before: Chain) -> Chain:
    """One more public operation."""
    view, model = before.view, before.model
    kinds = ["translate", "new axis"]
    if model.ndim > 1:
        kinds.append("transpose")
    if model.ndim and model.size:
        kinds += ["basic", "orthogonal", "vectorized", "slices"] * 2
    kind = draw(st.sampled_from(kinds))
    if kind == "translate":
        shift = tuple(draw(st.integers(-9, 9)) for _ in range(model.ndim))
        identity = IndexTransform.identity(view.transform.domain)
        return Chain(moved(view, identity.translate_domain_by(shift)), model)
    if kind == "new axis":
        at = draw(st.integers(0, model.ndim))
        selection: Any = (slice(None),) * at + (None,)
        return Chain(view[selection], model[selection])
    if kind == "transpose":
        order = draw(st.permutations(range(model.ndim)))
        return Chain(transposed(view, order), model.transpose(order))
    if kind == "slices":
        selection = draw(package_strategies.slice_selections(model.shape))
        kind = "orthogonal"
    else:
        strategy = getattr(package_strategies, f"{kind}_selections")
        selection = draw(strategy(model.shape))
    ways = {"basic": view, "vectorized": view.vindex, "orthogonal": view.oindex}
    model = package_model.apply_selection(model, selection, kind)
    return Chain(ways[kind][selection], np.asarray(model))


def transposed(view: Any, order: Sequence[int]) -> Any:
    """Axis `i` of the result is axis `order[i]` of the view."""
    domain = view.transform.domain
    outer = IndexDomain(
        tuple(domain.inclusive_min[axis] for axis in order),
        tuple(domain.exclusive_max[axis] for axis in order),
    )
    output = tuple(DimensionMap(order.index(axis)) for axis in range(domain.ndim))
    return moved(view, IndexTransform(outer, output))


@st.composite
def chains(draw: st.DrawFn) -> list[Chain]:
    """Up to five operations; what there was after each, first none."""
    chain = Chain(LazyArray.from_numpy(WHOLE), WHOLE)
    result = [chain]
    for _ in range(draw(st.integers(0, 5))):
        chain = draw(steps(chain))
        if chain.model.ndim > 6:
            break
        result.append(chain)
    return result


@given(chain=chains(), where=st.integers(0, 3))
def test_chains_as_the_package(arrays: list[zarrow.Array], chain: list[Chain], where: int) -> None:
    like = [each for each in chain if each.model.ndim == chain[-1].model.ndim]
    selections = [each.transform for each in like]
    rows = [np.asarray(each.view.result()) for each in like]
    for row, each in zip(rows, like, strict=True):
        np.testing.assert_array_equal(row, each.model)
    check(arrays[where], selections, rows)


# ---- transforms of any kind ------------------------------------------------------------------


@st.composite
def output_maps(draw: st.DrawFn, domain: IndexDomain, length: int, *, stray: bool) -> Any:
    """Any output map to an axis, in bounds unless `stray`."""
    least, most = (-2, length + 1) if stray else (0, length - 1)
    ends = st.integers(least, most)
    kinds = ["constant", "array"] + ["dimension"] * 2 * bool(domain.ndim)
    kind = draw(st.sampled_from(kinds))
    if kind == "constant":
        return ConstantMap(draw(ends))
    stride = draw(st.integers(-3, 3))
    if kind == "array":
        # A value for each position along some of the dimensions.
        sizes = tuple(draw(st.sampled_from([1, size])) for size in domain.shape)
        count = math.prod(sizes)
        wanted = np.array(draw(st.lists(ends, min_size=count, max_size=count)), np.intp)
        offset = draw(st.integers(-5, 5))
        stride = draw(st.sampled_from([1, -1]))
        return ArrayMap((stride * (wanted - offset)).reshape(sizes), offset, stride)
    dimension = draw(st.integers(0, domain.ndim - 1))
    size = domain.shape[dimension]
    if stride and not stray:
        stride = int(math.copysign(min(abs(stride), (length - 1) // max(size - 1, 1)), stride))
    span = stride * max(size - 1, 0)
    first = draw(st.integers(least - min(span, 0), max(most - max(span, 0), least - min(span, 0))))
    return DimensionMap(dimension, first - stride * domain.inclusive_min[dimension], stride)


@st.composite
def any_transforms(draw: st.DrawFn, *, stray: bool = False) -> IndexTransform:
    """A transform written by hand: dimensions in any order, shared, repeated or unused."""
    rank = draw(st.integers(0, 4))
    low = tuple(draw(st.integers(-4, 4)) for _ in range(rank))
    sizes = [draw(st.sampled_from(LENGTHS)) for _ in range(rank)]
    domain = IndexDomain(low, tuple(a + n for a, n in zip(low, sizes, strict=True)))
    output = [draw(output_maps(domain, length, stray=stray)) for length in SHAPE]
    return IndexTransform(domain, tuple(output))


@given(transform=any_transforms(), where=st.integers(0, 3))
def test_any_transform_as_defined(
    arrays: list[zarrow.Array], transform: IndexTransform, where: int
) -> None:
    row = by_definition(transform, WHOLE)
    check(arrays[where], [transform], [row])


@given(transform=any_transforms(stray=True), where=st.integers(0, 3))
def test_strays_are_refused(
    arrays: list[zarrow.Array], transform: IndexTransform, where: int
) -> None:
    try:
        row = by_definition(transform, WHOLE)
    except IndexError:
        for indexing in INDEXING:
            with pytest.raises(zarrow.SelectionError, match=r"selection 0: .* on axis \d"):
                zarrow.read_ragged(arrays[where], [transform], indexing=indexing)
    else:
        check(arrays[where], [transform], [row])


@given(transform=any_transforms())
def test_through_json_and_pickle(arrays: list[zarrow.Array], transform: IndexTransform) -> None:
    row = by_definition(transform, WHOLE)
    again = IndexTransform.from_json(transform.to_json())
    check(arrays[0], [again, transform], [row, row])
    plan = pickle.loads(pickle.dumps(zarrow.plan(arrays[0], [transform])))
    assert plan.read().to_pylist() == [row.tolist()]


# ---- case by case ----------------------------------------------------------------------------

D0, D1, D2 = map(DimensionMap, range(3))
T = IndexTransform.from_shape(SHAPE)
WHOLE_5, WHOLE_4 = slice(0, 5, 1), slice(0, 4, 1)
ITEMS: dict[str, tuple[IndexTransform, list[Any]]] = {
    "identity": (T, [slice(0, 7, 1), WHOLE_5, WHOLE_4]),
    "slices": (T[2:5, 1, ::-1], [slice(2, 5, 1), 1, slice(3, None, -1)]),
    "strides": (T[1:6:2, ::-3, 3:0:-1], [slice(1, 6, 2), slice(4, 0, -3), slice(3, 0, -1)]),
    "new axes": (T[None, 2, None, :, 0:1, None], [2, None, None, WHOLE_5, slice(0, 1, 1), None]),
    "translated": (T[2:4].translate_domain_to((-3, 9, 2)), [slice(2, 4, 1), WHOLE_5, WHOLE_4]),
    "a point": (T[6, 4, 0], [6, 4, 0]),
    "a length of one out of order": (
        IndexTransform(IndexDomain.from_shape((5, 1)), (D1, D0, ConstantMap(3))),
        [0, WHOLE_5, 3, None],
    ),
    "transposed": (
        IndexTransform(IndexDomain.from_shape((4, 5, 7)), (D2, D1, D0)),
        [(3, (4, 5, 7))],
    ),
    "transposed in part": (
        IndexTransform(IndexDomain.from_shape((7, 4, 5)), (D0, D2, D1)),
        [slice(0, 7, 1), (2, (4, 5))],
    ),
    "lists": (T.oindex[[3, 3, 1], 1:4, [0, 2]], [(1, (3,)), slice(1, 4, 1), (1, (2,))]),
    "one repeated": (T.oindex[[3, 3, 3]], [(1, (3,)), WHOLE_5, WHOLE_4]),
    "pairs, then whole": (
        T.vindex[np.array([[1, 2], [3, 4]]), np.array([[0, 1], [2, 3]])],
        [(2, (2, 2)), WHOLE_4],
    ),
    "pairs apart": (T.vindex[np.array([1, 2]), :, np.array([0, 1])], [(3, (2, 5))]),
}  # fmt: skip


@pytest.mark.parametrize("name", ITEMS)
def test_items(name: str) -> None:
    """Slices stay slices, and only what must be points is."""
    transform, expected = ITEMS[name]
    items = transforms.items(transform, SHAPE, 0, pointwise=False)
    assert expected == [
        (len(item.coordinates), item.shape) if hasattr(item, "coordinates") else item
        for item in items
    ]


def test_among_other_selections(arrays: list[zarrow.Array]) -> None:
    selections = [T[2:4, 0], np.s_[-2:, 0], None, T[:, 0].oindex[[4, 0]], [1, 9]]
    with pytest.raises(zarrow.SelectionError, match="selection 4"):
        zarrow.read_ragged(arrays[0], selections)
    rows = zarrow.read_ragged(arrays[0], selections[:4]).to_pylist()
    assert rows == [WHOLE[2:4, 0].tolist(), WHOLE[-2:, 0].tolist(), None, WHOLE[[4, 0], 0].tolist()]


def test_each_fits_its_own_array(tmp_path: Any) -> None:
    """Several arrays: a transform is checked against the one that it reads."""
    for name, length in (("short", 3), ("long", 9)):
        zarr.create_array(tmp_path / name, data=np.arange(length), chunks=(2,))
    both = [tmp_path / "short", tmp_path / "long"]
    transform = IndexTransform.from_shape((9,))[5:9:3]
    assert zarrow.read_ragged(both, [transform] * 2, sources=[1, 1]).to_pylist() == [[5, 8]] * 2
    with pytest.raises(
        zarrow.SelectionError, match=r"selection 1: .* index 5 on axis 0 of length 3"
    ):
        zarrow.read_ragged(both, [transform] * 2, sources=[1, 0])
    with pytest.raises(zarrow.SelectionError, match="2 selections and 1 sources"):
        zarrow.read_ragged(both, [transform] * 2, sources=[1])


@pytest.mark.parametrize("rank", [0, 1, 2, 4])
def test_refuses_another_rank(arrays: list[zarrow.Array], rank: int) -> None:
    selections = [T, IndexTransform.from_shape((1,) * rank)]
    message = rf"selection 1: a transform to {rank} axes; expected 3"
    with pytest.raises(zarrow.SelectionError, match=message):
        zarrow.read_ragged(arrays[0], selections)


TWO = IndexDomain((0,), (2,))


@pytest.mark.parametrize(
    ("transform", "index", "axis"),
    [
        (T.translate((0, -1, 0)), -1, 1),
        (T.translate((0, 0, 1)), 4, 2),
        (T[6, 4, 3].translate((-7, 0, 0)), -1, 0),
        (T[6:7].translate((1, 0, 0)), 7, 0),
        (T[:, ::-1].translate((0, 2, 0)), 6, 1),
        (T.oindex[[3, 1]].translate((-2, 0, 0)), -1, 0),
        (T.vindex[np.array([1, 3]), :, np.array([0, 3])].translate((0, 0, 1)), 4, 2),
        (IndexTransform.from_shape((2**62, 5, 4)), 2**62 - 1, 0),
        (IndexTransform(TWO, (DimensionMap(0, 2**70, 2**70),) * 3), 2**70, 0),
        (IndexTransform(TWO, (ArrayMap(np.array([0, 2**62]), 0, 2),) * 3), 2**63, 0),
    ],
)  # fmt: skip
def test_refuses_what_is_beyond(
    arrays: list[zarrow.Array], transform: IndexTransform, index: int, axis: int
) -> None:
    """No index counts from the end, and nothing is clipped."""
    message = rf"selection 0: a transform to index {index} on axis {axis} of length"
    for indexing in INDEXING:
        with pytest.raises(zarrow.SelectionError, match=message):
            zarrow.read_ragged(arrays[0], [transform], indexing=indexing)


def test_large_offsets_that_cancel(arrays: list[zarrow.Array]) -> None:
    domain = IndexDomain((2**70,), (2**70 + 3,))
    far = ArrayMap(np.array([2**62 + 2, 2**62, 2**62 + 1]), -3 * 2**62, 3)
    output = (DimensionMap(0, 2**70 + 2, -1), ConstantMap(1), DimensionMap(0, -(2**70), 1))
    assert far.offset + far.stride * int(far.index_array.min()) == 0
    nearer = ArrayMap(far.index_array, -(2**62), 1)
    result = zarrow.read_ragged(
        arrays[0],
        [
            IndexTransform(domain, (DimensionMap(0, -(2**70)), *output[1:])),
            IndexTransform(domain, (ConstantMap(2), ConstantMap(1), nearer)),
        ],
    )
    assert result.to_pylist() == [
        WHOLE[[0, 1, 2], 1, [0, 1, 2]].tolist(),
        WHOLE[2, 1, [2, 0, 1]].tolist(),
    ]
    whole = zarrow.read_ragged(
        arrays[0], [IndexTransform(domain, (far, ConstantMap(0), ConstantMap(0)))]
    )
    assert whole.to_pylist() == [WHOLE[[6, 0, 3], 0, 0].tolist()]


def test_empty_domains_read_nothing(arrays: list[zarrow.Array]) -> None:
    """As in the package, it does not matter where nothing lies."""
    output = (ConstantMap(99), DimensionMap(1, 1000), ConstantMap(-4))
    for shape in itertools.permutations((0, 2, 3)):
        transform = IndexTransform(IndexDomain.from_shape(shape), output)
        check(arrays[1], [transform], [np.empty(shape, np.int64)])


def test_no_axes(tmp_path: Any) -> None:
    zarr.create_array(tmp_path / "a", data=np.array(5))
    point = IndexTransform.from_shape(())
    assert zarrow.read_ragged(tmp_path / "a", [point, point]).to_pylist() == [5, 5]
    assert zarrow.read_ragged(tmp_path / "a", [point[None, None]]).to_pylist() == [[[5]]]
    repeated = IndexTransform(IndexDomain.from_shape((3,)), ())
    with pytest.raises(zarrow.UnsupportedError, match=r"selection 0: .* without axes"):
        zarrow.read_ragged(tmp_path / "a", [repeated])


def test_too_many_points(arrays: list[zarrow.Array]) -> None:
    domain = IndexDomain.from_shape((2**40, 2**40, 7))
    transform = IndexTransform(domain, (DimensionMap(2), ConstantMap(0), ConstantMap(0)))
    with pytest.raises(zarrow.AllocationError, match="selection 0: a transform to points of shape"):
        zarrow.read_ragged(arrays[0], [transform])


def test_one_transform_is_no_list(arrays: list[zarrow.Array]) -> None:
    with pytest.raises(TypeError, match="pass a list of selections"):
        zarrow.read_ragged(arrays[0], T)
    with pytest.raises(zarrow.SelectionError, match="an item of type IndexTransform"):
        zarrow.read_ragged(arrays[0], [(T,)])
