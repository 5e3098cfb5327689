#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packet-level tests of Strait: real programs in network namespaces, packets by scapy.

    dts/main.py [--test-suite 'malformed_headers payload_truncated'] [--seed N] [--re-run N]

Needs root. `make dts` builds what is needed and runs everything; see dts/README.md."""
import sys

# Before anything of the harness is imported: no bytecode in the tree.
sys.dont_write_bytecode = True

try:
    from framework.runner import main
    from framework.settings import parse_settings
except ImportError as missing:
    sys.stderr.write(f"dts: {missing}; `make dts` installs what is missing, for "
                     "/usr/bin/python3\n")
    sys.exit(2)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], parse_settings(sys.argv[1:])))
