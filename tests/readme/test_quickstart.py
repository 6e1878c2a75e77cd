# SPDX-License-Identifier: Apache-2.0
"""scripts/quickstart: passes, leaves nothing, and notices when verdicts are wrong."""

import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from harness import main
from phasegate import BINARY, LIMIT

SCRIPT = os.path.join(os.environ["PHASEGATE_SOURCE"], "scripts/quickstart")
NAMESPACES = ("pg-demo-client", "pg-demo-internet")
# Allows everything in every phase.
OPEN = f"""#!/bin/bash
[[ "$1 $2" == "run --policy" ]] || exit 99
exec {BINARY} run --policy '{{}}' "${{@:4}}"
"""


class Quickstart(unittest.TestCase):
    def start(self, binary=BINARY):
        return subprocess.Popen([SCRIPT, "-b", binary], text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def finish(self, process):
        output, _ = process.communicate(timeout=LIMIT)
        return process.returncode, output

    def tearDown(self):
        for name in NAMESPACES:
            self.assertFalse(os.path.exists("/run/netns/" + name), name)

    def test_all_verdicts(self):
        status, output = self.finish(self.start())
        self.assertEqual(status, 0, output)
        self.assertIn("verdicts are as they must be", output)

    def test_wrong_verdicts_are_noticed(self):
        with tempfile.NamedTemporaryFile("w", prefix="pgt-", delete=False) as file:
            self.addCleanup(os.unlink, file.name)
            file.write(OPEN)
            os.fchmod(file.fileno(), 0o755)
        status, output = self.finish(self.start(file.name))
        self.assertEqual(status, 1, output)
        self.assertIn("verdicts are not as they must be", output)

    def test_interrupted(self):
        """Once the policy is shown, the namespaces exist."""
        process = self.start()
        for line in process.stdout:
            if "phasegate run" in line:
                break
        process.send_signal(signal.SIGTERM)
        status, output = self.finish(process)
        self.assertEqual(status, 128 + signal.SIGTERM, output)

    def test_not_root(self):
        # A clone below /root is not to be read by others.
        with tempfile.TemporaryDirectory(prefix="pgt-") as folder:
            os.chmod(folder, 0o755)
            shutil.copytree(os.path.dirname(SCRIPT), folder + "/scripts")
            done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", "bash",
                                   folder + "/scripts/quickstart"], cwd="/", text=True,
                                  capture_output=True, check=False, timeout=LIMIT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("must run as root", done.stderr)


if __name__ == "__main__":
    main()
