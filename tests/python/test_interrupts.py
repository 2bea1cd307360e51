"""What ends a read before it is done: Ctrl-C, a callback of progress, a timeout. And progress."""

from __future__ import annotations

import asyncio
import io
import itertools
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arrays
import numpy as np
import pytest
import zarrow
from arrays import Layout, Written
from failures import run
from remote import OwnMapping, OwnStore, read_folder
from servers.http_files import FileServer
from servers.proxy import Proxy

LAYOUT = Layout(dtype="int32", shape=(120, 40), chunks=(4, 8), codecs=("zstd",), seed=1)
SHARDS = Layout(
    dtype="int32", shape=(120, 40), chunks=(4, 8), shards=(40, 40), codecs=("zstd",), seed=2
)
SOON = 0.2  # seconds within which an interrupt ends a read
ATTEMPTS = 5  # on a busy machine, one or the other of which may take longer
PATIENCE = 5  # seconds that what comes soon may take there


@pytest.fixture(scope="module")
def written(http_server: FileServer) -> dict[str, Written]:
    folder = http_server.folder / "interrupts"
    return {
        "chunks": arrays.write(LAYOUT, folder / "chunks"),
        "shards": arrays.write(SHARDS, folder / "shards"),
    }


# The end of each program: a read that hangs gets SIGINT, and another read works. Where it took
# long to end, that is tried again.
INTERRUPT = """
import os, signal, sys, threading, time
import numpy as np, zarrow

sent = []

def interrupt():
    wait_for_it()
    time.sleep(0.1)
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)

for _ in range(attempts):
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        hang()
    except KeyboardInterrupt:
        delay = time.perf_counter() - sent[-1]
        print("interrupted", delay)
        if delay < soon:
            break
    else:
        print("read", 0)
heal()
for _ in range(2):
    again = zarrow.read_ragged(reopen(), [np.s_[:8, 3]])
print("again", np.asarray(again.values)[:8].tolist() == expected)
"""

STARTS = {
    # The tests heal the proxy when the program says so, by a line of its output.
    "http": """
import sys, urllib.request
import numpy as np, zarrow
url, good, folder = sys.argv[1:4]
array = zarrow.open_array(url)
wait_for_it = lambda: None
hang = lambda: zarrow.read_ragged(array, [...])
heal = lambda: None
reopen = lambda: zarrow.open_array(good)
""",
    "http, opening": """
import sys
import numpy as np, zarrow
url, good, folder = sys.argv[1:4]
wait_for_it = lambda: None
hang = lambda: zarrow.open_array(url)
heal = lambda: None
reopen = lambda: zarrow.open_array(good)
""",
    "own": """
import sys
from pathlib import Path
from remote import OwnStore, read_folder
import numpy as np, zarrow
url, good, folder = sys.argv[1:4]
store = OwnStore(read_folder(Path(folder)))
array = zarrow.open_array(store)
store.hangs = True
wait_for_it = lambda: time.sleep(0.2)
hang = lambda: zarrow.read_ragged(array, [...])
def heal(): store.hangs = False
reopen = lambda: array
""",
    "mapping": """
import sys
from pathlib import Path
from remote import OwnMapping, read_folder
import numpy as np, zarrow
url, good, folder = sys.argv[1:4]
store = OwnMapping(read_folder(Path(folder)))
array = zarrow.open_array(store)
store.latency = 1.0
wait_for_it = lambda: time.sleep(0.2)
hang = lambda: zarrow.read_ragged(array, [...])
def heal(): store.latency = 0.0
reopen = lambda: array
""",
}
STARTS["shards"] = STARTS["http"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
@pytest.mark.parametrize("kind", STARTS)
def test_ctrl_c(
    proxy: Proxy,
    http_server: FileServer,
    written: dict[str, Written],
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """KeyboardInterrupt soon, and the process reads again: by a proxy that hangs, and one not.

    The best of some attempts counts: a machine may be busy for a while, a wait is there each time.
    """
    name = "shards" if kind == "shards" else "chunks"
    proxy.hang("zarr.json$" if "opening" in kind else "/c/")
    folder = str(Path(__file__).parent)
    expected = np.asarray(written[name].whole[:8, 3]).tolist()
    code = f"import sys, time\nsys.path.insert(0, {folder!r})\nexpected = {expected}\n"
    code += f"attempts, soon = {ATTEMPTS}, {SOON}\n"
    urls = [f"{base}/interrupts/{name}" for base in (proxy.url, http_server.url)]
    done = run(code + STARTS[kind] + INTERRUPT, *urls, str(written[name].path), timeout=40)
    words = done.stdout.split()
    assert words[-2:] == ["again", "True"], done.stdout + done.stderr
    assert set(words[:-2:2]) == {"interrupted"}, done.stdout + done.stderr
    delays = [float(word) for word in words[1:-2:2]]
    with capsys.disabled():
        print(f"[{kind}: {min(delays):.3f} s]", end="")
    assert min(delays) < SOON, delays
    proxy.wait_until_idle()


EXIT = """
import random, sys, threading, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import numpy as np, zarrow
from remote import OwnMapping, OwnStore, read_folder

kind, url, path = sys.argv[2:]
store = {
    "hangs": lambda: url,
    "path": lambda: path,
    "mapping": lambda: OwnMapping(read_folder(Path(path)), 0.001),
    "store": lambda: OwnStore(read_folder(Path(path)), 0.001),
    "selections": lambda: path,
}[kind]()
class Slow:
    def __index__(self):
        time.sleep(0.1)
        return 1
asked = [np.s_[Slow():]] if kind == "selections" else [...]
array = zarrow.open_array(store)
def read():
    try:
        while True:
            zarrow.read_ragged(array, asked)
    except BaseException:
        pass
for _ in range(4):
    threading.Thread(target=read, daemon=True).start()
# A read looks for signals every 50 ms.
time.sleep(0.1 + 0.06 * random.random())
print("over", flush=True)
"""


@pytest.mark.parametrize("kind", ["hangs", "path", "mapping", "store", "selections"])
def test_a_process_ends_while_threads_read(
    written: dict[str, Written], proxy: Proxy, kind: str
) -> None:
    """Daemon threads, whatever they wait for, neither keep the process nor make it crash."""
    here, path = str(Path(__file__).parent), str(written["chunks"].path)
    proxy.hang("/c/")
    for _ in range(10):
        done = run(EXIT, here, kind, f"{proxy.url}/interrupts/chunks", path, timeout=20)
        assert done.stdout.split() == ["over"]
        assert done.returncode == 0, done.stderr


AT_EXIT = """
import atexit, sys
def late():
    try:
        print(zarrow.read_ragged(array, [np.s_[:1, :2]]).type)
    except zarrow.StoreError as error:
        print(error)
atexit.register(late)
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import numpy as np, zarrow
from remote import OwnStore, read_folder
path = sys.argv[3]
store = {"path": lambda: path, "store": lambda: OwnStore(read_folder(Path(path)))}[sys.argv[2]]()
array = zarrow.open_array(store)
"""


@pytest.mark.parametrize(("kind", "told"), [("path", "large_list"), ("store", "Python is ending")])
def test_a_read_at_the_end(written: dict[str, Written], kind: str, told: str) -> None:
    """After all else that was to be done at the end: a result or an error, and no hang."""
    here, path = str(Path(__file__).parent), str(written["chunks"].path)
    done = run(AT_EXIT, here, kind, path, timeout=20)
    assert told in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("written")
def test_a_handler_that_raises(proxy: Proxy) -> None:
    """What any handler of a signal raises ends the read, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        pytest.skip("needs signals in the main thread")
    handle = zarrow.open_array(f"{proxy.url}/interrupts/chunks")
    proxy.hang("/c/")

    def ring(*_: object) -> None:
        raise RuntimeError("it rings")

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(RuntimeError, match="it rings"):
            zarrow.read_ragged(handle, [...])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    proxy.wait_until_idle()


# ---- progress ------------------------------------------------------------------------------------

Store = Callable[[Proxy, Written], Any]
STORES: dict[str, Store] = {
    "path": lambda _, written: written.path,
    "http": lambda proxy, written: f"{proxy.url}/interrupts/{written.path.name}",
    "dict": lambda _, written: read_folder(written.path),
    "own": lambda _, written: OwnStore(read_folder(written.path), 0.002),
    "mapping": lambda _, written: OwnMapping(read_folder(written.path), 0.002),
}


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("name", ["chunks", "shards"])
def test_progress(proxy: Proxy, written: dict[str, Written], name: str, kind: str) -> None:
    """Counts that never fall, the same totals whenever they are known, all at the end."""
    proxy.configure(latency=0.02)
    told: list[tuple[int, int, int, int]] = []
    main = threading.get_ident()

    def tell(*counts: int) -> None:
        assert threading.get_ident() == main, "called by another thread"
        told.append(counts)  # type: ignore[arg-type]

    selections: list[Any] = [np.s_[i : i + 10] for i in range(0, 100, 5)]
    got = zarrow.read_ragged(
        STORES[kind](proxy, written[name]), selections, progress=tell, concurrency=4
    )
    written[name].check(got, selections)
    chunks = 27 * 5
    assert told[-1] == (chunks, chunks, chunks * 128, chunks * 128)
    for one, other in itertools.pairwise(told):
        assert one[0] <= other[0]
        assert one[2] <= other[2]
    for counts in told:
        assert all(type(each) is int for each in counts)
        assert counts[1] in (0, chunks)
        assert counts[0] <= counts[1]
        assert counts[2] <= counts[3]
    if (kind, name) == ("http", "chunks"):
        assert len({counts[0] for counts in told}) > 2, told


def test_progress_of_nothing(written: dict[str, Written]) -> None:
    """Nothing to read is done at once."""
    told: list[tuple[int, ...]] = []
    for selections in ([], [np.s_[3:3]]):
        zarrow.read_ragged(
            written["chunks"].path, selections, progress=lambda *counts: told.append(counts)
        )
    assert set(told) == {(0, 0, 0, 0)}


@pytest.mark.parametrize("kind", ["http", "own", "mapping"])
def test_an_exception_of_progress_ends_the_read(
    proxy: Proxy, written: dict[str, Written], kind: str
) -> None:
    store = STORES[kind](proxy, written["chunks"])
    handle = zarrow.open_array(store)
    if kind == "http":
        proxy.hang("/c/", skip=3)
    elif kind == "own":
        store.hangs = True
    else:
        store.latency = 0.3
    calls = 0

    class EnoughError(Exception):
        pass

    def stop(*_: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise EnoughError("enough")

    with pytest.raises(EnoughError, match="enough"):
        zarrow.read_ragged(handle, [...], progress=stop)
    assert calls == 3, "called again after it had raised"
    if kind == "http":
        proxy.wait_until_idle()
        proxy.heal()
    elif kind == "own":
        store.hangs = False
    else:
        store.latency = 0
    written["chunks"].check(zarrow.read_ragged(handle, [...]), [...])


def test_a_bar(
    proxy: Proxy, written: dict[str, Written], capsys: pytest.CaptureFixture[str]
) -> None:
    """progress=True shows one of tqdm, which is full at the end."""
    pytest.importorskip("tqdm", reason="needs tqdm from PyPI")
    url = STORES["http"](proxy, written["chunks"])
    proxy.configure(latency=0.05)
    written["chunks"].check(zarrow.read_ragged(url, [...], progress=True), [...])
    shown = capsys.readouterr().err
    assert "zarrow" in shown
    assert "150/150 chunks" in shown
    assert "100%" in shown


async def by_task(read: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Wait for a read as a task does."""
    return await read(*arguments, **options)


READS: dict[str, Callable[..., Any]] = {
    "ragged": lambda store, rows, **options: zarrow.read_ragged(store, rows, **options),
    "batch": lambda store, rows, **options: zarrow.read_batch({"a": store}, rows, **options),
    "ragged, async": lambda store, rows, **options: asyncio.run(
        by_task(zarrow.read_ragged_async, store, rows, **options)
    ),
    "batch, async": lambda store, rows, **options: asyncio.run(
        by_task(zarrow.read_batch_async, {"a": store}, rows, **options)
    ),
}


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The bars of tqdm that are made. The last sees Ctrl-C if its `interrupt` is set."""
    auto = pytest.importorskip("tqdm.auto", reason="needs tqdm from PyPI")
    made: list[Any] = []

    class Bar(auto.tqdm):  # type: ignore[misc,name-defined]
        closed = 0

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)

        def close(self) -> None:
            if not self.disable:
                self.closed += 1
            super().close()

    monkeypatch.setattr(auto, "tqdm", Bar)
    return made


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("end", ["done", "nothing to read", "error", "timeout", "interrupt"])
def test_a_bar_is_closed(
    proxy: Proxy,
    written: dict[str, Written],
    bars: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    end: str,
) -> None:
    """Once, however the read ends."""
    handle = zarrow.open_array(STORES["http"](proxy, written["chunks"]))
    rows: list[Any] = [np.s_[3:3]] if end == "nothing to read" else [...]
    options: dict[str, Any] = {"progress": True}
    raised: dict[str, Any] = {
        "error": zarrow.StoreError, "timeout": zarrow.ReadTimeoutError,
        "interrupt": KeyboardInterrupt,
    }  # fmt: skip
    if end == "error":
        proxy.status("/c/", 403)
    elif end == "timeout":
        options["timeout"] = 0.2
        proxy.hang("/c/")
    elif end == "interrupt":
        proxy.hang("/c/", skip=3)

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        # A handler of SIGINT raises where this does, at the next look for signals.
        monkeypatch.setattr("zarrow._options._Bar.__call__", interrupt)
    if end in raised:
        with pytest.raises(raised[end]):
            READS[how](handle, rows, **options)
    else:
        READS[how](handle, rows, **options)
    [bar] = bars
    assert bar.closed == 1
    assert bar.disable, "open"
    if end == "done":
        assert (bar.n, bar.total) == (150 * 128, 150 * 128)


def test_a_bar_of_a_task_that_is_cancelled(
    proxy: Proxy, written: dict[str, Written], bars: list[Any]
) -> None:
    """Closed by the thread that read, soon."""
    handle = zarrow.open_array(STORES["http"](proxy, written["chunks"]))
    proxy.hang("/c/")

    async def cancel() -> None:
        task = asyncio.create_task(zarrow.read_ragged_async(handle, [...], progress=True))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    [bar] = bars
    until = time.monotonic() + PATIENCE
    while not bar.closed and time.monotonic() < until:
        time.sleep(0.01)
    assert bar.closed == 1


def test_no_bar_for_what_is_refused(written: dict[str, Written], bars: list[Any]) -> None:
    cache: Any = 3
    with pytest.raises(TypeError, match="cache"):
        zarrow.read_ragged(written["chunks"].path, [...], progress=True, cache=cache)
    assert not bars


class Terminal(io.StringIO):
    """What is a terminal, or is not, or fails."""

    def __init__(self, *, is_terminal: bool, fails: bool = False) -> None:
        super().__init__()
        self.is_terminal, self.fails = is_terminal, fails

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        if self.fails:
            raise BrokenPipeError("nobody reads")
        return super().write(text)


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("kind", ["terminal", "file", "broken", "none"])
def test_progress_without_tqdm(
    proxy: Proxy,
    written: dict[str, Written],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    kind: str,
) -> None:
    """A line on stderr: rewritten in a terminal, now and then a new one elsewhere."""
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    shown = Terminal(is_terminal=kind == "terminal", fails=kind == "broken")
    handle = zarrow.open_array(STORES["http"](proxy, written["chunks"]))
    proxy.configure(latency=0.05)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", None if kind == "none" else shown)
        READS[how](handle, [...], progress=True, concurrency=8)
    text = shown.getvalue()
    if kind in ("broken", "none"):
        assert not text
        return
    assert text.endswith("s\n")
    assert text.count("\n") == 1
    assert text.count("zarrow: ") > 3 if kind == "terminal" else text.count("zarrow: ") == 1
    last = text.rstrip("\n").rsplit("\r", 1)[-1]
    assert last.startswith("zarrow: 100%, 150/150 chunks, 0.0/0.0 MB, ")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_line_ends_where_the_read_fails(
    proxy: Proxy, written: dict[str, Written], monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    shown = Terminal(is_terminal=is_terminal)
    handle = zarrow.open_array(STORES["http"](proxy, written["chunks"]))
    proxy.hang("/c/", skip=3)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", shown)
        with pytest.raises(zarrow.ReadTimeoutError):
            zarrow.read_ragged(handle, [...], progress=True, timeout=0.3)
    assert "/150 chunks" in shown.getvalue()
    assert shown.getvalue().endswith("\n")


@pytest.mark.parametrize("progress", [1, "yes", [print]])
def test_what_is_no_progress(written: dict[str, Written], progress: Any) -> None:
    with pytest.raises(TypeError, match="progress"):
        zarrow.read_ragged(written["chunks"].path, [...], progress=progress)


# ---- timeout -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["http", "own", "mapping"])
@pytest.mark.parametrize("name", ["chunks", "shards"])
def test_timeout(proxy: Proxy, written: dict[str, Written], name: str, kind: str) -> None:
    """Of a read that hangs; the store can be read afterwards."""
    store = STORES[kind](proxy, written[name])
    handle = zarrow.open_array(store)
    if kind == "http":
        proxy.hang("/c/")
    elif kind == "own":
        store.hangs = True
    else:
        store.latency = 0.5
    with pytest.raises(zarrow.ReadTimeoutError, match="200ms") as caught:
        zarrow.read_ragged(handle, [...], timeout=0.2)
    assert isinstance(caught.value, TimeoutError)
    if kind == "http":
        proxy.wait_until_idle()
        proxy.heal()
    elif kind == "own":
        store.hangs = False
    else:
        store.latency = 0
    written[name].check(zarrow.read_ragged(handle, [...], timeout=60), [...])


def test_timeout_of_the_last_request(proxy: Proxy, written: dict[str, Written]) -> None:
    """Where chunks are missing, it is asked whether the array is still there."""
    options = {"timeout": "2s", "max_retries": 0}
    url = STORES["http"](proxy, written["chunks"])
    handle = zarrow.open_array(url, storage_options=options)
    proxy.status("/c/0/0$", 404)
    proxy.hang("zarr.json$")
    with pytest.raises(zarrow.ReadTimeoutError):
        zarrow.read_ragged(handle, [...], timeout=0.3)


def test_timeout_of_a_plan(proxy: Proxy, written: dict[str, Written]) -> None:
    """It holds for each read of the plan."""
    handle = zarrow.open_array(STORES["http"](proxy, written["chunks"]))
    plan = zarrow.plan(handle, [np.s_[:20]], timeout=0.3)
    proxy.hang("/c/")
    for _ in range(2):
        with pytest.raises(zarrow.ReadTimeoutError):
            plan.read()
    proxy.wait_until_idle()
    proxy.heal()
    plan = zarrow.plan(handle, [np.s_[:20]], timeout=60)
    written["chunks"].check(plan.read(), [np.s_[:20]])


def test_a_timeout_within_which_all_is_done(written: dict[str, Written]) -> None:
    for timeout in (60, 1e300, np.float32(60), float("inf")):
        got = zarrow.read_ragged(written["chunks"].path, [...], timeout=timeout)
        written["chunks"].check(got, [...])
