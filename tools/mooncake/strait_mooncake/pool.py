# SPDX-License-Identifier: Apache-2.0
"""An edge's pool through libstrait: objects are filled and read where they lie."""

import ctypes
import os
from dataclasses import dataclass

GET_VERIFY = 1


class PoolError(Exception):
    """A call of libstrait failed; errno is positive."""

    def __init__(self, errno: int, what: str) -> None:
        super().__init__(f"{what}: {os.strerror(errno)}")
        self.errno = errno


class _Object(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("len", ctypes.c_size_t), ("digest", ctypes.c_uint64),
                ("handle", ctypes.c_uint64))


class _Writer(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("len", ctypes.c_size_t), ("handle", ctypes.c_uint64))


@dataclass
class Leased:
    """An object that stays until Pool.release()."""

    address: int
    length: int
    digest: int
    raw: _Object


@dataclass
class Writer:
    """Space for an object, invisible until Pool.commit()."""

    address: int
    length: int
    raw: _Writer


def load(path: str) -> ctypes.CDLL:
    """The library, with the signatures of include/strait/strait.h."""
    lib = ctypes.CDLL(path, use_errno=True)
    pool, key, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    lib.strait_pool_open.argtypes = [ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint64]
    lib.strait_pool_open.restype = pool
    lib.strait_pool_open_error.restype = ctypes.c_char_p
    lib.strait_pool_close.argtypes = [pool]
    lib.strait_pool_close.restype = None
    lib.strait_pool_arena.argtypes = [pool, ctypes.POINTER(ctypes.c_void_p),
                                      ctypes.POINTER(size)]
    lib.strait_put_begin.argtypes = [pool, key, size, size, ctypes.POINTER(_Writer)]
    lib.strait_put_commit.argtypes = [pool, ctypes.POINTER(_Writer)]
    lib.strait_put_abort.argtypes = [pool, ctypes.POINTER(_Writer)]
    lib.strait_put_abort.restype = None
    lib.strait_get.argtypes = [pool, key, size, ctypes.c_uint, ctypes.POINTER(_Object)]
    lib.strait_release.argtypes = [pool, ctypes.POINTER(_Object)]
    lib.strait_release.restype = None
    lib.strait_remove.argtypes = [pool, key, size]
    return lib


class Pool:
    """One open pool file. Any thread."""

    def __init__(self, lib: ctypes.CDLL, path: str) -> None:
        self._lib, self.path = lib, path
        self._pool = lib.strait_pool_open(path.encode(), 0, 0)
        if not self._pool:
            raise PoolError(ctypes.get_errno(), lib.strait_pool_open_error().decode())
        found = os.stat(path)
        self._file = (found.st_dev, found.st_ino)
        base, length = ctypes.c_void_p(), ctypes.c_size_t()
        self._check(lib.strait_pool_arena(self._pool, ctypes.byref(base), ctypes.byref(length)),
                    "arena")
        self.arena = (int(base.value or 0), length.value)

    def close(self) -> None:
        """End of all leases."""
        if self._pool:
            self._lib.strait_pool_close(self._pool)
        self._pool = None

    def is_current(self) -> bool:
        """Whether the path still names the file that is open."""
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._file

    @staticmethod
    def _check(rc: int, what: str) -> None:
        if rc < 0:
            raise PoolError(-rc, what)

    def begin(self, key: bytes, length: int) -> Writer:
        """Space for a new object."""
        raw = _Writer()
        self._check(self._lib.strait_put_begin(self._pool, key, len(key), length,
                                               ctypes.byref(raw)), "put")
        return Writer(int(raw.data or 0), length, raw)

    def commit(self, writer: Writer) -> None:
        """Take the digest and make it visible."""
        self._check(self._lib.strait_put_commit(self._pool, ctypes.byref(writer.raw)), "commit")

    def abort(self, writer: Writer) -> None:
        """Give the space back."""
        self._lib.strait_put_abort(self._pool, ctypes.byref(writer.raw))

    def get(self, key: bytes, verify: bool = False) -> Leased:
        """Lease an object; with verify only if its bytes match its digest."""
        raw = _Object()
        self._check(self._lib.strait_get(self._pool, key, len(key), GET_VERIFY if verify else 0,
                                         ctypes.byref(raw)), "get")
        return Leased(int(raw.data or 0), raw.len, raw.digest, raw)

    def release(self, leased: Leased) -> None:
        """End the lease."""
        self._lib.strait_release(self._pool, ctypes.byref(leased.raw))

    def remove(self, key: bytes) -> None:
        """Make it vanish, if it is there."""
        self._lib.strait_remove(self._pool, key, len(key))
