# SPDX-License-Identifier: Apache-2.0
"""Ways to send a token to an address, each a sequence of the probe's commands.

Each returns the first failing step, or the last step if all went well. "data" of that last step is
what the server sent back.
"""


def _family(address):
    return "6" if ":" in address else "4"


def _steps(agent, *lines, after=()):
    result = {}
    for line in lines:
        result = agent(line)
        if result["errno"]:
            break
    else:
        for line in after:
            agent(line)
    agent("close 0")
    return result


def _stream(agent, *lines):
    """The server closes too before we do: no packet of the connection follows later."""
    return _steps(agent, *lines, "shutdown 0", "recv 0", after=("recv 0",))


def tcp(agent, address, port, token):
    return _stream(agent, f"socket 0 tcp{_family(address)}", f"connect 0 {address} {port}",
                   f"send 0 {token}")


def tcp_fastopen(agent, address, port, token):
    return _stream(agent, f"socket 0 tcp{_family(address)}", f"fastopen 0 {address} {port} {token}")


def tcp_fastopen_connect(agent, address, port, token):
    return _stream(agent, f"socket 0 tcp{_family(address)}", "option 0 fastopen 1",
                   f"connect 0 {address} {port}", f"send 0 {token}")


def tcp_reconnect(agent, address, port, token):
    """A socket that was connected on loopback and then disconnected."""
    own = "127.0.0.1" if _family(address) == "4" else "::1"
    if address.startswith("::ffff:"):
        own = "::ffff:127.0.0.1"
    agent(f"socket 1 tcp{_family(address)}")
    agent(f"bind 1 {own} 7999")
    agent("listen 1")
    result = _stream(agent, f"socket 0 tcp{_family(address)}", f"connect 0 {own} 7999",
                     "connect 0 unspec 0", f"connect 0 {address} {port}", f"send 0 {token}")
    agent("close 1")
    return result


def udp_connected(agent, address, port, token):
    return _steps(agent, f"socket 0 udp{_family(address)}", f"connect 0 {address} {port}",
                  f"send 0 {token}", "recv 0")


def udp_sendto(agent, address, port, token):
    return _steps(agent, f"socket 0 udp{_family(address)}",
                  f"sendto 0 {address} {port} {token}", "recv 0")


def udp_sendmmsg(agent, address, port, token):
    return _steps(agent, f"socket 0 udp{_family(address)}",
                  f"sendmmsg 0 {address} {port} {token}", "recv 0")


def udp_inet_on_inet6(agent, address, port, token):
    """An AF_INET sockaddr on an AF_INET6 socket (IPv4 only)."""
    return _steps(agent, "socket 0 udp6", f"sendto 0 {address} {port} {token}", "recv 0")


def udp_unspec(agent, address, port, token):
    """An AF_UNSPEC sockaddr, which sendto takes for AF_INET (IPv4 only)."""
    return _steps(agent, "socket 0 udp4", f"sendto 0 unspec:{address} {port} {token}", "recv 0")


EVERY_FAMILY = (tcp, tcp_fastopen, tcp_fastopen_connect, tcp_reconnect, udp_connected, udp_sendto,
                udp_sendmmsg)
IPV4_ONLY = (udp_inet_on_inet6, udp_unspec)
