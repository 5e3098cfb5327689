# SPDX-License-Identifier: Apache-2.0
"""Test vectors of the wire format.

An implementation that was written from doc/wire.md alone computes everything in
tests/vectors/wire.json again, and takes it apart again where it can."""
from api.capabilities import LinkTopology, requires_link_topology
from api.test import verify
from framework.test_suite import TestSuite, func_test
from wire import vectors


@requires_link_topology(LinkTopology.NO_LINK)
class TestWireVectors(TestSuite):
    """Cases: all_sections_are_known, key_schedule, headers_and_packets, repair_symbols,
    partitions, digests, manifests, frames."""

    def set_up_suite(self) -> None:
        """Read the file."""
        self._value = vectors.load()

    def _check(self, *sections: str) -> None:
        for section in sections:
            problems = vectors.check_section(self._value, section)
            verify(not problems, problems[0] if problems else "")

    @func_test
    def all_sections_are_known(self) -> None:
        """No vector goes unchecked.

        Steps:
            List the sections of the file.
        Verify:
            Each is one that a case here checks, and the version is that of the wire.
        """
        unknown = vectors.unknown_sections(self._value)
        verify(not unknown, f"nobody checks {unknown}")
        verify(self._value["version"] == 1, f"version {self._value['version']}")

    @func_test
    def key_schedule(self) -> None:
        """Labels, chains, keys, nonces.

        Steps:
            Derive chain, key and IV of each direction, queue and generation; xor nonces.
        Verify:
            All are those of the file.
        """
        self._check("expand_label", "keys", "nonce")

    @func_test
    def headers_and_packets(self) -> None:
        """Whole sealed packets.

        Steps:
            Encode and decode each header; seal and open each packet, once with a wrong flag.
        Verify:
            Bytes are those of the file; the wrong one does not open.
        """
        self._check("header", "packet")

    @func_test
    def repair_symbols(self) -> None:
        """The Cauchy code.

        Steps:
            Compute coefficients and repair symbols; decode blocks from each.
        Verify:
            All are those of the file, decoded blocks the source.
        """
        self._check("coefficient", "repair")

    @func_test
    def partitions(self) -> None:
        """How streams are cut.

        Steps:
            Partition each stream, up to 4 TiB.
        Verify:
            Blocks, first symbols and last bytes are those of the file.
        """
        self._check("partition")

    @func_test
    def digests(self) -> None:
        """CRC-64 and its linearity.

        Steps:
            Digest the data whole and in two pieces; shift digests by up to a tebibyte.
        Verify:
            All are those of the file.
        """
        self._check("digest", "digest_shift")

    @func_test
    def manifests(self) -> None:
        """Manifest records.

        Steps:
            Encode and decode each manifest, also one byte too short and too long.
        Verify:
            Bytes are those of the file; wrong lengths are refused.
        """
        self._check("manifest")

    @func_test
    def frames(self) -> None:
        """Control frames.

        Steps:
            Encode and decode each frame, also cut at every byte and with one byte more; decode
            what must be refused.
        Verify:
            Bytes are those of the file; everything wrong is refused.
        """
        self._check("varint", "frame", "refused_frame")
