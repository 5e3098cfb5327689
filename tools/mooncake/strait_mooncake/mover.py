# SPDX-License-Identifier: Apache-2.0
"""Moves objects between the store and the pool, in batches: a thread each way, one for checks.

Out of the store: lease and descriptor, read into the pool, digest, descriptor again. What lies
elsewhere by then, or is gone, was perhaps overwritten while it was read, and is not shipped.

Into the store: the bytes are held against their digest first, then PutStart and PutEnd follow each
other within one call, so that an engine's own Put of the same key waits for nothing. What the store
has already is left as it is.
"""

import collections
import contextlib
import errno
import logging
import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from strait_mooncake.frames import Frame, Status, Type
from strait_mooncake.pool import Leased, Pool, PoolError, Writer
from strait_mooncake.store import CHECKSUM, RPC_FAILED, Stopped, Store, Unavailable

log = logging.getLogger("mover")

PLACES_MAX = 65536
TRIES = 3  # to read an object that the store says it has
RETRY_S = 0.2
FULL_MAX_S = 5.0
POLITE = 5  # nice
READ_BYTES = 16 << 20  # of one batch: the line waits for the first one
READ_LEAST = 4


@dataclass
class Job:
    """One frame of the edge, of one connection."""

    epoch: int
    frame: Frame


@dataclass
class Counters:
    """Since the gateway was started."""

    staged: int = 0
    staged_bytes: int = 0
    not_found: int = 0
    gone: int = 0
    changed: int = 0
    checked: int = 0
    stale: int = 0
    checksum: int = 0
    no_room: int = 0
    put: int = 0
    put_bytes: int = 0
    existed: int = 0
    corrupt: int = 0
    put_retries: int = 0
    store_away: int = 0
    connections: int = 0
    reading: int = 0  # now, out of the store


@dataclass
class Mover:
    """What both directions share."""

    store: Store
    pool: Pool
    counters: Counters
    batch: int
    batch_bytes: int
    # Tells the edge; False: that connection is no more.
    answer: Callable[[Job, Frame], bool]
    stop: threading.Event
    stage: "queue.SimpleQueue[Job]" = field(default_factory=queue.SimpleQueue)
    put: "queue.SimpleQueue[Job]" = field(default_factory=queue.SimpleQueue)
    check: "queue.SimpleQueue[Job]" = field(default_factory=queue.SimpleQueue)
    # Where the store had what was staged; the oldest go first.
    places: "collections.OrderedDict[bytes, tuple[int, object]]" = field(
        default_factory=collections.OrderedDict)
    places_lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Objects read at once; their size is known when some were read."""
        self.read_most = min(self.batch, 2 * READ_LEAST)

    def take(self, jobs: "queue.SimpleQueue[Job]") -> list[Job]:
        """The next ones, at least one."""
        out: list[Job] = []
        size = 0
        while not out:
            if self.stop.is_set():
                raise Stopped
            try:
                out.append(jobs.get(timeout=0.2))
            except queue.Empty:
                continue
        size = out[0].frame.length
        most = self.read_most if jobs is self.stage else self.batch
        while len(out) < most and size < self.batch_bytes:
            try:
                out.append(jobs.get_nowait())
            except queue.Empty:
                break
            size += out[-1].frame.length
        return out

    def run(self, jobs: "queue.SimpleQueue[Job]", move: Callable[[list[Job]], None]) -> None:
        """A direction's thread.

        Mooncake's client polls in it until its own threads are done: it must not keep them from
        a processor.
        """
        me = threading.get_native_id()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, me, os.getpriority(os.PRIO_PROCESS, me) + POLITE)
        try:
            while True:
                batch = self.take(jobs)
                while True:
                    try:
                        move(batch)
                        break
                    except Unavailable as e:
                        self.counters.store_away += 1
                        log.warning("store away: %s", e)
                        self.store.pause()
        except Stopped:
            pass

    def _say(self, job: Job, kind: Type, status: Status, length: int = 0) -> bool:
        return self.answer(job, Frame(kind, job.frame.id, job.frame.key, status, length))

    # ---- store -> pool

    def move_out(self, batch: list[Job]) -> None:
        """Stage a batch; all of it is answered, or none and Unavailable is raised."""
        keys = [j.frame.key for j in batch]
        there = self.store.exist(keys)
        before = self.store.describe([k for k, yes in zip(keys, there, strict=True) if yes])
        done: list[tuple[Job, Status, int]] = []
        work: list[tuple[Job, Writer]] = []
        try:
            for job, yes in zip(batch, there, strict=True):
                key = job.frame.key
                if not yes or (key not in before and not self._on_disk(key, before)):
                    self.counters.not_found += 1
                    done.append((job, Status.NOT_FOUND, 0))
                    continue
                status, writer = self._space(key, before[key][0])
                if writer is None:
                    done.append((job, status, before[key][0]))
                else:
                    work.append((job, writer))
            got = self._read(work)
        except (Unavailable, Stopped):
            for _, writer in work:
                self.pool.abort(writer)
            raise
        total = sum(writer.length for _, writer in work)
        if total > 0:
            self.read_most = min(self.batch, max(READ_LEAST, READ_BYTES * len(work) // total))
        whole = []
        for (job, writer), ok in zip(work, got, strict=True):
            if ok:
                self.pool.commit(writer)
                whole.append((job, writer.length))
            else:
                self.pool.abort(writer)
                done.append((job, Status.GONE, 0))
        done += self._still_there(whole, before)
        for job, status, length in done:
            if status == Status.GONE:
                self.counters.gone += 1
            if not self._say(job, Type.STAGED, status, length) and status == Status.OK:
                self.pool.remove(job.frame.key)

    def _on_disk(self, key: bytes, before: dict[bytes, tuple[int, object]]) -> bool:
        """Not in memory: the store reads it from where it is, its place cannot be compared."""
        size = self.store.size(key)
        if size <= 0:
            return False
        before[key] = (size, None)
        return True

    def _space(self, key: bytes, size: int) -> tuple[Status, Writer | None]:
        for _ in range(2):
            try:
                return Status.OK, self.pool.begin(key, size)
            except PoolError as e:
                if e.errno == errno.EEXIST:  # of an edge or a gateway that is gone
                    self.pool.remove(key)
                    continue
                if e.errno == errno.ENOSPC:
                    self.counters.no_room += 1
                    return Status.NO_ROOM, None
                if e.errno == errno.EFBIG:
                    return Status.TOO_LARGE, None
                log.warning("no space for an object: %s", e)
                break
        return Status.GONE, None

    def _read(self, work: Sequence[tuple[Job, Writer]]) -> list[bool]:
        """Which were read whole."""
        ok = [False] * len(work)
        left = list(range(len(work)))
        for attempt in range(TRIES):
            if not left:
                break
            if attempt > 0:
                self.store.pause(RETRY_S)
            self.counters.reading = len(left)
            got = self.store.get([work[i][0].frame.key for i in left],
                                 [work[i][1].address for i in left],
                                 [work[i][1].length for i in left])
            self.counters.reading = 0
            if any(n == RPC_FAILED for n in got):
                raise Unavailable("batch_get_into: the master does not answer")
            for i, n in zip(left, got, strict=True):
                ok[i] = n == work[i][1].length
                self.counters.checksum += n == CHECKSUM
            left = [i for i in left if not ok[i]]
        return ok

    def _still_there(self, whole: Sequence[tuple[Job, int]],
                     before: dict[bytes, tuple[int, object]]
                     ) -> list[tuple[Job, Status, int]]:
        after = self.store.describe([j.frame.key for j, _ in whole]) if whole else {}
        out = []
        for job, length in whole:
            key = job.frame.key
            if before[key][1] is not None and after.get(key) != before[key]:
                self.counters.changed += 1
                self.pool.remove(key)
                out.append((job, Status.GONE, 0))
                continue
            self.counters.staged += 1
            self.counters.staged_bytes += length
            self._remember(key, before[key])
            out.append((job, Status.OK, length))
        return out

    def _remember(self, key: bytes, place: tuple[int, object]) -> None:
        with self.places_lock:
            self.places[key] = place
            self.places.move_to_end(key)
            if len(self.places) > PLACES_MAX:
                self.places.popitem(last=False)

    def move_check(self, batch: list[Job]) -> None:
        """Of objects that were staged a while ago: are they still what the store has?"""
        keys = [j.frame.key for j in batch]
        there = self.store.exist(keys)
        now = self.store.describe([k for k, yes in zip(keys, there, strict=True) if yes])
        for job, yes in zip(batch, there, strict=True):
            key = job.frame.key
            with self.places_lock:
                was = self.places.get(key)
            # Of an earlier gateway, or not in memory: that it is there has to do.
            good = yes and (was is None or was[1] is None or now.get(key) == was)
            self.counters.checked += 1
            self.counters.stale += not good
            self._say(job, Type.CHECKED, Status.OK if good else Status.GONE)

    # ---- pool -> store

    def move_in(self, batch: list[Job]) -> None:
        """Put a batch into the store, again until all of it is there."""
        wait = RETRY_S
        while batch:
            left = self._put_some(batch)
            if left:
                self.counters.put_retries += len(left)
                self.store.pause(wait)
                wait = min(wait * 2, FULL_MAX_S)
            batch = left

    def _put_some(self, batch: list[Job]) -> list[Job]:
        """Returns those that the store had no room for, or could not take."""
        leased: list[tuple[Job, Leased]] = []
        left = []
        try:
            there = self.store.exist([j.frame.key for j in batch])
            for job, yes in zip(batch, there, strict=True):
                if yes:
                    self.counters.existed += 1
                    self._say(job, Type.TAKEN, Status.EXISTS)
                    continue
                try:
                    leased.append((job, self.pool.get(job.frame.key, verify=True)))
                except PoolError as e:
                    log.error("key=%r is not put: %s", job.frame.key, e)
                    self.counters.corrupt += 1
                    self._say(job, Type.TAKEN, Status.CORRUPT)
            codes = self.store.put([j.frame.key for j, _ in leased],
                                   [x.address for _, x in leased],
                                   [x.length for _, x in leased]) if leased else []
            # Success is also what a Put says that found another one of the key going on, which
            # may never end: a client that was killed in the middle. Then again, until it is
            # discarded.
            seen = self.store.exist([j.frame.key for j, _ in leased]) if leased else []
            for (job, x), rc, yes in zip(leased, codes, seen, strict=True):
                if rc == 0 and yes:
                    self.counters.put += 1
                    self.counters.put_bytes += x.length
                else:
                    left.append(job)
        finally:
            for _, x in leased:
                self.pool.release(x)
        again = {id(j) for j in left}
        for job, _ in leased:
            if id(job) not in again:
                self._say(job, Type.TAKEN, Status.OK)
        return left
