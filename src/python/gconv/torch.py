# SPDX-License-Identifier: MIT
"""torch.nn.functional.conv2d of ours, with gradients.

    import gconv.torch

    y = gconv.torch.conv2d(x, weight, bias, padding=1)      # forward: gconv; backward: PyTorch's gradients
"""
from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.nn import grad

from ._layers import conv2d as _conv2d
from ._original import hand_over
from ._types import Pair

__all__ = ["conv2d"]


def _pair(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)


class _Conv2d(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight, bias, stride, padding, dilation, groups):
        context.save_for_backward(x, weight)
        context.options = stride, padding, dilation, groups
        context.has_bias = bias is not None
        return _conv2d(x.detach(), weight, bias, stride, padding, dilation, groups)

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        of_x = of_weight = of_bias = None
        if context.needs_input_grad[0]:
            of_x = grad.conv2d_input(x.shape, weight, gradient, *context.options)
        if context.needs_input_grad[1]:
            of_weight = grad.conv2d_weight(x, weight.shape, gradient, *context.options)
        if context.has_bias and context.needs_input_grad[2]:
            of_bias = gradient.sum((0, 2, 3))
        return of_x, of_weight, of_bias, None, None, None, None


def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: str | Pair = 0,
           dilation: Pair = 1, groups: int = 1) -> Tensor:
    """torch.nn.functional.conv2d: the same arguments, shapes and results, float32 at the accuracy of float32.

    input: N x C x H x W or C x H x W, float32, on a CPU or a CUDA GPU; tensors of other types go to PyTorch, with a
    gconv.Warning the first time. Gradients of input, weight and bias are PyTorch's own.
    """
    tensors = (input, weight) if bias is None else (input, weight, bias)
    arguments = (input, weight, bias, stride, padding, dilation, groups)
    for tensor in tensors:
        if tensor.dtype != torch.float32 or tensor.layout != torch.strided:
            return hand_over("torch.nn.functional", "conv2d", f"tensors of {tensor.dtype} are not taken", arguments, {})
    if input.dim() not in (3, 4) or weight.dim() != 4 or 0 in input.shape or 0 in weight.shape or \
            any(tensor.device != input.device for tensor in tensors):
        return functional.conv2d(*arguments)  # which says what is wrong
    stride, dilation = _pair(stride), _pair(dilation)
    if padding == "same":
        if stride != (1, 1):
            return functional.conv2d(*arguments)
        total = [distance * (size - 1) for distance, size in zip(dilation, weight.shape[2:])]
        input = functional.pad(input, (0, total[1] % 2, 0, total[0] % 2))  # the odd pixel is below and right
        padding = tuple(one // 2 for one in total)
    padding = (0, 0) if padding == "valid" else _pair(padding)
    batch = input if input.dim() == 4 else input[None]
    result = _Conv2d.apply(batch, weight, bias, stride, padding, dilation, groups)
    return result if input.dim() == 4 else result[0]
