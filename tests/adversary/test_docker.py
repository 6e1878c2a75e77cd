# SPDX-License-Identifier: Apache-2.0
"""All vectors in containers of Docker that run when the agent attaches to them."""

from case import POLICY, VectorsTest
from containers import ADMIN, DEFAULT, Docker, WithDocker
from harness import main


class DockerVectors(WithDocker, VectorsTest):
    EXPOSURES = {"cap_net_admin": "warn"}

    def test_vectors(self):
        containers, environments = {}, []
        for privilege in (DEFAULT, ADMIN):
            containers[privilege] = Docker(self.world, self.docker, privilege)
            made = self.create(POLICY, members=[{"container": containers[privilege].container}])
            environments.append(made["name"])
        self.check(self.run_all(containers, environments))


if __name__ == "__main__":
    main()
