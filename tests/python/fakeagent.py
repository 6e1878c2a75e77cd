# SPDX-License-Identifier: Apache-2.0
"""An agent of a test: answers with what the test says, and keeps what it was asked."""

import contextlib
import http.server
import json
import os
import socketserver
import tempfile
import threading
import time

ENVIRONMENT = {
    "name": "e", "id": 7, "owner": 0, "phase": "setup", "denied": False, "generation": 1,
    "modes": {"setup": "public", "run": "public", "verifier": "public"},
    "members": [{"cgroup": "/phasegate/e", "id": 7, "kind": "new"}],
    "cgroup_parent": "/phasegate/e", "verifier": "same", "member_traffic": "allow",
    "populated": False, "frozen": False, "lease": None}
PHASE = {"network_mode": "public", "entries": [], "origin": "default", "added": 0}
DETAIL = {**ENVIRONMENT, "warnings": [], "exposures": [], "links": [], "connections": None,
          "counters": None, "dns": {},
          "policy": {"setup": PHASE, "run": PHASE, "verifier": None}}
CHANGE = {"name": "e", "phase": "run", "generation": 2, "changed": True, "took_us": 3,
          "closed": 0, "close_us": 0.5, "widened": False, "survivors_choice": None,
          "survivors": [], "lease": None, "warnings": []}


def problem(code, **more):
    return {"code": code, "message": "no", "object": None, "next_step": "wait", **more}


class FakeAgent:
    """answer(method, target, body) returns (status, reply); LOST ends the connection instead, HUNG
    never answers."""

    LOST, HUNG = "lost", "hung"
    backlog = 128

    def __init__(self, answer=None):
        self.directory = tempfile.TemporaryDirectory(prefix="pgt-")
        self.path = os.path.join(self.directory.name, "agent.sock")
        self.answer = answer or self.life
        self.requests = []
        self.generation = 1
        self.phase = "setup"
        self._server = None

    def life(self, method, target, body):
        """As the real one does, of one Environment."""
        if method == "DELETE":
            return 200, {"name": "e", "destroyed": True}
        if target.endswith("/phase"):
            expected = body.get("expected_generation", self.generation)
            if expected != self.generation:
                return 409, problem("generation_mismatch", phase=self.phase, denied=False,
                                    generation=self.generation)
            changed = body["phase"] != self.phase
            self.generation += changed
            self.phase = body["phase"]
            return 200, {**CHANGE, "phase": self.phase, "generation": self.generation,
                         "changed": changed}
        return 201 if method == "POST" else 200, {**DETAIL, "phase": self.phase,
                                                  "generation": self.generation}

    def start(self):
        agent = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self):
                size = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(size)) if size else None
                agent.requests.append((self.command, self.path, body))
                result = agent.answer(self.command, self.path, body)
                self.close_connection = True
                if result == agent.LOST:
                    return
                if result == agent.HUNG:
                    agent.hung.wait()
                    return
                status, reply = result
                kind = "application/json"
                if isinstance(reply, list):
                    kind = "application/x-ndjson"
                    reply = "".join(json.dumps(line) + "\n" for line in reply)
                elif not isinstance(reply, str):
                    reply = json.dumps(reply)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(reply.encode())))
                self.end_headers()
                self.wfile.write(reply.encode())

            do_GET = do_POST = do_PUT = do_DELETE = handle_one

            def log_message(self, *_):
                pass

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True
            request_queue_size = agent.backlog

            def handle_error(self, *_):
                """A client that has gone is no error of the test's."""

        self.hung = threading.Event()
        self._server = Server(self.path, Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def stop(self):
        if self._server:
            self.hung.set()
            self._server.shutdown()
            self._server.server_close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            self._server = None

    def close(self):
        self.stop()
        self.directory.cleanup()

    def wait_for(self, count, limit=10):
        """Until so many requests have come."""
        deadline = time.monotonic() + limit
        while len(self.requests) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"only {self.requests}")
            time.sleep(0.01)

    @property
    def calls(self):
        """(method, last part of the path, phase) of each request."""
        return [(method, target.split("?")[0].rsplit("/", 1)[1], (body or {}).get("phase"))
                for method, target, body in self.requests]
