# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
           padding: str | int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor: ...
