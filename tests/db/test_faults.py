import errno

import apsw
import pytest

from agent.db.faults import (
    PAUSE_S,
    FaultClass,
    classify,
    is_host_io,
    is_sqlite_busy,
    is_sqlite_corrupt,
    is_sqlite_disk_full,
    is_sqlite_io_transient,
)
from agent.errors import BreakerOpen


def sqlite_error(code: int) -> Exception:
    error = apsw.exception_for(code)
    assert error.extendedresult == code
    return error


@pytest.mark.parametrize("code", [5, 6, 261, 262, 517, 773])
def test_is_sqlite_busy_knows_busy_and_locked(code: int) -> None:
    assert is_sqlite_busy(sqlite_error(code))
    assert classify(sqlite_error(code)) is FaultClass.BUSY


@pytest.mark.parametrize("code", [14, 270, 526, 1546, 4618, 4874, 5386, 8714])
def test_is_sqlite_io_transient_knows_the_seeds_list(code: int) -> None:
    assert is_sqlite_io_transient(sqlite_error(code))
    assert classify(sqlite_error(code)) is FaultClass.IO_TRANSIENT


def test_an_open_breaker_is_transient() -> None:
    assert is_sqlite_io_transient(BreakerOpen("too many failures"))


def test_is_sqlite_disk_full_knows_full() -> None:
    assert is_sqlite_disk_full(sqlite_error(13))
    assert classify(sqlite_error(13)) is FaultClass.DISK_FULL


@pytest.mark.parametrize("code", [11, 26, 267, 523])
def test_is_sqlite_corrupt_knows_corrupt_and_notadb(code: int) -> None:
    assert is_sqlite_corrupt(sqlite_error(code))
    assert classify(sqlite_error(code)) is FaultClass.CORRUPT


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_the_hosts_storage_errors_are_host_io(number: int) -> None:
    assert is_host_io(OSError(number, "x"))
    assert classify(OSError(number, "x")) is FaultClass.HOST_IO


@pytest.mark.parametrize("code", [8, 10, 266, 778, 1034])
def test_readonly_and_other_io_errors_of_sqlite_are_host_io(code: int) -> None:
    assert classify(sqlite_error(code)) is FaultClass.HOST_IO


@pytest.mark.parametrize("error", [ValueError("x"), OSError(errno.ENOENT, "x"), apsw.ConstraintError("x")])
def test_errors_of_the_work_are_not_the_databases(error: Exception) -> None:
    assert classify(error) is FaultClass.OTHER


def test_every_extended_code_has_exactly_one_class() -> None:
    checks = (is_sqlite_busy, is_sqlite_io_transient, is_sqlite_disk_full, is_sqlite_corrupt, is_host_io)
    codes = {
        code
        for mapping in (apsw.mapping_result_codes, apsw.mapping_extended_result_codes)
        for code in mapping
        if isinstance(code, int)
    }
    for code in codes - {0, 27, 28, 100, 101, 256, 283, 539}:
        try:
            error = apsw.exception_for(code)
        except ValueError:
            continue
        assert sum(check(error) for check in checks) <= 1, code


def test_a_cause_is_looked_through() -> None:
    wrapped = RuntimeError("wrapped")
    wrapped.__cause__ = sqlite_error(13)
    assert classify(wrapped) is FaultClass.DISK_FULL


def test_the_pauses_are_those_of_the_design() -> None:
    assert PAUSE_S[FaultClass.BUSY] == 1.0
    assert PAUSE_S[FaultClass.IO_TRANSIENT] == 30.0
    assert PAUSE_S[FaultClass.DISK_FULL] == PAUSE_S[FaultClass.HOST_IO] == 300.0
