# SPDX-License-Identifier: MIT
"""Types for annotations of public functions."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union

from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from ._filters import Filter, Filters

__all__ = ["Activation", "Alpha", "Array", "ArrayLike", "Border", "Combine", "Combined", "Function", "Kernel", "Math", "Mode", "Modes",
           "NDArray", "Nan", "Numbers", "OneKernel", "Padding", "Pair", "Path", "Paths", "Range", "SVMKernel"]

Array = TypeVar("Array")  # NumPy, PyTorch, CuPy or JAX: results are arrays of the input's library
Function = TypeVar("Function", bound=Callable[..., Any])  # a decorator returns a function of the same type
Numbers = NDArray[Any]
Path = Union[str, bytes, "os.PathLike[Any]"]
Paths = Union[Path, Iterable[Path]]
Pair = Union[int, Sequence[int]]
Mode = Literal["reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap"]  # of scipy.ndimage
Modes = Union[Mode, Sequence[Mode]]  # one for all axes or for each
OneKernel = Union[str, "os.PathLike[Any]", "Filter", NDArray[Any]]
Kernel = Union[OneKernel, "Filters", ArrayLike, Sequence[Any]]

# The values of options. A test compares them with the tables that the functions use.
Border = Literal["zero", "constant", "replicate", "symmetric", "reflect101", "wrap", "normalize"]
Padding = Union[Literal["same", "valid", "full"], Pair]
Combined = Literal["magnitude", "sum", "max", "stack"]
Combine = Union[Literal["none"], Combined]
Nan = Literal["keep", "skip", "fill", "zero"]
Range = Literal["clamp", "abs", "signed", "minmax", "wrap"]
Alpha = Literal["keep", "filter", "premultiply", "drop"]
Activation = Literal["none", "relu", "leaky", "sigmoid", "tanh", "softmax"]
Math = Literal["fp32", "tf32", "fp16", "bf16"]
SVMKernel = Literal["rbf", "linear", "polynomial", "sigmoid", "precomputed"]
