# SPDX-License-Identifier: Apache-2.0
"""A network namespace behind a veth, routed as containers are: a box of one address, whose packets
the client's namespace of the lab forwards."""

import json
import subprocess

from lab import Namespace

# Every box is routed by the same one, on its own link.
ROUTER = "169.254.77.1"


def let_forward(lab):
    """The server asks for the addresses of boxes as if they were on its link."""
    lab.client.sysctl(ipv4__ip_forward=1, ipv4__conf__eth0__proxy_arp=1)


class Box:
    def __init__(self, lab, number):
        self.lab, self.device = lab, f"pgbox{number}"
        self.address = f"192.0.2.{100 + number}"
        self.namespace = Namespace()
        # As Lab has it: the first segment carries data.
        self.namespace.sysctl(ipv4__tcp_fastopen=0x207)
        lab.client.ip(f"link add {self.device} type veth peer name eth0"
                      f" netns {self.namespace.path}",
                      f"addr add {ROUTER}/32 dev {self.device}", f"link set {self.device} up",
                      f"route add {self.address}/32 dev {self.device}")
        self.namespace.ip("link set lo up", "link set eth0 up",
                          f"addr add {self.address}/32 dev eth0",
                          f"route add {ROUTER} dev eth0", f"route add default via {ROUTER}")

    @property
    def station(self):
        """The Ethernet address of the host's end."""
        shown = subprocess.run(
            self.lab.client.command("ip", "-json", "link", "show", "dev", self.device),
            capture_output=True, check=True)
        return json.loads(shown.stdout)[0]["address"]

    def close(self):
        self.lab.client.ip(f"link del {self.device}")
        self.namespace.close()
