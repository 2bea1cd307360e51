"""Reads in several processes and threads: after a fork, in pools of every kind, many at once."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import pickle
import sys
import threading
import zipfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import arrays
import numpy as np
import oracle
import pytest
import zarr
import zarrow
from arrays import Layout, Written
from failures import run
from remote import OwnMapping, OwnStore, fill, read_folder
from servers.http_files import FileServer
from servers.moto import S3Server
from zarr.storage import MemoryStore

LIMIT = 20  # seconds until a hang is a failure
_GRID: dict[str, Any] = {"dtype": "int32", "shape": (60, 40), "chunks": (5, 8), "codecs": ("zstd",)}
LAYOUTS = {
    "chunks": Layout(**_GRID, seed=1),
    "shards": Layout(**_GRID, shards=(20, 16), seed=2),
    "v2": Layout(**_GRID | {"codecs": ("blosc-lz4",)}, zarr_format=2, seed=3),
}
SELECTIONS: list[Any] = [np.s_[3:30, 5:33], np.s_[50:40], np.s_[1:, ::3]]
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
KINDS = ["path", "zip", "http", "s3", "dict", "own", "MemoryStore", "mapping", "HTTPStore"]


@pytest.fixture(scope="module")
def written(http_server: FileServer, s3_server: S3Server) -> dict[str, Written]:
    folder = http_server.folder / "processes"
    made = {name: arrays.write(layout, folder / name) for name, layout in LAYOUTS.items()}
    zarr.create_group(folder / "group", attributes={"site": 7})
    arrays.write(LAYOUTS["chunks"], folder / "group" / "chunks")
    for name in [*made, "group"]:
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            for key, value in read_folder(folder / name).items():
                archive.writestr(key, value)
    s3_server.upload(folder, "processes")
    return made


@pytest.fixture(scope="module")
def urls(http_server: FileServer, s3_server: S3Server) -> dict[str, str]:
    return {"http": f"{http_server.url}/processes", "s3": s3_server.url}


def store_of(kind: str, folder: Path, urls: dict[str, str], name: str) -> tuple[Any, Any]:
    """A store with an array, and its options."""
    options = None
    if kind == "s3":
        options = {"aws_endpoint": urls["s3"], "skip_signature": True, "aws_allow_http": True}
        return f"s3://processes/{name}", options
    if kind == "http":
        return f"{urls['http']}/{name}", options
    if kind == "HTTPStore":
        obstore = pytest.importorskip("obstore.store", reason="needs obstore from PyPI")
        return obstore.HTTPStore.from_url(
            f"{urls['http']}/{name}", client_options={"allow_http": True}
        ), options
    path = folder / name
    if kind == "path":
        return path, options
    if kind == "zip":
        return path.with_suffix(".zip"), options
    values = read_folder(path)
    made: Any = {
        "dict": dict,
        "own": OwnStore,
        "mapping": OwnMapping,
        "MemoryStore": lambda values: fill(MemoryStore(), values),
    }[kind](values)
    return made, options


FORK = """
import faulthandler, os, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_processes import SELECTIONS, store_of
import zarrow

kind, folder, http, s3 = sys.argv[2:]
store, options = store_of(kind, Path(folder), {"http": http, "s3": s3}, "shards")
handle = zarrow.open_array(store, storage_options=options)
first = zarrow.read_ragged(handle, SELECTIONS)

def outcome(read):
    try:
        return "same" if read().equals(first) else "WRONG"
    except zarrow.ZarrowError as error:
        return f"{type(error).__name__}: {error}"

def by_handle():
    return zarrow.read_ragged(handle, SELECTIONS)

def anew():
    return zarrow.read_ragged(store, SELECTIONS, storage_options=options)

def fork(name):
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(15, exit=False)
        signal.alarm(20)  # a hang ends in SIGALRM
        print(name, "handle |", outcome(by_handle), flush=True)
        print(name, "anew |", outcome(anew), flush=True)
        print(name, "handle again |", outcome(by_handle), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(name, "child |", os.waitstatus_to_exitcode(status), flush=True)

fork("quiet")
stop = threading.Event()
def read():
    while not stop.is_set():
        by_handle()
threads = [threading.Thread(target=read) for _ in range(3)]
[thread.start() for thread in threads]
time.sleep(0.05)
fork("busy")
for at in range(10):
    fork(f"busy {at}")
stop.set()
[thread.join() for thread in threads]
print("parent |", outcome(by_handle))
"""


@FORKS
@pytest.mark.parametrize("kind", KINDS)
def test_fork(
    written: dict[str, Written],
    urls: dict[str, str],
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A read in the child, by the handle of the parent and by a new one: right, or a clear error.

    Also where other threads of the parent are within a read.
    """
    here, folder = str(Path(__file__).parent), str(written["chunks"].path.parent)
    done = run(FORK, here, kind, folder, urls["http"], urls["s3"], timeout=180)
    told = dict(line.split(" | ", 1) for line in done.stdout.splitlines())
    # What another thread holds just then differs from fork to fork.
    for when in ("quiet", "busy", *(f"busy {at}" for at in range(10))):
        ended = told.get(f"{when} child")
        assert ended == "0", f"a hang or a crash: {done.stdout}{done.stderr}"
        outcomes = [told[f"{when} {who}"] for who in ("handle", "anew", "handle again")]
        for outcome in outcomes:
            if outcome != "same":
                assert outcome.startswith("StoreError"), told
                assert "before this process was forked" in outcome, told
        if kind in ("path", "zip", "http", "s3", "HTTPStore"):
            assert outcomes == ["same"] * 3, told
        if when in ("quiet", "busy"):
            with capsys.disabled():
                print(f"[{kind} {when}: {[each[:10] for each in outcomes]}]")
    assert told["parent"] == "same"


GROUP = """
import faulthandler, os, pickle, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_processes import SELECTIONS, store_of
import zarrow

kind, folder, http, s3 = sys.argv[2:]
store, options = store_of(kind, Path(folder), {"http": http, "s3": s3}, "group")
group = zarrow.open_group(store, storage_options=options)
first = zarrow.read_ragged(group["chunks"], SELECTIONS)

def work(group):
    read = zarrow.read_ragged(group["chunks"], SELECTIONS)
    # HTTP does not list.
    names = ["chunks"] if "http" in kind.lower() else list(group)
    return "same" if read.equals(first) and names == ["chunks"] else "WRONG"

def fork(name):
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(15, exit=False)
        signal.alarm(20)  # a hang ends in SIGALRM
        print(name, "group |", work(group), flush=True)
        print(name, "pickled |", work(pickle.loads(pickle.dumps(group))), flush=True)
        print(name, "anew |", work(zarrow.open_group(store, storage_options=options)), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(name, "child |", os.waitstatus_to_exitcode(status), flush=True)

fork("quiet")
stop = threading.Event()
def read():
    while not stop.is_set():
        work(group)
threads = [threading.Thread(target=read) for _ in range(2)]
[thread.start() for thread in threads]
time.sleep(0.05)
for at in range(2):
    fork(f"busy {at}")
stop.set()
[thread.join() for thread in threads]
print("parent |", work(group))
"""


@FORKS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("written")
def test_fork_with_a_group(http_server: FileServer, urls: dict[str, str], kind: str) -> None:
    """Members that are opened in the child, whatever the store: a group has nothing open."""
    here, folder = str(Path(__file__).parent), str(http_server.folder / "processes")
    done = run(GROUP, here, kind, folder, urls["http"], urls["s3"], timeout=180)
    told = dict(line.split(" | ", 1) for line in done.stdout.splitlines())
    for when in ("quiet", *(f"busy {at}" for at in range(2))):
        outcomes = [told.get(f"{when} {who}") for who in ("group", "pickled", "anew", "child")]
        assert outcomes == ["same"] * 3 + ["0"], f"{when}: {done.stdout}{done.stderr}"
    assert told["parent"] == "same"


GATE = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_processes import SELECTIONS, store_of
import zarrow
from zarrow._zarrow import _after_fork, _before_fork

store, _ = store_of(sys.argv[2], Path(sys.argv[3]), {}, "shards")
handle = zarrow.open_array(store)
first = zarrow.read_ragged(handle, SELECTIONS)
read = lambda: results.append(zarrow.read_ragged(handle, SELECTIONS).equals(first))
results = []
_before_fork()
other = threading.Thread(target=read)
other.start()
other.join(0.5)
print("meanwhile |", results)
_after_fork()
other.join(20)
print("then |", results)
"""


@FORKS
@pytest.mark.parametrize("kind", ["path", "dict"])
def test_reads_take_no_locks_while_a_thread_forks(written: dict[str, Written], kind: str) -> None:
    """Else the child might have them, locked for ever."""
    here, folder = str(Path(__file__).parent), str(written["chunks"].path.parent)
    done = run(GATE, here, kind, folder, timeout=60)
    assert done.stdout.splitlines() == ["meanwhile | []", "then | [True]"], (
        done.stdout + done.stderr
    )


LET_GO = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_processes import store_of
import zarrow
from zarrow._zarrow import _after_fork, _before_fork

store, _ = store_of(sys.argv[2], Path(sys.argv[3]), {}, "shards")
held, cache = [zarrow.open_array(store)], zarrow.ChunkCache(1000)
def let_go():
    held.clear()
    looked.append((cache.nbytes, cache.hits, len(cache), repr(cache)[:20], cache.clear()))
looked = []
_before_fork()
other = threading.Thread(target=let_go)
other.start()
other.join(0.5)
_after_fork()
other.join(20)
print(held, len(looked))
"""


@FORKS
@pytest.mark.parametrize("kind", ["path", "dict"])
def test_who_has_pythons_lock_waits_for_no_fork(written: dict[str, Written], kind: str) -> None:
    """Else the thread that forks would wait for that lock for ever."""
    here, folder = str(Path(__file__).parent), str(written["chunks"].path.parent)
    done = run(LET_GO, here, kind, folder, timeout=60)
    assert done.stdout.split() == ["[]", "1"], done.stdout + done.stderr


# ---- pools ---------------------------------------------------------------------------------------


def read(handle: Any, selections: Any) -> tuple[bytes, int]:
    """Work for a worker."""
    got = zarrow.read_ragged(handle, selections)
    return oracle.values_bytes(got), os.getpid()


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_pools(written: dict[str, Written], urls: dict[str, str], method: str) -> None:
    """Handles travel to workers; where processes are forked, this one has read before."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    folder = written["chunks"].path.parent
    handles = []
    for kind in KINDS:
        store, options = store_of(kind, folder, urls, "chunks")
        handles.append(zarrow.open_array(store, storage_options=options))
        zarrow.read_ragged(handles[-1], [...])
    wanted = oracle.expect(written["chunks"].whole, SELECTIONS).values
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        pickles = zip(KINDS, map(pickle.dumps, handles), strict=True)
        work = {kind: pool.submit(read_there, pickled) for kind, pickled in pickles}
        for kind, each in work.items():
            got, process = each.result(2 * LIMIT)
            assert got == wanted, kind
            assert process != os.getpid()


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_pools_with_groups(
    written: dict[str, Written], http_server: FileServer, urls: dict[str, str], method: str
) -> None:
    """Groups travel to workers as well, with what is needed to reach their stores."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    groups = {}
    for kind in KINDS:
        store, options = store_of(kind, http_server.folder / "processes", urls, "group")
        groups[kind] = zarrow.open_group(store, storage_options=options)
    wanted = oracle.expect(written["chunks"].whole, SELECTIONS).values
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        work = {kind: pool.submit(read_of_group, group) for kind, group in groups.items()}
        for kind, each in work.items():
            got, attributes, process = each.result(2 * LIMIT)
            assert got == wanted, kind
            assert attributes == {"site": 7}
            assert process != os.getpid()


def read_of_group(group: zarrow.Group) -> tuple[bytes, dict[str, Any], int]:
    """Work for a worker of another process."""
    values, process = read(group["chunks"], SELECTIONS)
    return values, dict(group.attrs), process


def read_there(pickled: bytes) -> tuple[bytes, int]:
    """Work for a worker of another process."""
    return read(pickle.loads(pickled), SELECTIONS)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_pool(
    written: dict[str, Written], urls: dict[str, str], method: str
) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    handles = [zarrow.open_array(f"{urls['http']}/{name}") for name in LAYOUTS]
    with multiprocessing.get_context(method).Pool(2) as pool:
        jobs = [pool.apply_async(read, (handle, SELECTIONS)) for handle in handles]
        for job, name in zip(jobs, LAYOUTS, strict=True):
            got, _ = job.get(timeout=2 * LIMIT)
            assert got == oracle.expect(written[name].whole, SELECTIONS).values


@FORKS
def test_a_handle_that_a_forked_worker_inherits(
    written: dict[str, Written], urls: dict[str, str]
) -> None:
    """Not pickled, but there when the worker is forked, as in a data loader."""
    for kind in ("path", "zip", "http", "s3", "HTTPStore"):
        store, options = store_of(kind, written["chunks"].path.parent, urls, "chunks")
        inherited[kind] = zarrow.open_array(store, storage_options=options)
        zarrow.read_ragged(inherited[kind], [...])
    wanted = oracle.expect(written["chunks"].whole, SELECTIONS).values
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for kind in inherited:
            got, process = pool.apply_async(read_inherited, (kind,)).get(timeout=2 * LIMIT)
            assert got == wanted
            assert process != os.getpid()


inherited: dict[str, zarrow.Array] = {}


def read_inherited(kind: str) -> tuple[bytes, int]:
    """Work for a worker that was forked."""
    return read(inherited[kind], SELECTIONS)


def test_a_data_loader(written: dict[str, Written], urls: dict[str, str]) -> None:
    """Workers of torch, which are forked or spawned."""
    torch = pytest.importorskip("torch", reason="needs torch from PyPI")
    handle = zarrow.open_array(f"{urls['http']}/chunks")

    class Rows(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 60

        def __getitem__(self, i: int) -> Any:
            # A copy: torch writes to what it takes.
            return np.array(zarrow.read_ragged(handle, [np.s_[i]])[0].values)

    zarrow.read_ragged(handle, [...])
    loader = torch.utils.data.DataLoader(Rows(), batch_size=10, num_workers=2, timeout=LIMIT)
    got = np.concatenate([batch.numpy() for batch in loader])
    np.testing.assert_array_equal(got, written["chunks"].whole)


# ---- threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_many_threads(written: dict[str, Written], urls: dict[str, str], kind: str) -> None:
    """16 threads at once, of one handle and of different arrays."""
    folder = written["chunks"].path.parent
    handles = {}
    for name in LAYOUTS:
        store, options = store_of(kind, folder, urls, name)
        handles[name] = zarrow.open_array(store, storage_options=options)
    gate = threading.Barrier(16)

    def work(i: int) -> None:
        names = list(LAYOUTS) if i % 2 else ["chunks"]
        gate.wait(LIMIT)
        for turn in range(1 if kind == "s3" else 3):  # moto takes its time
            name = names[(i + turn) % len(names)]
            selections = [np.s_[(i + turn) % 50 :, i : i + 20], np.s_[3:9]]
            got = zarrow.read_ragged(handles[name], selections)
            oracle.assert_reads(got, written[name].whole, selections)

    with ThreadPoolExecutor(16) as pool:
        for each in concurrent.futures.as_completed(
            [pool.submit(work, i) for i in range(16)], timeout=3 * LIMIT
        ):
            each.result()


def test_threads_that_open(written: dict[str, Written], urls: dict[str, str]) -> None:
    """Opening is no less safe."""

    def work(i: int) -> None:
        kind = KINDS[i % len(KINDS)]
        store, options = store_of(kind, written["chunks"].path.parent, urls, "v2")
        got = zarrow.read_ragged(store, SELECTIONS, storage_options=options)
        oracle.assert_reads(got, written["v2"].whole, SELECTIONS)

    with ThreadPoolExecutor(16) as pool:
        for each in [pool.submit(work, i) for i in range(32)]:
            each.result(3 * LIMIT)


AFFINITY = """
import os, sys, threading
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
import zarrow, numpy as np
array = zarrow.open_array(sys.argv[1])
result = zarrow.read_ragged(array, [...])
names = []
for task in os.listdir("/proc/self/task"):
    with open(f"/proc/self/task/{task}/comm") as file:
        names.append(file.read().strip())
print(sum(name.startswith("zarrow") and not name.startswith("zarrow-io") for name in names))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")
def test_threads_honour_the_affinity(written: dict[str, Written]) -> None:
    """A process that may run on one core has one thread that decodes."""
    done = run(AFFINITY, str(written["chunks"].path))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 1


@pytest.mark.usefixtures("written")
def test_few_threads_wait(urls: dict[str, str]) -> None:
    """However many reads and requests: no thread for each."""
    if not Path("/proc/self/task").is_dir():
        pytest.skip("needs /proc")
    handle = zarrow.open_array(f"{urls['http']}/chunks")
    zarrow.read_ragged(handle, [...])
    before = len(list(Path("/proc/self/task").iterdir()))
    for _ in range(20):
        zarrow.read_ragged(zarrow.open_array(f"{urls['http']}/shards"), [...])
        zarrow.read_ragged(handle, [...])
    assert len(list(Path("/proc/self/task").iterdir())) <= before
