# SPDX-License-Identifier: Apache-2.0
"""Prints where modules go below a prefix, relative to it: a directory that this Python looks into, or
else the one that it is usual to name in PYTHONPATH."""

import os
import sys

prefix = os.path.normpath(sys.argv[1])
below = [path for path in sys.path
         if path.startswith(prefix + "/") and path.endswith("-packages")]
# /usr/local/lib/... is below /usr, too, and is not for packages.
below = [path for path in below if prefix != "/usr" or not path.startswith("/usr/local/")]
print(os.path.relpath(below[0], prefix) if below else
      f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages")
