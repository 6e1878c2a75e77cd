#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP as RFC 9110 and 9112 have it."""

import contextlib
import json
import socket

from agentcase import AgentTest
from daemon import UnixConnection, connect, read_reply
from harness import main


class Http(AgentTest):
    def send(self, method, target, body=None, **headers):
        """The response, unread, of a connection of its own."""
        connection = UnixConnection(self.daemon.socket)
        self.addCleanup(connection.close)
        # What is refused for its headers is refused before all of its body has been received.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, target, body,
                               {name.replace("_", "-"): value for name, value in headers.items()})
        return connection.getresponse()

    def post(self, body='{"policy":{}}', **headers):
        response = self.send("POST", "/v1/validate", body, **headers)
        return response.status, json.loads(response.read())

    def test_allow(self):
        """RFC 9110, 15.5.6: a server must say what the path has."""
        for method, path, allowed in (
                ("DELETE", "/v1/capabilities", "GET, HEAD"),
                ("PUT", "/v1/environments", "GET, HEAD, POST"),
                ("PATCH", "/v1/environments/a", "GET, HEAD, DELETE"),
                ("GET", "/v1/environments/a/phase", "PUT"), ("HEAD", "/v1/validate", "POST"),
                ("OPTIONS", "/v1/events", "GET, HEAD"), ("TRACE", "/v1/validate", "POST")):
            response = self.send(method, path)
            self.assertEqual((response.status, response.headers["Allow"]), (405, allowed), path)
            if method != "HEAD":
                self.assertEqual(json.loads(response.read())["code"], "method_not_allowed")
        self.assertIsNone(self.send("GET", "/v1/capabilities").headers["Allow"])
        self.assertIsNone(self.send("GET", "/no").headers["Allow"])

    def test_head(self):
        """The same as GET, without the body."""
        name = self.create()["name"]
        for path in ("/v1/capabilities", "/v1/environments", f"/v1/environments/{name}",
                     f"/v1/environments/{name}/explain?host=a.example", "/v1/environments/none",
                     "/no"):
            head, get = self.send("HEAD", path), self.send("GET", path)
            self.assertEqual(head.read(), b"", path)
            self.assertEqual(head.status, get.status, path)
            self.assertEqual(head.headers["Content-Type"], get.headers["Content-Type"], path)
            self.assertEqual(int(head.headers["Content-Length"]), len(get.read()), path)

    def test_media_types(self):
        for kind in ("application/json", "Application/JSON", "application/json; charset=utf-8",
                     'application/json;charset="UTF-8"', "application/json ; charset=UTF-8 ",
                     "application/x-www-form-urlencoded"):
            status, body = self.post(Content_Type=kind)
            self.assertEqual(status, 200, (kind, body))
        for headers in ({"Content_Type": "text/plain"}, {"Content_Type": "application/jsonp"},
                        {"Content_Type": "application/json; charset=iso-8859-1"},
                        {"Content_Type": "multipart/form-data; boundary=x"}, {"Content_Type": ""},
                        {"Content_Type": "application/json; charset=utf-16"},
                        {"Content_Encoding": "gzip"}):
            status, body = self.post(**headers)
            self.assertEqual((status, body["code"]), (415, "media_type_unsupported"), headers)
        self.assertEqual(self.post(Content_Encoding="identity")[0], 200)
        # What has no body has no type.
        self.assertEqual(self.send("GET", "/v1/events", Content_Type="text/plain").status, 200)

    def test_expect(self):
        with connect(self.daemon.socket) as connection:
            connection.sendall(b"POST /v1/validate HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n"
                               b"Expect: 100-continue\r\n\r\n")
            self.assertEqual(connection.recv(65536), b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.sendall(b'{"policy":{}}')
            self.assertIn(b" 200 ", connection.recv(65536))
        with connect(self.daemon.socket) as connection:
            connection.sendall(b"POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n"
                               b"Expect: 100-continue\r\n\r\n")
            self.assertTrue(connection.recv(65536).startswith(b"HTTP/1.1 404 "))

    def test_names_in_paths(self):
        """Percent-encoding is taken off once, of what is one part of the path."""
        name = self.create(name=self.name("a.b_c"))["name"]
        for written in (name, name.replace(".", "%2E"), name.replace("-", "%2d"),
                        "".join(f"%{ord(c):02x}" for c in name)):
            self.assertEqual(self.daemon.call("GET", f"/v1/environments/{written}")["name"], name)
        for written in (name.replace(".", "%252E"), name + "%20", name + "%0a", name + "%",
                        name.replace(".", "%zz"), "%2e%2e"):
            self.assertCode(self.daemon.call("GET", f"/v1/environments/{written}"), "name_invalid")
        self.assertCode(self.daemon.call("GET", "/v1/environments/%2e%2e/%2e"), "route_not_found")

    def test_names_do_not_write_into_the_log(self):
        for name in ("a%0aphasegated: error: forged", "a%0d%0aforged", "%1b[31mforged"):
            self.daemon.call("GET", f"/v1/environments/{name.replace(' ', '%20')}")
            self.daemon.call("GET", f"/v1/events?environment={name.replace(' ', '%20')}")
        self.assertCode(self.daemon.call("POST", "/v1/environments",
                                         {"name": "x\nforged", "policy": {}}), "name_invalid")
        for line in self.daemon.output.splitlines():
            self.assertFalse(line.startswith("forged") or "error: forged" in line, line)

    def test_versions_and_connections(self):
        """1.0 closes, 1.1 goes on unless told otherwise; the rest of a refused body is not read as
        another request."""
        def ask(text):
            with connect(self.daemon.socket) as connection:
                connection.sendall(text)
                connection.shutdown(socket.SHUT_WR)
                reply = b""
                while part := connection.recv(65536):
                    reply += part
            return reply

        one = b"GET /v1/environments HTTP/1.%d\r\nHost: x\r\n%s\r\n"
        self.assertEqual(ask(2 * (one % (1, b""))).count(b" 200 OK"), 2)
        self.assertEqual(ask(one % (1, b"Connection: close\r\n") + one % (1, b"")).count(b" 200 "),
                         1)
        self.assertEqual(ask(2 * (one % (0, b""))).count(b" 200 OK"), 1)
        smuggled = one % (1, b"")
        reply = ask(b"POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                    % (len(smuggled), smuggled))
        self.assertEqual(reply.count(b"HTTP/1.1 "), 1, reply)

    def test_a_body_where_none_is_read(self):
        connection = UnixConnection(self.daemon.socket)
        self.addCleanup(connection.close)
        for _ in range(3):
            connection.request("GET", "/v1/environments", "x" * 100000)
            self.assertEqual(read_reply(connection, "GET", "/v1/environments").status, 200)


if __name__ == "__main__":
    main()
