# SPDX-License-Identifier: MIT
"""What the annotations of public functions name."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Union

from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from ._filters import Filter, Filters

__all__ = ["Array", "ArrayLike", "Function", "Kernel", "Modes", "NDArray", "Numbers", "Pair", "Path", "Paths"]

Array = TypeVar("Array")  # of NumPy, PyTorch, CuPy or JAX: results are of the library of the input
Function = TypeVar("Function", bound=Callable[..., Any])  # the type of a decorated function, which stays
Numbers = NDArray[Any]
Path = Union[str, bytes, "os.PathLike[Any]"]
Paths = Union[Path, Iterable[Path]]
Pair = Union[int, Sequence[int]]
Modes = Union[str, Sequence[str]]  # of borders, one for all axes or for each
Kernel = Union[str, "os.PathLike[Any]", "Filter", "Filters", ArrayLike, Sequence[Any]]
