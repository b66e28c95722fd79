# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

__all__ = ["GaussianBlur", "Laplacian", "Scharr", "Sobel", "blur", "boxFilter", "filter2D", "sepFilter2D"]

BORDER_CONSTANT: int
BORDER_DEFAULT: int
BORDER_ISOLATED: int
BORDER_REFLECT: int
BORDER_REFLECT_101: int
BORDER_REPLICATE: int
BORDER_TRANSPARENT: int
BORDER_WRAP: int
CV_16S: int
CV_16U: int
CV_32F: int
CV_32S: int
CV_64F: int
CV_8S: int
CV_8U: int
FILTER_SCHARR: int

def GaussianBlur(src: npt.NDArray[Any], ksize: int | Sequence[int], sigmaX: float, dst: npt.NDArray[Any] | None = ...,
                 sigmaY: float = ..., borderType: int = ...) -> npt.NDArray[Any]: ...
def Laplacian(src: npt.NDArray[Any], ddepth: int, dst: npt.NDArray[Any] | None = ..., ksize: int | Sequence[int] =
              ..., scale: float = ..., delta: float = ..., borderType: int = ...) -> npt.NDArray[Any]: ...
def Scharr(src: npt.NDArray[Any], ddepth: int, dx: int, dy: int, dst: npt.NDArray[Any] | None = ..., scale: float =
           ..., delta: float = ..., borderType: int = ...) -> npt.NDArray[Any]: ...
def Sobel(src: npt.NDArray[Any], ddepth: int, dx: int, dy: int, dst: npt.NDArray[Any] | None = ..., ksize: int |
          Sequence[int] = ..., scale: float = ..., delta: float = ..., borderType: int = ...) -> npt.NDArray[Any]: ...
def blur(src: npt.NDArray[Any], ksize: int | Sequence[int], dst: npt.NDArray[Any] | None = ..., anchor: Sequence[int]
         = ..., borderType: int = ...) -> npt.NDArray[Any]: ...
def boxFilter(src: npt.NDArray[Any], ddepth: int, ksize: int | Sequence[int], dst: npt.NDArray[Any] | None = ...,
              anchor: Sequence[int] = ..., normalize: bool = ..., borderType: int = ...) -> npt.NDArray[Any]: ...
def filter2D(src: npt.NDArray[Any], ddepth: int, kernel: npt.ArrayLike, dst: npt.NDArray[Any] | None = ..., anchor:
             Sequence[int] = ..., delta: float = ..., borderType: int = ...) -> npt.NDArray[Any]: ...
def sepFilter2D(src: npt.NDArray[Any], ddepth: int, kernelX: npt.ArrayLike, kernelY: npt.ArrayLike, dst:
                npt.NDArray[Any] | None = ..., anchor: Sequence[int] = ..., delta: float = ..., borderType: int = ...) -> npt.NDArray[Any]: ...
