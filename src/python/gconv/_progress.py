# SPDX-License-Identifier: MIT
"""Progress of long calls: a line in the terminal, tqdm, or a function of the caller."""
from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Optional, Union

from . import _core
from ._errors import ArgumentError

__all__ = ["progress"]

Watcher = Callable[[str, float], Optional[bool]]


class _Line:
    """A line in the terminal, which is erased at the end. Shows nothing if stderr is not a terminal."""

    def __init__(self):
        self.shown = False

    def __call__(self, what, done):
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{what} {100 * done:3.0f}%")
            sys.stderr.flush()
            self.shown = True

    def close(self):
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


class _Tqdm:
    """A bar of tqdm for each kind of work."""

    def __init__(self):
        try:
            from tqdm.auto import tqdm
        except ImportError:
            raise ArgumentError('progress("tqdm"): there is no package tqdm; progress() draws a line of its own') from None
        self.make, self.bar = tqdm, None

    def __call__(self, what, done):
        if self.bar is None or self.bar.desc.rstrip(": ") != what or 100 * done < self.bar.n:
            self.close()
            self.bar = self.make(total=100, desc=what, bar_format="{l_bar}{bar}| {elapsed}<{remaining}")
        self.bar.update(100 * done - self.bar.n)

    def close(self):
        if self.bar is not None:
            self.bar.close()


class progress:
    """Shows the progress of long calls of this thread: with gconv.progress(): gconv.train(...)

    to: None: a line in the terminal; "tqdm": its bars; or a function, which is called about 20 times a second with the kind
        of work ("filtering", "training" ...) and the part that is done, from 0 to 1. If the function returns False, the
        call
        raises StoppedError; if the function raises, so does the call."""

    def __init__(self, to: Union[None, str, Watcher] = None) -> None:
        if to is not None and to != "tqdm" and not callable(to):
            raise ArgumentError(f'progress({to!r}): give nothing, "tqdm", or a function of two arguments')
        self._to = to
        self._shown: Any = None
        self._before: Any = None

    def __enter__(self) -> progress:
        self._shown = _Line() if self._to is None else _Tqdm() if self._to == "tqdm" else None
        self._before = _core.watch(self._shown or self._to)
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        _core.watch(self._before)
        if self._shown is not None:
            self._shown.close()
