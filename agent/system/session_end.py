"""The end of the session on Windows: answered at once, and what the agent holds is put away before it is over.

Windows asks every window whether the session may end (``WM_QUERYENDSESSION``) and then says that it does
(``WM_ENDSESSION``), or that somebody else refused. A program that keeps it waiting is shown to its owner as the one
that blocks the log-off (toggldesktop 1409). So the question is always answered with yes, at once and before anything is
done; the end is begun when it is certain, and the answer to it is held back until the agent has ended, for as long as
Windows waits (five seconds) at most. Other systems send a signal, which ``agent.supervisor.nudge`` takes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Protocol

WM_CLOSE = 0x0010
WM_QUERYENDSESSION = 0x0011
WM_ENDSESSION = 0x0016
YES, DONE = 1, 0
PUT_AWAY_S = 4.0
"""As long as a stop takes at most; Windows ends what has not answered after five seconds."""


class SessionEnd(Protocol):
    """Hears that the session ends."""

    def start(self, on_end: Callable[[], None]) -> None:
        """Listen; ``on_end`` is called from another thread and must not block. Never raises."""
        ...

    def put_away(self) -> None:
        """The agent has ended: the session need not wait for it any longer. Never raises."""
        ...


class Farewell:
    """What is answered and who is told; the same for every window. ``handle`` runs in the window's thread."""

    def __init__(self, on_end: Callable[[], None], *, patience_s: float = PUT_AWAY_S) -> None:
        self._on_end = on_end
        self._patience_s = patience_s
        self._is_put_away = threading.Event()

    def handle(self, message: int, parameter: int) -> int | None:
        """Return the answer to a message of the system, ``None`` to one that is not about the session's end.

        Blocks only where the session does end, until ``put_away`` or for four seconds.
        """
        if message == WM_QUERYENDSESSION:
            # Nothing is ended yet: another program may refuse, and then the session goes on.
            return YES
        if message != WM_ENDSESSION:
            return None
        if parameter:
            self._on_end()
            # Once this is answered the process may be gone before its next line.
            self._is_put_away.wait(self._patience_s)
        return DONE

    def put_away(self) -> None:
        """The agent has ended."""
        self._is_put_away.set()


class NoSessionEnd:
    """Where the end of a session comes as a signal."""

    def start(self, on_end: Callable[[], None]) -> None:
        return

    def put_away(self) -> None:
        return


class FakeSessionEnd:
    """A session that ends when told to, in the thread of whoever tells."""

    def __init__(self, *, patience_s: float = PUT_AWAY_S) -> None:
        self._patience_s = patience_s
        self.farewell: Farewell | None = None
        self.was_put_away = False

    def start(self, on_end: Callable[[], None]) -> None:
        self.farewell = Farewell(on_end, patience_s=self._patience_s)

    def put_away(self) -> None:
        self.was_put_away = True
        if self.farewell is not None:
            self.farewell.put_away()

    def end(self, *, is_refused: bool = False) -> list[int | None]:
        """Go through the two messages and return the answers; ``is_refused``: another program wants to stay."""
        assert self.farewell is not None, "nobody listens"
        return [
            self.farewell.handle(WM_QUERYENDSESSION, 0),
            self.farewell.handle(WM_ENDSESSION, 0 if is_refused else 1),
        ]


if sys.platform == "win32":
    import ctypes
    import logging
    from ctypes import wintypes

    _log = logging.getLogger("sapwood.process")
    _Procedure = ctypes.WINFUNCTYPE(ctypes.c_ssize_t, wintypes.HWND, wintypes.UINT, wintypes.WPARAM, wintypes.LPARAM)

    class _WindowClass(ctypes.Structure):
        _fields_ = (
            ("style", wintypes.UINT),
            ("lpfnWndProc", _Procedure),
            ("cbClsExtra", ctypes.c_int),
            ("cbWndExtra", ctypes.c_int),
            ("hInstance", wintypes.HINSTANCE),
            ("hIcon", wintypes.HANDLE),
            ("hCursor", wintypes.HANDLE),
            ("hbrBackground", wintypes.HANDLE),
            ("lpszMenuName", wintypes.LPCWSTR),
            ("lpszClassName", wintypes.LPCWSTR),
        )

    class WindowsSessionEnd:
        """A window that is never shown, in a thread of its own. Windows asks top-level windows only, so it is one."""

        def __init__(self) -> None:
            self._farewell: Farewell | None = None
            self._window: int | None = None
            # Kept for as long as Windows may call it.
            self._procedure = _Procedure(self._receive)

        def start(self, on_end: Callable[[], None]) -> None:
            self._farewell = Farewell(on_end)
            threading.Thread(target=self._listen, name="session end", daemon=True).start()

        def put_away(self) -> None:
            if self._farewell is not None:
                self._farewell.put_away()
            if self._window is not None:
                ctypes.WinDLL("user32").PostMessageW(wintypes.HWND(self._window), WM_CLOSE, 0, 0)

        def _listen(self) -> None:
            try:
                self._pump()
            except OSError as error:
                # Without it the agent ends like after a power cut, which loses no work either.
                _log.warning("the end of the session will not be heard: %s", error)

        def _pump(self) -> None:
            user = ctypes.WinDLL("user32", use_last_error=True)
            user.CreateWindowExW.restype = wintypes.HWND
            user.CreateWindowExW.argtypes = (
                wintypes.DWORD,
                wintypes.LPCWSTR,
                wintypes.LPCWSTR,
                wintypes.DWORD,
                *(ctypes.c_int for _ in range(4)),
                wintypes.HWND,
                wintypes.HMENU,
                wintypes.HINSTANCE,
                wintypes.LPVOID,
            )
            user.GetMessageW.argtypes = (ctypes.POINTER(wintypes.MSG), wintypes.HWND, wintypes.UINT, wintypes.UINT)
            user.DispatchMessageW.argtypes = (ctypes.POINTER(wintypes.MSG),)
            kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            kernel.GetModuleHandleW.restype = wintypes.HMODULE
            kernel.GetModuleHandleW.argtypes = (wintypes.LPCWSTR,)
            made = _WindowClass()
            made.lpfnWndProc = self._procedure
            made.hInstance = kernel.GetModuleHandleW(None)
            made.lpszClassName = "SapwoodSessionEnd"
            if not user.RegisterClassW(ctypes.byref(made)):
                raise ctypes.WinError(ctypes.get_last_error())
            window = user.CreateWindowExW(
                0, made.lpszClassName, "Sapwood", 0, 0, 0, 0, 0, None, None, made.hInstance, None
            )
            if not window:
                raise ctypes.WinError(ctypes.get_last_error())
            self._window = window
            message = wintypes.MSG()
            while user.GetMessageW(ctypes.byref(message), None, 0, 0) > 0:
                user.DispatchMessageW(ctypes.byref(message))

        def _receive(self, window: int, message: int, word: int, number: int) -> int:
            user = ctypes.WinDLL("user32")
            if message == WM_CLOSE:
                user.DestroyWindow(wintypes.HWND(window))
                user.PostQuitMessage(0)
                return DONE
            answer = None if self._farewell is None else self._farewell.handle(message, word)
            if answer is not None:
                return answer
            user.DefWindowProcW.restype = ctypes.c_ssize_t
            user.DefWindowProcW.argtypes = (wintypes.HWND, wintypes.UINT, wintypes.WPARAM, wintypes.LPARAM)
            found: int = user.DefWindowProcW(window, message, word, number)
            return found

    def session_end() -> SessionEnd:
        """Return what hears of the session's end on this system."""
        return WindowsSessionEnd()

else:

    def session_end() -> SessionEnd:
        """Return what hears of the session's end on this system."""
        return NoSessionEnd()
