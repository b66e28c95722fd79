# SPDX-License-Identifier: MIT
"""A replacement for torch.nn.functional.conv2d, with gradients, and as an operator that torch.compile supports.

    import gconv.torch

    y = gconv.torch.conv2d(x, weight, bias, padding=1)          # forward: gconv; backward: PyTorch's gradients y =
    torch.ops.gconv.conv2d(x, weight, bias, padding=1)      # the operator itself, without checks
"""
from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor

from ._layers import conv2d as _conv2d
from ._original import hand_over
from ._types import Pair

__all__ = ["conv2d"]

torch.library.define("gconv::conv2d", "(Tensor x, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, "
                     "SymInt[2] dilation=1, SymInt groups=1) -> Tensor")


@torch.library.impl("gconv::conv2d", ("cpu", "cuda"))
def _forward(x, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    return _conv2d(x.detach(), weight, bias, stride, padding, dilation, groups)


@torch.library.register_fake("gconv::conv2d")
def _shape(x, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    sizes = [(size + 2 * pad - distance * (taps - 1) - 1) // step + 1
             for size, pad, distance, taps, step in zip(x.shape[2:], padding, dilation, weight.shape[2:], stride)]
    return x.new_empty((x.shape[0], weight.shape[0], *sizes))


def _keep(ctx, inputs, output):
    x, weight, bias, *ctx.options = inputs
    ctx.bias = None if bias is None else list(bias.shape)
    ctx.save_for_backward(x, weight)


def _backward(context, gradient):
    stride, padding, dilation, groups = context.options
    gradients = torch.ops.aten.convolution_backward(
        gradient, *context.saved_tensors, context.bias, stride, padding, dilation, False, (0, 0), groups,
        (*context.needs_input_grad[:2], context.bias is not None and context.needs_input_grad[2]))
    return *gradients, None, None, None, None


torch.library.register_autograd("gconv::conv2d", _backward, setup_context=_keep)


def _pair(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)


def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: str | Pair = 0,
           dilation: Pair = 1, groups: int = 1) -> Tensor:
    """torch.nn.functional.conv2d: the same arguments, shapes and results, float32 at the accuracy of float32.

    input: N x C x H x W or C x H x W, float32, on a CPU or a CUDA GPU; tensors of other types go to PyTorch, with a
    gconv.Warning the first time. PyTorch computes the gradients of input, weight and bias. torch.compile keeps it whole.
    """
    tensors = (input, weight) if bias is None else (input, weight, bias)
    arguments = (input, weight, bias, stride, padding, dilation, groups)
    for tensor in tensors:
        if tensor.dtype != torch.float32 or tensor.layout != torch.strided:
            return hand_over("torch.nn.functional", "conv2d", f"tensors of {tensor.dtype} are not taken", arguments, {})
    if input.dim() not in (3, 4) or weight.dim() != 4 or 0 in input.shape or 0 in weight.shape or \
            any(tensor.device != input.device for tensor in tensors):
        return functional.conv2d(*arguments)  # PyTorch's error says what is wrong
    stride, dilation = _pair(stride), _pair(dilation)
    if padding == "same":
        if stride != (1, 1):
            return functional.conv2d(*arguments)
        total = [distance * (size - 1) for distance, size in zip(dilation, weight.shape[2:])]
        input = functional.pad(input, (0, total[1] % 2, 0, total[0] % 2))  # the odd pixel is below and right
        padding = tuple(one // 2 for one in total)
    padding = (0, 0) if padding == "valid" else _pair(padding)
    batch = input if input.dim() == 4 else input[None]
    result = torch.ops.gconv.conv2d(batch, weight, bias, stride, padding, dilation, groups)
    return result if input.dim() == 4 else result[0]
