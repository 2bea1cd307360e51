"""Everything that the documentation shows runs, and prints what it says."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
import zarrow

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    *("zarrow", "zarrow._api", "zarrow._batch", "zarrow._group", "zarrow._open"),
    *("zarrow._selections", "zarrow.errors"),
]
DOCTESTS = [
    test
    for name in MODULES
    for test in doctest.DocTestFinder().find(importlib.import_module(name))
    if test.examples
]


@pytest.mark.parametrize("example", DOCTESTS, ids=lambda test: test.name)
def test_docstring(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = io.StringIO()
    failed, tried = doctest.DocTestRunner().run(example, out=report.write, clear_globs=False)
    assert tried
    assert not failed, report.getvalue()


def test_public_functions_have_examples():
    shown = {test.name.rpartition(".")[2] for test in DOCTESTS}
    assert shown >= set(zarrow.__all__) & {
        "read_batch",
        "read_batch_async",
        "read_ragged",
        "read_ragged_async",
        "open_array",
        "open_group",
        "plan",
        "ranges",
        "boxes",
        "windows",
        "rows",
        "indices",
    }


PAGES = ["README.md", "docs/selections.md", "docs/stores.md"]


@pytest.mark.parametrize("page", PAGES)
def test_page(page, tmp_path, monkeypatch):
    """Each block of Python in turn, in one namespace, prints the block of text that follows it."""
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", readme, flags=re.DOTALL)
    assert len(blocks) == readme.count("```python") > 0
    names: dict[str, object] = {}
    for code, expected in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, page, "exec"), names)
        assert printed.getvalue() == expected


@pytest.mark.parametrize(
    "link",
    re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / "README.md").read_text(encoding="utf-8")),
)
def test_readme_links(link):
    assert (ROOT / link).exists()


def test_quickstart(tmp_path):
    figure = tmp_path / "figure.png"
    run = subprocess.run(
        [
            sys.executable,
            "-W",
            "error::RuntimeWarning",
            ROOT / "examples" / "quickstart.py",
            figure,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert figure.read_bytes().startswith(b"\x89PNG")
    ours, loop = (
        [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) +([\d,]+) +[\d,.]+ ms", line)[0]]
        for line in run.stdout.splitlines()
        if line.endswith(" ms")
    )
    assert ours[0] == ours[1] <= 224, "each of the 224 chunks at most once"
    assert loop[1] > 4 * ours[1]
