# SPDX-License-Identifier: Apache-2.0
"""All vectors in containers of Docker that run when the agent attaches to them."""

import unittest

from case import POLICY, VectorsTest
from containers import ADMIN, DEFAULT, Docker, DockerHost
from harness import main
from world import BRIDGE, NETWORK4, NETWORK6


@unittest.skipUnless(Docker.available, "needs dockerd, docker, containerd, runc and busybox")
class DockerVectors(VectorsTest):
    @classmethod
    def set_up(cls):
        cls.docker = DockerHost()
        cls.addClassCleanup(cls.docker.close)
        cls.SETTINGS = {"docker_socket": cls.docker.socket, "podman_socket": "/nonexistent",
                        "containerd_state": cls.docker.containerd,
                        "exposures": {"cap_net_admin": "warn"}}
        cls.docker.begin(cls.world, BRIDGE, NETWORK4, NETWORK6)
        cls.world.watch("link", cls.world.host, BRIDGE)

    def test_vectors(self):
        containers, environments = {}, []
        for privilege in (DEFAULT, ADMIN):
            containers[privilege] = Docker(self.world, self.docker, privilege)
            made = self.create(POLICY, members=[{"container": containers[privilege].container}])
            environments.append(made["name"])
        self.check(self.run_all(containers, environments))


if __name__ == "__main__":
    main()
