# SPDX-License-Identifier: Apache-2.0
"""Running `phasegate run`, and talking to the probe inside."""

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time

BINARY = os.environ.get("PHASEGATE_BINARY", "phasegate")
PROBE = os.environ.get("PHASEGATE_PROBE", "probe")
NO_NETWORK, PUBLIC = "no-network", "public"
PHASES = ("setup", "run", "verifier")
FIELDS = {"setup": "network_policy", "run": "run_network_policy",
          "verifier": "verifier_network_policy"}
# No command of these tests takes longer, sanitizers and a busy machine included.
LIMIT = 60


def allowlist(*hosts):
    return {"network_mode": "allowlist", "allowed_hosts": list(hosts)}


def policy(**phases):
    """The text of a policy document: policy(setup="public", run=allowlist(...))."""
    return json.dumps({FIELDS[phase]: value for phase, value in phases.items()})


def dying_with_us(*words):
    """A command line whose process the kernel kills when this one ends."""
    return ["setpriv", "--pdeathsig", "KILL", *words]


# Every process that subprocess waits for; all other children are orphans of the Environment.
started = set()


def reap_orphans():
    """Where init does not, somebody has to: the tests are a child subreaper."""
    with open("/proc/thread-self/children", encoding="ascii") as file:
        children = [int(pid) for pid in file.read().split()]
    for pid in children:
        if pid not in started:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def end_what_was_killed():
    """Most runs of the tests end by SIGKILL; a start ends what such runs have left behind."""
    subprocess.run([BINARY, "run", "--policy", policy(run=NO_NETWORK), "--", "true"],
                   stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT, check=False)


class Run:
    """A `phasegate run` in the client's namespace. words: its options, "--", and the command, which
    keeps every privilege unless another keep is given: most tests are about what hooks judge."""

    def __init__(self, lab, *words, environment=None, stdin=subprocess.PIPE, command=None,
                 json_report=True, keep=("all",)):
        self._errors = tempfile.TemporaryFile()
        kept = [word for one in keep for word in ("--keep", one)]
        words = command or [BINARY, "run", *(["--json"] if json_report else []), *kept, *words]
        self.process = subprocess.Popen(
            dying_with_us(*lab.client.command(*words)), stdin=stdin, stdout=subprocess.PIPE,
            stderr=self._errors, env={**os.environ, **(environment or {})})
        self.pid = self.process.pid
        started.add(self.pid)

    @property
    def stderr(self):
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    @property
    def events(self):
        lines = [line for line in self.stderr.splitlines() if line.startswith("{")]
        return [json.loads(line) for line in lines]

    def phase_report(self, phase):
        return next((e for e in self.events
                     if e.get("event") == "phase" and e.get("phase") == phase), None)

    def line(self, limit=LIMIT):
        """One line of the command's standard output."""
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.kill()
            raise AssertionError(f"no output, status {self.process.returncode}: {self.stderr}")
        return line.decode().rstrip("\n")

    def finish(self, stdin=b""):
        """Closes standard input, waits for the end; returns (status, standard output)."""
        try:
            output, _ = self.process.communicate(stdin, LIMIT)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"does not end: {self.stderr}") from None
        return self.process.returncode, output.decode(errors="replace")

    def wait_stopped(self, limit=LIMIT):
        """Waits until the process has stopped itself (True) or ended (False)."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            deadline = time.monotonic() + limit
            while time.monotonic() < deadline:
                pid, status = os.waitpid(self.pid, os.WUNTRACED | os.WNOHANG)
                if pid and os.WIFSTOPPED(status):
                    return True
                if pid:
                    self.process.returncode = os.waitstatus_to_exitcode(status)
                    return False
                # Another thread may have got the signal: so this wait has an end of its own.
                signal.sigtimedwait({signal.SIGCHLD}, 0.05)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        self.kill()
        raise AssertionError(f"neither stops nor ends: {self.stderr}")

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def close(self):
        self.kill()
        for file in (self.process.stdin, self.process.stdout, self._errors):
            if file:
                with contextlib.suppress(BrokenPipeError):
                    file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            if self.process.poll() is None:
                self.finish()
        finally:
            self.close()


class Agent(Run):
    """The probe under `phasegate run`, driven line by line."""

    def __init__(self, lab, *options, **more):
        super().__init__(lab, *options, "--", PROBE, **more)
        self("print ready")

    def __call__(self, line):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        return json.loads(self.line())


class Unconfined(Agent):
    """The same probe in the same namespace, without a policy: what would arrive."""

    def __init__(self, lab):
        super().__init__(lab, command=[PROBE])


def run_program(lab, name, *words, limit=170):
    """One of the C tests, in the client's namespace; returns (status, output)."""
    program = os.path.join(os.path.dirname(PROBE), "netns_" + name)
    done = subprocess.run(dying_with_us(*lab.client.command(program, *words)), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=limit, check=False)
    return done.returncode, done.stdout
