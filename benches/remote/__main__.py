"""Compare reads from an object store: `make bench-remote`, or `python -m benches.remote --help`.

Makes the environment and builds the programs, then goes on in that environment.
"""

import os
import sys

from ..compare.options import ROOT
from . import programs
from .options import parse

if __name__ == "__main__":
    options = parse()
    found = programs.prepare(build=options.build and not options.list_only)
    os.chdir(ROOT)
    os.execv(found.python, [found.python, "-m", "benches.remote.run", *sys.argv[1:]])
