# SPDX-License-Identifier: Apache-2.0
"""A worker process in a namespace that speaks JSON lines on stdin and stdout: {"ready": ..} first,
then one answer to each request; {"error": TEXT} becomes an exception."""
import json
import select
import subprocess
from pathlib import Path
from typing import Any

from framework.exception import CommandError
from framework.testbed_model.netns_session import NetnsSession


class JsonWorker:
    """Started and ready when made. stop() must be called."""

    def __init__(self, session: NetnsSession, log: Path, *argv: str, cwd: Path) -> None:
        """What it says on stderr goes to log."""
        self._session = session
        self._buffer = b""
        self._name = argv[-1] if len(argv) < 5 else argv[3].rsplit(".", 1)[-1]
        log.write_bytes(b"")
        self._process = session.spawn(*argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=log, cwd=cwd)
        try:
            if "ready" not in self._read(30):
                raise CommandError(f"{self._name} does not get ready")
        except BaseException:
            session.end(self._process, 2)
            raise

    def _read(self, timeout: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([fd], [], [], timeout)
            chunk = self._process.stdout.read1(1 << 20) if ready else b""  # type: ignore
            if not chunk:
                raise CommandError(f"no answer from {self._name} ({self._process.poll()})")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise CommandError(f"{self._name}: {answer['error']}")
        return answer

    def ask(self, timeout: float = 30, **request: Any) -> dict[str, Any]:
        """One request, its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise CommandError(f"{self._name}: {error}") from error
        return self._read(timeout)

    def stop(self) -> None:
        """End the worker; safe to call twice."""
        try:
            if self._process.poll() is None:
                self.ask(timeout=5, op="quit")
        except CommandError:
            pass
        self._session.end(self._process, 2)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
