# SPDX-License-Identifier: Apache-2.0
"""The control: with no policy at all every vector arrives, so a silence elsewhere means a denial."""

import vectors
from harness import NetTest, main, token
from lab import A4, A6, D4, D6, mapped
from recorder import PORT, SYN, TCP


class Harness(NetTest):
    def test_every_vector_arrives(self):
        for vector in vectors.EVERY_FAMILY:
            for address in (A4, D4, A6, D6, mapped(A4), mapped(D4)):
                with self.subTest(vector=vector.__name__, address=address):
                    self.assert_reaches(self.unconfined, vector, address, PORT)
        for vector in vectors.IPV4_ONLY:
            with self.subTest(vector=vector.__name__):
                self.assert_reaches(self.unconfined, vector, D4, PORT)

    def test_fast_open_carries_payload_in_the_syn(self):
        for vector in (vectors.tcp_fastopen, vectors.tcp_fastopen_connect):
            mark = token("syn")
            vector(self.unconfined, D4, PORT, mark)
            syns = [p for p in self.capture.to(D4) if p.protocol == TCP and p.flags & SYN]
            self.assertEqual([p.payload for p in syns], [mark.encode()], vector.__name__)

    def test_capture_sees_a_packet_to_a_closed_port(self):
        vectors.udp_connected(self.unconfined, D6, 9, token())
        self.assertEqual(len(self.capture.to(D6)), 1)


if __name__ == "__main__":
    main()
