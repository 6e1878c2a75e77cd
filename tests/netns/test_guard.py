# SPDX-License-Identifier: Apache-2.0
"""The guard of the parent lets through what has an Environment, and nothing else: whatever the
Environments are called, whoever removes the parent, and whoever else works on the host. And what
an owner keeps is in directories that nobody else can write to."""

import os

import cgroups
from harness import main
from keeper import BPFFS, PARENT, PINS, RECORDS, isolate
from lab import A4, B4, D4
from phasegate import PUBLIC, policy
from test_adopt import AdoptTest

TEXT = policy(setup=PUBLIC)
ALL = {A4, B4, D4}


class Guard(AdoptTest):
    def child(self, name):
        """A cgroup below the parent that Phasegate has not made, and a client in it."""
        path = f"/{PARENT}/{name}"
        os.makedirs(cgroups.path_of(path), exist_ok=True)
        self.addCleanup(cgroups.remove, cgroups.path_of(path), "cgroup2")
        return path, self.inside({"member": path})

    def next_keeper(self, keeper):
        keeper.kill()
        return self.keeper()

    def test_an_environment_elsewhere(self):
        """A child of the parent with the name of an Environment whose cgroup is another."""
        elsewhere = self.make_cgroup("elsewhere")
        keeper = self.keeper()
        self.create(keeper, elsewhere, text=TEXT)
        _, stray = self.child(self.name)
        self.assertEqual(self.reachable(stray), set())
        keeper = self.next_keeper(keeper)
        self.assertEqual(self.reachable(stray), set())
        os.unlink(f"{PINS}/+guard/pg_guard_egress")
        keeper = self.next_keeper(keeper)
        self.assertEqual(self.reachable(stray), set())

    def test_a_guard_made_anew(self):
        """Members below the parent stay let through, whatever the Environment is called."""
        keeper = self.keeper()
        path, inside = self.child("given")
        self.create(keeper, path, text=TEXT, options="a")
        _, stray = self.child("stray")
        for pin in ("pg_guard_egress", "pg_guard_admitted"):
            with self.subTest(pin=pin):
                self.assertEqual(self.reachable(inside), ALL)
                os.unlink(f"{PINS}/+guard/{pin}")
                keeper = self.next_keeper(keeper)
                self.assertEqual(self.reachable(inside), ALL)
                self.assertEqual(self.reachable(stray), set())

    def test_an_environment_that_has_ended(self):
        """By a hand that the guard was not told of."""
        keeper = self.keeper()
        path, stray = self.child("given")
        self.create(keeper, path, text=TEXT, options="a")
        keeper.kill()
        for directory, below, names in os.walk(f"{BPFFS}/phasegate", topdown=False):
            for name in names:
                os.unlink(os.path.join(directory, name))
            for name in below:
                os.rmdir(os.path.join(directory, name))
        for name in os.listdir(f"{RECORDS}/{self.name}"):
            os.unlink(f"{RECORDS}/{self.name}/{name}")
        os.rmdir(f"{RECORDS}/{self.name}")
        self.assertEqual(self.reachable(stray), ALL)
        self.keeper()
        self.assertEqual(self.reachable(stray), set())

    def test_the_parent_removed_by_another(self):
        """Who does not keep its Environments removes a parent that is empty, unless it is guarded;
        and one that is gone even so is guarded when it is made anew."""
        keeper = self.keeper()
        other = self.keeper(pins="-")
        # It does not know the guard, and gets no network: the cgroups of both have one parent.
        self.assertEqual(other.refused("create", "other", TEXT, "setup", "-"), "EIO")
        _, stray = self.child("stray")
        self.assertEqual(self.reachable(stray), set())
        stray.finish()
        cgroups.remove(cgroups.path_of(f"/{PARENT}"), "cgroup2")
        inside = self.inside(self.create(keeper, text=TEXT))
        _, stray = self.child("stray")
        self.assertEqual(self.reachable(stray), set())
        self.assertEqual(self.reachable(inside), ALL)

    def test_no_release_below_the_parent(self):
        """There it would have no network at all."""
        keeper = self.keeper()
        path, inside = self.child("given")
        self.create(keeper, path, text=TEXT, options="a")
        self.assertEqual(keeper.refused("destroy", "release"), "EBUSY")
        self.assertEqual(self.reachable(inside), ALL)
        inside.finish()
        self.wait_for(lambda: not cgroups.processes(cgroups.path_of(path)))
        keeper("destroy", "release")


class Directories(AdoptTest):
    """On a BPF file system anybody may make directories, as a rule."""

    def refused(self, path, mode, owner):
        os.chown(path, owner, owner)
        os.chmod(path, mode)
        keeper = self.keeper(ready=False)
        answer = keeper.answer()
        self.assertFalse(answer["ok"], answer)
        self.assertIn(path, answer["error"])
        os.chown(path, 0, 0)
        os.chmod(path, 0o700)
        return answer["errno"]

    def test_of_somebody_else(self):
        for path in (PINS, f"{BPFFS}/phasegate", RECORDS):
            for mode, owner in ((0o700, 65534), (0o777, 0), (0o770, 0)):
                with self.subTest(path=path, mode=oct(mode), owner=owner):
                    os.makedirs(path, exist_ok=True)
                    self.assertEqual(self.refused(path, mode, owner), "EPERM")
        os.chmod(RECORDS, 0o711)
        self.keeper()

    def test_a_link(self):
        for path in (RECORDS,):
            os.rmdir(path)
            os.symlink("/tmp", path)
            keeper = self.keeper(ready=False)
            self.assertFalse(keeper.answer()["ok"])
            os.unlink(path)


if __name__ == "__main__":
    isolate()
    main()
