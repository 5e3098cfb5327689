# SPDX-License-Identifier: Apache-2.0
"""The socket an edge connects to, and the threads behind it."""

import collections
import contextlib
import ctypes
import dataclasses
import json
import logging
import os
import selectors
import socket
import threading

from strait_mooncake.frames import FRAME_MAX, VERSION, Frame, FrameError, Type
from strait_mooncake.mover import Counters, Job, Mover
from strait_mooncake.pool import Pool, PoolError
from strait_mooncake.store import Store, Unavailable

log = logging.getLogger("gateway")

POLL_S = 0.2


class Gateway:
    """Serves one edge at a time; a newer connection takes over."""

    def __init__(self, lib: ctypes.CDLL, path: str, pool_path: str, tenant: str, store: Store,
                 batch: int, batch_bytes: int, stop: threading.Event) -> None:
        self._lib, self._path, self._pool_path = lib, path, pool_path
        self._tenant, self._store, self._stop = tenant.encode(), store, stop
        self._batch, self._batch_bytes = batch, batch_bytes
        self._counters = Counters()
        self._selector = selectors.DefaultSelector()
        self._edge: socket.socket | None = None
        self._greeted = False
        self._epoch = 0
        self._mover: Mover | None = None
        self._mover_stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._out: collections.deque[bytes] = collections.deque()
        self._wake_r, self._wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    # ---- answers, from the movers' threads

    def _answer(self, job: Job, frame: Frame) -> bool:
        with self._lock:
            if job.epoch != self._epoch or self._edge is None:
                return False
            self._out.append(frame.encode())
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_w, b"!")
        return True

    # ---- pool

    def _open_pool(self) -> Mover:
        """The pool's file may be another one than last time: the edge made it anew."""
        if self._mover is not None and self._mover.pool.is_current():
            return self._mover
        self._close_pool()
        pool = Pool(self._lib, self._pool_path)
        try:
            self._store.register([pool.arena])
        except Unavailable as e:
            pool.close()
            raise PoolError(11, f"cannot register the pool's memory: {e}") from e
        stop = threading.Event()
        mover = Mover(self._store, pool, self._counters, self._batch, self._batch_bytes,
                      self._answer, stop)
        self._mover, self._mover_stop = mover, stop
        self._threads = [threading.Thread(target=mover.run, args=(jobs, move), daemon=True)
                         for jobs, move in ((mover.stage, mover.move_out),
                                            (mover.put, mover.move_in),
                                            (mover.check, mover.move_check))]
        for t in self._threads:
            t.start()
        log.info("pool path=%s bytes=%d", self._pool_path, pool.arena[1])
        return mover

    def _close_pool(self) -> None:
        if self._mover is None:
            return
        self._mover_stop.set()
        for t in self._threads:
            t.join()
        self._store.register([])
        self._mover.pool.close()
        self._mover = None

    # ---- connections

    def _drop(self, connection: socket.socket, why: str) -> None:
        self._selector.unregister(connection)
        connection.close()
        if connection is not self._edge:
            return
        log.warning("edge gone: %s", why)
        with self._lock:
            self._edge = None
            self._greeted = False
            self._epoch += 1
            self._out.clear()
        if self._mover is not None:  # it asks again
            for jobs in (self._mover.stage, self._mover.put, self._mover.check):
                while not jobs.empty():
                    jobs.get_nowait()

    def _hello(self, connection: socket.socket, frame: Frame) -> None:
        if (frame.id, frame.key) != (VERSION, self._tenant):
            self._drop(connection, f"version {frame.id} tenant {frame.key!r}")
            return
        try:
            self._open_pool()
        except PoolError as e:
            log.warning("pool: %s", e)
            self._drop(connection, str(e))  # it tries again in a second
            return
        if self._edge is not None and self._edge is not connection:
            self._drop(self._edge, "another edge took over")
        with self._lock:
            self._edge, self._greeted = connection, True
            self._epoch += 1
            self._out.append(Frame(Type.HELLO, VERSION, self._tenant).encode())
        self._counters.connections += 1
        log.info("edge connected")

    def _frame(self, connection: socket.socket, frame: Frame) -> None:
        if frame.type == Type.STATUS:
            connection.send(json.dumps(self._status()).encode())
        elif frame.type == Type.HELLO:
            self._hello(connection, frame)
        elif connection is not self._edge or self._mover is None:
            self._drop(connection, "a frame before HELLO")
        elif frame.type == Type.STAGE:
            self._mover.stage.put(Job(self._epoch, frame))
        elif frame.type == Type.ARRIVED:
            self._mover.put.put(Job(self._epoch, frame))
        elif frame.type == Type.CHECK:
            self._mover.check.put(Job(self._epoch, frame))
        else:
            self._drop(connection, f"a frame of type {frame.type}")

    def _status(self) -> dict[str, object]:
        waiting = {"stage": 0, "put": 0}
        if self._mover is not None:
            waiting = {"stage": self._mover.stage.qsize(), "put": self._mover.put.qsize()}
        return {"edge": self._greeted, "pool": self._mover is not None, "queued": waiting,
                **dataclasses.asdict(self._counters)}

    def _readable(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(FRAME_MAX + 1)
        except BlockingIOError:
            return
        except OSError as e:
            self._drop(connection, str(e))
            return
        if not data:
            self._drop(connection, "closed")
            return
        try:
            self._frame(connection, Frame.decode(data))
        except (FrameError, OSError) as e:
            self._drop(connection, str(e))

    def _flush(self) -> bool:
        """Send what waits. False: the socket takes no more now."""
        while self._edge is not None and self._out:
            try:
                self._edge.send(self._out[0])
            except BlockingIOError:
                return False
            except OSError as e:
                self._drop(self._edge, str(e))
                return True
            with self._lock:
                if self._out:
                    self._out.popleft()
        return True

    def _listen(self) -> socket.socket:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.path.exists(self._path):
            probe = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                probe.connect(self._path)
                raise OSError(f"another gateway listens at {self._path}")
            except ConnectionRefusedError:
                os.unlink(self._path)
            finally:
                probe.close()
        old = os.umask(0o177)
        try:
            s.bind(self._path)
        finally:
            os.umask(old)
        s.listen(8)
        s.setblocking(False)
        return s

    def run(self) -> None:
        """Until it is stopped."""
        listener = self._listen()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._wake_r, selectors.EVENT_READ)
        print("ready", flush=True)
        try:
            while not self._stop.is_set():
                wait = POLL_S if self._flush() else 0.005
                for key, _ in self._selector.select(wait):
                    if key.fileobj is listener:
                        connection, _ = listener.accept()
                        connection.setblocking(False)
                        self._selector.register(connection, selectors.EVENT_READ)
                    elif key.fd == self._wake_r:
                        os.read(self._wake_r, 4096)
                    elif isinstance(key.fileobj, socket.socket):
                        self._readable(key.fileobj)
        finally:
            listener.close()
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            self._close_pool()
            self._store.close()


def status(path: str) -> str:
    """What a running gateway says of itself, as JSON."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(5)
        s.connect(path)
        s.send(Frame(Type.STATUS, 0).encode())
        return s.recv(65536).decode()
