# SPDX-License-Identifier: Apache-2.0
"""tshark with Strait's dissector, run on captures of suites."""
import subprocess
from pathlib import Path

from framework.exception import CommandError
from framework.settings import ROOT_DIR

DISSECTOR = ROOT_DIR / "tools/wireshark/strait.lua"

Packet = dict[str, list[str]]


def dissect(capture: Path, fields: list[str], display_filter: str = "strait",
            key_log: Path | None = None) -> list[Packet]:
    """The fields, each with all its values, of each packet that the filter lets pass."""
    argv = ["tshark", "-n", "-X", f"lua_script:{DISSECTOR}", "-r", str(capture), "-Y",
            display_filter, "-T", "fields", "-E", "separator=/t", "-E", "aggregator=;"]
    if key_log is not None:
        argv += ["-o", f"strait.key_log:{key_log}"]
    for field in fields:
        argv += ["-e", field]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    noise = [line for line in done.stderr.splitlines() if "Running as user" not in line]
    if done.returncode != 0 or any("Lua" in line or "error" in line.lower() for line in noise):
        raise CommandError(f"tshark: status {done.returncode}: {' / '.join(noise)}")
    out = []
    for line in done.stdout.splitlines():
        values = (line.split("\t") + [""] * len(fields))[:len(fields)]
        out.append({field: value.split(";") if value else []
                    for field, value in zip(fields, values, strict=True)})
    return out
