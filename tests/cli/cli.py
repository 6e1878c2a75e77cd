# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line share: the binary under test, and one way to call it."""

import pathlib
import subprocess
import sys
import unittest

BINARY = sys.argv[1]
VECTORS = pathlib.Path(sys.argv[2])


def phasegate(*arguments, stdin=b""):
    """Runs the binary to its end; output is bytes decoded strictly, since all of it is UTF-8."""
    done = subprocess.run(
        [BINARY, *arguments], input=stdin, capture_output=True, timeout=60, check=False
    )
    done.stdout = done.stdout.decode()
    done.stderr = done.stderr.decode()
    return done


def main():
    unittest.main(argv=sys.argv[:1])
