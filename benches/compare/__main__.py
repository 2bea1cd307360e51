"""Compare zarrow with other readers: `make bench`, or `python -m benches.compare --help`.

Makes the environments, then goes on in the one that has the packages that the rest needs.
"""

import os
import sys

from . import environments
from .options import ROOT, parse

if __name__ == "__main__":
    options = parse()
    environments.prepare(build=options.build and not options.list_only)
    (base,) = (found for found in environments.load() if found.name == "base")
    command = [base.python, "-m", "benches.compare.run", *sys.argv[1:]]
    os.chdir(ROOT)
    os.execv(base.python, command)
