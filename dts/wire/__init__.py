# SPDX-License-Identifier: Apache-2.0
"""A second implementation of doc/wire.md, written from that text alone.

It shares nothing with the C side, so where the two agree the text says enough. It makes and checks
the test vectors (vectors.py) and plays a whole edge (peer.py) against the real one: what it sends
is authentic, and therefore reaches the code behind the tag however absurd it is."""
