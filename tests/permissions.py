"""Reading as an ordinary user although the tests run as root: file permissions are root's only by a capability."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_DAC = (1 << 1) | (1 << 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@contextmanager
def ordinary_permissions() -> Iterator[None]:
    """Let file permissions hold for this thread, as they do for anybody but root; does nothing for anybody else."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = _Header(_VERSION, 0), (_Sets * 2)()

    def call(name: str) -> None:
        if getattr(libc, name)(ctypes.byref(header), sets) != 0:
            raise OSError(ctypes.get_errno(), name)

    call("capget")
    before = sets[0].effective
    sets[0].effective = before & ~_DAC
    call("capset")
    try:
        yield
    finally:
        sets[0].effective = before
        call("capset")
