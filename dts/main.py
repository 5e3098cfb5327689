#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packet-level tests of Strait: real programs in network namespaces, packets by scapy.

    dts/main.py [--test-suite 'malformed_headers payload_truncated'] [--seed N] [--re-run N]

Needs root. `make dts` builds what is needed and runs everything; see dts/README.md."""
import sys

# Before anything of the harness is imported: no bytecode in the tree.
sys.dont_write_bytecode = True

from framework.runner import main  # noqa: E402
from framework.settings import parse_settings  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], parse_settings(sys.argv[1:])))
