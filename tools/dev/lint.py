#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of the tree that a compiler does not check. One function per rule; each yields
`file:line: what is wrong`. Looks at tracked files only, so half-written ones do not disturb.
lint_selftest.sh proves that every rule can fail."""
import argparse
import os
import re
import subprocess
import sys

from run_tests import close

MAX_FILE, MAX_FUNCTION, MAX_COLUMNS = 800, 120, 100

# Layers that do no I/O and own no clock, and what they may include from this tree.
PURE = ("dataplane/transport", "dataplane/fec", "dataplane/crypto", "control/log", "control/index",
        "control/planner", "control/orders", "tools/link", "tools/sim")
PURE_MAY_INCLUDE = PURE + ("control/base",)
IMPURE_HEADER = re.compile(r"rte_|event2/|event\.h|zmq|sqlite3|sys/socket|netinet/|sys/epoll|poll\.h")
CLOCK = re.compile(r"\b(clock_gettime|gettimeofday|clock_nanosleep|nanosleep|usleep|sleep|srand|s?random"
                   r"|rand|time|pthread_create|fork)\s*\(")
# The only directories and files that may see DPDK. Keep in step with DPDK_DIRS in the Makefile.
DPDK = ("dataplane/edge", "tests/wan", "tools/wan", "tools/rtehash",
        "tools/bench/edge_floor.c")
# What code that runs per packet must not call (DESIGN section 3 rule 4). Fortified twins count.
FORBIDDEN = set("""malloc calloc realloc free aligned_alloc posix_memalign strdup asprintf vasprintf
    printf fprintf vprintf vfprintf puts fputs putchar putc fputc fwrite fflush perror syslog
    pthread_mutex_lock pthread_rwlock_rdlock pthread_rwlock_wrlock pthread_cond_wait sem_wait
    read write pread pwrite readv writev open close ioctl mmap munmap send recv sendto recvfrom
    sendmsg recvmsg poll select epoll_wait usleep nanosleep sleep syscall sched_yield
    rte_malloc rte_zmalloc rte_calloc rte_free rte_log abort exit __assert_fail""".split())
# Data, not source: no header line, any bytes.
DATA = re.compile(r"^(LICENSE$|tests/vectors/|tests/fuzz/corpus/)|\.(json|jsonl|csv|png|svg|bin|hex|pem|patch)$")
SOURCE = re.compile(r"(^|/)Makefile$|\.(c|h|S|sh|py|mk|proto|map|in|conf|service|ya?ml)$")


def in_any(path, dirs):
    return any(path == d or path.startswith(d + "/") for d in dirs)


class Tree:
    def __init__(self, root):
        self.root = root
        git = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=False)
        if git.returncode == 0 and os.path.exists(os.path.join(root, ".git")):
            names = git.stdout.decode().split("\0")
        else:  # an unpacked release
            names = [os.path.relpath(os.path.join(d, f), root)
                     for d, subs, files in os.walk(root) for f in files
                     if not d[len(root):].startswith(("/build", "/.git"))]
        self.files = sorted(f for f in names if f and os.path.isfile(os.path.join(root, f))
                            and not os.path.islink(os.path.join(root, f)))
        self.c = [f for f in self.files if f.endswith((".c", ".h"))]
        self.text = {f: self._read(f) for f in self.files if not DATA.search(f)}
        self.code = {f: blank_comments(self.text[f]) for f in self.c}

    def _read(self, name):
        with open(os.path.join(self.root, name), "rb") as f:
            return f.read().decode("latin-1")

    def scripts(self):
        return [f for f, t in self.text.items() if t.startswith("#!")]


TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank_comments(text):
    """C with block comments blanked and strings emptied; lines keep their numbers. Line comments
    stay, for the rule that forbids them. #include lines keep their quotes."""
    def blank(m):
        tok = m.group()
        if tok.startswith("/*"):
            return "\n" * tok.count("\n") or " "
        if tok.startswith("//"):
            return "//"
        line = text[text.rfind("\n", 0, m.start()) + 1:m.start()]
        return tok if line.lstrip().startswith("#") else tok[0] * 2
    return TOKEN.sub(blank, text)


def grep(text, rx):
    for n, line in enumerate(text.split("\n"), 1):
        m = rx.search(line)
        if m:
            yield n, m


def rule_format(tree):
    """clang-format has nothing to change"""
    if tree.c:
        p = subprocess.run(["clang-format-14", "--dry-run", "-Werror", *tree.c], cwd=tree.root,
                           capture_output=True, text=True, check=False)
        if p.returncode:
            yield from re.findall(r"^\S+:\d+:\d+: error.*", p.stderr, re.M) or [p.stderr]


def rule_spelling(tree):
    """codespell finds nothing"""
    names = [f for f in tree.text]
    p = subprocess.run(["codespell", *names], cwd=tree.root, capture_output=True, text=True, check=False)
    if p.returncode:
        yield from (p.stdout + p.stderr).splitlines()


def rule_spdx(tree):
    """the first line of a source file names the license"""
    for f, t in tree.text.items():
        if SOURCE.search(f) or t.startswith("#!"):
            lines = t.split("\n")
            line = lines[1] if t.startswith("#!") and len(lines) > 1 else lines[0]
            want = "SPDX-License-Identifier: Apache-2.0"
            if line != f"/* {want} */" if f in tree.code else want not in line:
                yield f"{f}:1: no '{want}'"


def rule_whitespace(tree):
    """no trailing blanks, no CR, one newline at the end"""
    bad = re.compile(r"[ \t]+$|\r")
    for f, t in tree.text.items():
        yield from (f"{f}:{n}: trailing blanks or CR" for n, _ in grep(t, bad))
        if t and (not t.endswith("\n") or t.endswith("\n\n")):
            yield f"{f}: must end in exactly one newline"


def rule_ascii(tree):
    """source is ASCII"""
    for f, t in tree.text.items():
        if SOURCE.search(f):
            yield from (f"{f}:{n}: not ASCII" for n, _ in grep(t, re.compile(r"[^\x00-\x7f]")))


def rule_comments(tree):
    """block comments only"""
    for f, code in tree.code.items():
        yield from (f"{f}:{n}: // comment" for n, _ in grep(code, re.compile("//")))


def rule_pragma(tree):
    """headers start with #pragma once"""
    for f, code in tree.code.items():
        if f.endswith(".h") and code.split(None, 2)[:2] != ["#pragma", "once"]:
            yield f"{f}: no #pragma once before everything else"


def rule_typedef(tree):
    """struct foo is never typedef'd"""
    for f, code in tree.code.items():
        rx = re.compile(r"^\s*typedef\s+(struct|union)\b(?!.*\(\*)")
        yield from (f"{f}:{n}: typedef of a {m.group(1)}" for n, m in grep(code, rx))


def rule_length(tree):
    """files, functions and lines stay readable"""
    for f in tree.c:
        lines = tree.text[f].split("\n")
        if len(lines) - 1 > MAX_FILE:
            yield f"{f}: {len(lines) - 1} lines, at most {MAX_FILE}"
        start = None
        for n, line in enumerate(lines, 1):
            if len(line.expandtabs(8)) > MAX_COLUMNS:
                yield f"{f}:{n}: {len(line.expandtabs(8))} columns, at most {MAX_COLUMNS}"
            if line == "{":
                start = n
            elif line == "}" and start:
                if n - start - 1 > MAX_FUNCTION:
                    yield f"{f}:{start}: function of {n - start - 1} lines, at most {MAX_FUNCTION}"
                start = None


def rule_goto(tree):
    """goto jumps forward only"""
    for f, code in tree.code.items():
        labels = {}
        for n, line in enumerate(code.split("\n"), 1):
            if line == "}":
                labels = {}
            label = re.match(r"\s*(\w+):(?!:)\s*$", line)
            if label and label.group(1) != "default":
                labels[label.group(1)] = n
            jump = re.search(r"\bgoto\s+(\w+)\s*;", line)
            if jump and jump.group(1) in labels:
                yield f"{f}:{n}: goto {jump.group(1)} jumps back to line {labels[jump.group(1)]}"


INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def rule_layers(tree):
    """pure layers include no adapters; DPDK stays in its directories; public headers stand alone"""
    for f, code in tree.code.items():
        for n, m in grep(code, INCLUDE):
            quote, name = m.groups()
            if in_any(f, PURE) and IMPURE_HEADER.match(name):
                yield f"{f}:{n}: a pure layer includes {name}"
            elif in_any(f, PURE) and quote == '"' and not in_any(name, PURE_MAY_INCLUDE):
                yield f"{f}:{n}: a pure layer includes {name} of an adapter layer"
            elif name.startswith("rte_") and not in_any(f, DPDK):
                yield f"{f}:{n}: {name} outside {', '.join(DPDK)}"
            elif f.startswith("include/") and (quote == '"' or "/" in name
                                               and not name.startswith(("strait/", "sys/"))):
                yield f"{f}:{n}: a public header includes {name}"


def rule_clock(tree):
    """pure layers own no clock, no randomness, no thread"""
    for f, code in tree.code.items():
        if in_any(f, PURE) and not f.endswith(("_test.c", "/main.c")):
            yield from (f"{f}:{n}: {m.group(1)}() in a pure layer" for n, m in grep(code, CLOCK))


def rule_scripts(tree):
    """scripts are executable and parse"""
    for f in tree.scripts():
        path = os.path.join(tree.root, f)
        if not os.access(path, os.X_OK):
            yield f"{f}: has #! but is not executable"
        first = tree.text[f].split("\n", 1)[0]
        if "sh" in first:
            p = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
            if p.returncode:
                yield p.stderr.strip()
        elif "python" in first:
            try:
                compile(tree.text[f], f, "exec")
            except SyntaxError as e:
                yield f"{f}:{e.lineno}: {e.msg}"


def rule_patches(tree):
    """patches that disable a guard apply to the tree as it is"""
    for f in tree.files:
        if f.endswith(".patch") and "/mutants/" in f:
            p = subprocess.run(["git", "apply", "--check", "--unsafe-paths", f], cwd=tree.root,
                               capture_output=True, text=True, check=False)
            if p.returncode:
                yield f"{f}: {p.stderr.strip().splitlines()[0]}"


def rule_packet_path(tree):
    """objects that run per packet allocate, print, lock and call the kernel never"""
    for obj in tree.packet_path:
        p = subprocess.run(["nm", "--undefined-only", "--format=posix", obj], capture_output=True,
                           text=True, check=False)
        if p.returncode:
            yield p.stderr.strip()
        for line in p.stdout.splitlines():
            sym = line.split()[0]
            plain = re.sub(r"^__(\w+)_chk$", r"\1", sym)
            if plain in FORBIDDEN:
                yield f"{obj}: calls {plain}"


RULES = {name[5:]: f for name, f in list(globals().items()) if name.startswith("rule_")}


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--root", default=".")
    ap.add_argument("--rule", choices=RULES, action="append", help="only this one")
    ap.add_argument("--packet-path", metavar="OBJ", action="append", default=[])
    ap.add_argument("--list", action="store_true", help="print the rules")
    args = ap.parse_args()
    if args.list:
        print("\n".join(f"{name:12} {f.__doc__}" for name, f in RULES.items()))
        return 0
    tree = Tree(os.path.abspath(args.root))
    tree.packet_path = args.packet_path
    failed = 0
    rules = args.rule or RULES
    for name in rules:
        found = list(RULES[name](tree))
        failed += bool(found)
        for line in found:
            print(f"{name}: {line}")
    close((len(rules) - failed, failed, 0))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
