#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every `python` block of README.md, as it stands there and in its order, in one program against
the real agent; what its scripts do is judged by the server."""

import os
import re
import subprocess
import sys

from agentcase import AgentTest
from harness import main, token
from lab import A4, D4
from phasegate import LIMIT, dying_with_us
from recorder import PORT

SOURCE = os.environ["PHASEGATE_SOURCE"]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


class Readme(AgentTest):
    def script(self, name, mark):
        """Tries both addresses."""
        path = f"{self.daemon.directory.name}/{name}"
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/bash\n")
            for host in (A4, D4):
                file.write(f"(exec 3<>/dev/tcp/{host}/{PORT} && printf %s '{mark}' >&3)"
                           " 2>/dev/null\n")
            file.write("exit 0\n")
        os.chmod(path, 0o755)

    def test_blocks(self):
        with open(f"{SOURCE}/README.md", encoding="utf-8") as file:
            blocks = BLOCK.findall(file.read())
        self.assertGreater(len(blocks), 2)
        marks = {name: token(name) for name in ("setup", "agent", "score")}
        for name, mark in marks.items():
            self.script(name, mark)
        done = subprocess.run(
            dying_with_us(*self.lab.client.command(sys.executable, "-W", "error", "-c",
                                                   "\n".join(blocks))),
            cwd=self.daemon.directory.name, capture_output=True, text=True, timeout=LIMIT,
            check=False, env={**os.environ, "PYTHONPATH": os.environ["PHASEGATE_PYTHON"],
                              "PHASEGATE_SOCKET": self.daemon.socket})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "example.com\n")
        self.fence()
        seen = {name: {a.address for a in self.recorder.arrivals(mark)}
                for name, mark in marks.items()}
        self.assertEqual(seen, {"setup": {A4, D4}, "agent": {A4}, "score": set()})
        self.assertEqual(self.daemon.call("GET", "/v1/environments")["environments"], [])


if __name__ == "__main__":
    main()
