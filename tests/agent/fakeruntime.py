# SPDX-License-Identifier: Apache-2.0
"""A container runtime's socket that says what a test wants, or nothing at all."""

import contextlib
import json
import os
import socket
import tempfile
import threading


class FakeRuntime:
    """Answers GET of each path in .answers ({path: (status, document)}); any other with 404. None
    instead of an answer: silence."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="pgt-runtime-")
        self.path = f"{self.directory.name}/sock"
        self.answers = {}
        self.silent = False
        self.asked = threading.Semaphore(0)
        self.held = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(512)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def add_container(self, name, pid, **more):
        """One that runs, with the process."""
        document = {"Id": "%064x" % (1 << 255 | hash(name) % (1 << 60)), "Name": "/" + name,
                    "State": {"Running": True, "Pid": pid}, "HostConfig": {"NetworkMode": "none"},
                    **more}
        for key in (name, document["Id"]):
            self.answers[f"/containers/{key}/json"] = (200, document)
        self.answers.setdefault("/containers/json", (200, []))
        return document

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.asked.release()
            if self.silent:
                self.held.append(connection)
                continue
            with connection, contextlib.suppress(OSError):
                self.answer(connection)

    def answer(self, connection):
        request = connection.recv(65536)
        if not request:
            return
        status, document = self.answers.get(request.split()[1].decode(), (404, {}))
        text = json.dumps(document)
        connection.sendall(f"HTTP/1.1 {status} x\r\nContent-Length: {len(text)}\r\n"
                           f"Connection: close\r\n\r\n{text}".encode())

    def let_go(self):
        """Of whoever waits."""
        for connection in self.held:
            connection.close()
        self.held.clear()

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        self.let_go()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.directory.cleanup()
