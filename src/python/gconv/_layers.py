# SPDX-License-Identifier: MIT
"""conv2d(): one layer of a network, on arrays N x C x H x W."""
from __future__ import annotations

import sys
import weakref
from typing import Any

import numpy as np

from . import _core
from ._arguments import choose, flag, is_for, pair, real, sides, whole
from ._arrays import apply, floats, library_of, to_float
from ._errors import ArgumentError
from ._filter import BORDERS
from ._types import Activation, Array, Border, Math, Pair

__all__ = ["conv2d"]

PADDINGS = {"valid": 2, "same": 5}  # "same" pads as few zeros as possible, an odd one below and right, like PyTorch
ACTIVATIONS = {"none": 0, "relu": 1, "leaky": 2, "sigmoid": 3, "tanh": 4, "softmax": 5}
MATHS = {"fp32": 0, "tf32": 1, "fp16": 2, "bf16": 3}

_KEPT_SHAPES, _KEPT_WEIGHTS, _KEPT_TENSORS = 64, 4, 256
_layers = {}  # a cache by shape of the weights and options: the last few layers, each with a copy of its weights
_tensors = {}  # a cache by id of PyTorch tensors, which count their changes


def _options(weight, stride, padding, dilation, groups, activation, slope, flip, math, algorithm, border, border_value):
    (stride_y, stride_x), (dilation_y, dilation_x) = pair("stride", stride, 1), pair("dilation", dilation, 1)
    groups = whole("groups", groups, 1)
    if weight.shape[0] % groups:
        raise ArgumentError(f"groups={groups} does not divide the {weight.shape[0]} filters of weight")
    options = {"stride_y": stride_y, "stride_x": stride_x, "dilation_y": dilation_y, "dilation_x": dilation_x,
               "groups": groups, "activation": choose("activation", activation, ACTIVATIONS), "slope": real("slope", slope),
               "flip": flip, "math": choose("math", math, MATHS), "algorithm": str(algorithm),
               "border": choose("border", border, BORDERS), "border_value": real("border_value", border_value)}
    is_for("border_value", options["border_value"], border == "constant", 'border="constant"')
    is_for("slope", options["slope"], activation in ("leaky", "sigmoid"), 'activation="leaky" or "sigmoid"')
    if isinstance(padding, str):
        options["padding"] = choose("padding", padding, PADDINGS)
    else:
        options.update(zip(("pad_top", "pad_bottom", "pad_left", "pad_right"), sides("padding", padding)))
    return options


def _numbers(array, what, dimensions):
    """Returns an array as contiguous float32 in host memory."""
    made = floats(array, what)
    if made.ndim != dimensions or made.size == 0:
        raise ArgumentError(f"{what} has the shape {made.shape}: "
                            f"{'filters x channels x rows x columns' if dimensions == 4 else 'one number per filter'} is expected")
    return made


def _layer_by_numbers(weight, bias, given):
    """Returns the cached layer with these weights, or makes one."""
    weight = _numbers(weight, "weight", 4)
    bias = None if bias is None else _numbers(bias, "bias", 1)
    key = (weight.shape, None if bias is None else bias.shape, *given)
    kept = _layers.get(key, ())
    for layer in kept:
        if layer.holds(weight, bias):
            return layer
    if not np.isfinite(weight).all() or not (bias is None or np.isfinite(bias).all()):
        raise ArgumentError("weight or bias has a number that is infinite or NaN")
    layer = _core.layer(weight, bias, _options(weight, *given))
    if len(_layers) >= _KEPT_SHAPES:
        _layers.clear()
    _layers[key] = (layer, *kept[:_KEPT_WEIGHTS - 1])
    return layer


def _state(tensor):
    """Returns a reference to a tensor and the number of its changes, or None if these are not counted."""
    if tensor is None:
        return lambda: None, 0
    try:
        return weakref.ref(tensor), tensor._version
    except (RuntimeError, AttributeError, TypeError):  # tensors of inference mode count no changes
        return None


def _layer_of(weight, bias, given):
    if "torch" not in sys.modules or library_of(weight) != "torch":
        return _layer_by_numbers(weight, bias, given)
    key = (id(weight), id(bias), given)
    states = _state(weight), _state(bias)
    found = _tensors.get(key)
    if found and None not in states and all(
            old[0]() is tensor and old[1] == new[1] for old, new, tensor in zip(found[1], states, (weight, bias))):
        return found[0]
    layer = _layer_by_numbers(weight, bias, given)
    if None not in states:
        if len(_tensors) >= _KEPT_TENSORS:
            _tensors.clear()
        _tensors[key] = (layer, states)
    return layer


def conv2d(x: Array, weight: Any, bias: Any = None, stride: Pair = 1, padding: str | Pair = 0, dilation: Pair = 1,
           groups: int = 1, *, activation: Activation = "none", slope: float = 0.0, flip: bool = False, border: Border = "zero",
           border_value: float = 0.0, math: Math = "fp32", device: str | None = None, algorithm: str = "auto",
           out: Any = None) -> Array:
    """A convolution layer, like torch.nn.functional.conv2d: cross-correlation with zeros outside, then bias and activation.

    x: N x C x H x W, or C x H x W. float32 is used directly. Other types are converted to float32; for float16, bfloat16
        and float64, results are converted back. weight: K x C/groups x R x S. bias: K numbers, or None.
    stride, dilation: whole numbers, or (down, across). padding: a number, (down, across), (top, bottom, left, right),
        "valid" or "same" (for stride 1: as few zeros as possible, an odd one below and right).
    activation: "none", "relu", "leaky" (slope), "sigmoid" (slope), "tanh" or "softmax" (over the filters).
    border: the values of the padding, as for filter(): "zero", "constant" (border_value), "replicate", "symmetric",
        "reflect101" (padding_mode "reflect" of PyTorch) or "wrap" ("circular").
    flip: turn each filter by 180 degrees. math: how products may be rounded on a GPU: "fp32", "tf32", "fp16", "bf16".
    device, algorithm, out: as for filter().

    Returns N x K x P x Q, or K x P x Q, an array of the library of `x`, on its device. No gradients (gconv.torch.conv2d).
    Layers are cached. Weights are compared by their bits, PyTorch tensors by their count of changes. Raises ArgumentError
    if shapes do not fit.
    """
    given = (_hashable(stride), _hashable(padding), _hashable(dilation), groups, activation, slope, flag("flip", flip), math,
             algorithm, border, border_value)
    layer = _layer_of(weight, bias, given)
    dimensions = getattr(x, "ndim", None)
    if dimensions not in (3, 4):
        raise ArgumentError(f"x has {'no' if dimensions is None else dimensions} dimensions: "
                            f"N x C x H x W or C x H x W is expected")
    axes = "NCHW" if dimensions == 4 else "CHW"
    taken, back = to_float(x)
    result = apply(layer, taken, axes, device, None if back else out)
    if dimensions == 3 and result.ndim == 2:  # one filter
        result = result[None]
    return back(result, out) if back else result


def _hashable(value):
    return tuple(value) if isinstance(value, (list, tuple)) else value
