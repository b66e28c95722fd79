# SPDX-License-Identifier: MIT
"""The linear filters of scipy.ndimage on NumPy arrays: the same names, modes, origins, cval, output and axes.

    import gconv.ndimage as ndimage

Arrays are bool, uint8, int8, uint16, int16 or float32, of any number of dimensions. Sums are float32; SciPy's are float64.
Integer results are truncated towards 0 and wrap around at each pass, as in SciPy. docs/python.md says by how much results
may differ. Unsupported calls go to SciPy if it is installed, with a gconv.Warning the first time; else UnsupportedError is
raised. float64 and integers of 32 and 64 bits are unsupported, as float32 is less accurate: convert them to float32, or set

    gconv.ndimage.wide = "float32"        # compute them in float32, and convert results back
"""
from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._errors import ArgumentError, LimitError, UnsupportedError
from ._original import NotOurs as _NotOurs, or_original
from ._passes import Line, are_exact, are_finite, correlate_lines, correlate_planes, largest_sum, letter_of, may_wrap
from ._repeat import repeated
from ._types import ArrayLike, Function, Modes, Numbers, Pair

__all__ = ["convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d",
           "gaussian_gradient_magnitude", "gaussian_laplace", "laplace", "prewitt", "sobel", "uniform_filter",
           "uniform_filter1d"]

wide = "scipy"  #: who computes types of more than 24 bits: "scipy", or gconv in "float32"

_NARROW = frozenset(map(np.dtype, "bool uint8 int8 uint16 int16 float32".split()))
_WIDE = frozenset(map(np.dtype, "float64 int32 uint32 int64 uint64".split()))
_MODES = {"reflect": "symmetric", "grid-mirror": "symmetric", "constant": "constant", "grid-constant": "constant",
          "nearest": "replicate", "mirror": "reflect101", "wrap": "wrap", "grid-wrap": "wrap"}


# ---- What is taken ----

def _or_scipy(function: Function) -> Function:
    """Decorates a function: unsupported and wrong calls are passed to SciPy, which raises its own errors for wrong ones."""
    call = or_original("scipy.ndimage", ArgumentError, LimitError, UnsupportedError)(function)
    call.__signature__ = inspect.signature(function)
    return repeated(call, "weights")


def _check_type(kind, what):
    if kind not in _NARROW and not (wide == "float32" and kind in _WIDE):
        raise _NotOurs(f"{what} of the type {kind.name}{'' if kind.isnative else ', bytes in reverse,'} are not taken")


def _take(array):
    """Returns the argument as an array. Raises _NotOurs if it is unsupported."""
    array = np.asarray(array)
    _check_type(array.dtype, "arrays")
    if array.ndim == 0 or array.size == 0:
        raise _NotOurs("arrays without samples are not taken")
    return array


def _kind(array, output):
    """Returns the type of the result."""
    if output is None or isinstance(output, np.ndarray):
        return array.dtype if output is None else output.dtype
    try:
        kind = np.dtype(output)
    except TypeError:
        kind = np.dtype(object)
    if isinstance(output, str) and not issubclass(kind.type, np.number):
        raise _NotOurs(f"output={output!r} is no type of numbers")
    return kind


def _answer(array, output, work):
    """Returns the result of work(array, kind, into), in the type or the array `output`. bool is computed as uint8, which is
    how SciPy stores it. `into` is None, or an array of the type `kind` that may get the result."""
    kind, into = _kind(array, output), output if isinstance(output, np.ndarray) else None
    _check_type(kind, "results")
    if into is not None and (into.shape != array.shape or not into.flags.writeable):
        raise _NotOurs("output has another shape than the input, or is read-only")
    seen = [one if one is None or one.dtype != bool else one.view(np.uint8) for one in (array, into)]
    result = work(seen[0], np.dtype(np.uint8) if kind == bool else kind, seen[1])
    if into is None:
        return result.view(kind) if kind == bool else result
    if result is not seen[1]:
        seen[1][...] = result
    return into


def _mode(mode):
    try:
        return _MODES[mode]
    except (KeyError, TypeError):
        raise _NotOurs(f"the mode {mode!r} is not taken") from None


def _border(cval):
    """Returns cval as a float that is finite in float32."""
    try:
        cval = float(cval)
    except (TypeError, ValueError):
        raise _NotOurs(f"cval={cval!r} is not taken") from None
    if not abs(cval) < 3e38:
        raise _NotOurs("a cval that is infinite or NaN is not taken")
    return cval


def _per_axis(value, count):
    """Returns a list with a value for each axis."""
    if isinstance(value, str) or np.ndim(value) == 0:
        return [value] * count
    if len(value) != count:
        raise _NotOurs("a sequence has another length than there are axes")
    return list(value)


def _axes(axes, dimensions):
    chosen = range(dimensions) if axes is None else (axes,) if np.ndim(axes) == 0 else axes
    chosen = [operator.index(axis) + (dimensions if axis < 0 else 0) for axis in chosen]
    if len(set(chosen)) != len(chosen) or not all(0 <= axis < dimensions for axis in chosen):
        raise _NotOurs("the axes do not fit the array")
    return chosen


def _place(size, origin):
    """Returns the index of the weight that lies on the sample."""
    place = size // 2 + operator.index(origin)
    if not 0 <= place < size:
        raise _NotOurs("the origin lies outside the filter")
    return place


# ---- Lines of weights along axes ----

def _weights(weights, dimensions):
    """Checks weights, and returns them as an array of floats."""
    weights = np.asarray(weights)
    if weights.dtype.kind not in "buif" or weights.ndim != dimensions or weights.size == 0 or not np.isfinite(weights).all():
        raise _NotOurs("weights that are no finite numbers, or of another number of dimensions, are not taken")
    return weights.astype(float)


def _line(axis, weights, mode, origin=0):
    return Line(axis, weights, _place(len(weights), origin), _mode(mode))


def _lines(array, lines, kind, cval, into=None):
    """Correlates an array with lines, one after the other."""
    if may_wrap(array.dtype, lines[:-1], kind):
        raise _NotOurs(f"passes whose results wrap around in {kind}, so that roundings of float32 count, are not taken")
    if any(0 in line.weights for line in lines) and not are_finite(array):  # in SciPy, 0 * NaN is NaN
        raise _NotOurs("NaN and infinities under weights of 0 are not taken")
    return correlate_lines(array, lines, kind, cval, into)


def _by_lines(input, lines_of, output, cval):
    """Returns the answer of a function that applies lines_of(dimensions), one after the other."""
    array, cval = _take(input), _border(cval)
    lines = lines_of(array.ndim)
    if not lines and _kind(array, output) == bool != array.dtype:
        raise _NotOurs("a copy to bool is not taken")
    return _answer(array, output, lambda array, kind, into: _lines(array, lines, kind, cval, into))


def _by_line(input, weights, axis, output, mode, cval, origin):
    weights = tuple(_weights(weights, 1).tolist())
    return _by_lines(input, lambda dimensions: [_line(*_axes(axis, dimensions), weights, mode, origin)], output, cval)


@_or_scipy
def correlate1d(input: ArrayLike, weights: ArrayLike, axis: int = -1, output: Any = None, mode: Modes = "reflect",
                cval: float = 0.0, origin: Pair = 0) -> Numbers:
    """scipy.ndimage.correlate1d: a line of weights along one axis."""
    return _by_line(input, weights, axis, output, mode, cval, origin)


@_or_scipy
def convolve1d(input: ArrayLike, weights: ArrayLike, axis: int = -1, output: Any = None, mode: Modes = "reflect",
               cval: float = 0.0, origin: Pair = 0) -> Numbers:
    """scipy.ndimage.convolve1d: correlate1d() with reversed weights."""
    weights = np.asarray(weights)
    turned = -operator.index(origin) - (1 - weights.size % 2)
    return _by_line(input, weights[::-1] if weights.ndim else weights, axis, output, mode, cval, turned)


_MOST_ORDER = 100  # of a derivative: SciPy takes, or refuses, what is beyond


@functools.lru_cache(64)
def _bell(sigma, order, reach):
    """Returns the weights of a Gaussian, or of its derivative of `order`, for correlation."""
    x = np.arange(-reach, reach + 1)
    bell = np.exp(-0.5 * (x / sigma) ** 2)
    bell /= bell.sum()
    factor = np.polynomial.Polynomial([1.0])
    for _ in range(order):  # the derivative of q(x) * exp(-x^2 / 2 sigma^2), divided by the exponential
        factor = factor.deriv() - factor * np.polynomial.Polynomial([0, 1 / sigma ** 2])
    return tuple((factor(x) * bell)[::-1].tolist())


def _gaussian_line(axis, sigma, order, mode, truncate, radius):
    sigma, order = float(sigma), operator.index(order)
    reach = int(truncate * sigma + 0.5) if radius is None else radius
    if not sigma > 0 or not isinstance(reach, (int, np.integer)) or reach < 0 or not 0 <= order <= _MOST_ORDER:
        raise _NotOurs("sigma, order or radius is not valid")
    return _line(axis, _bell(sigma, order, int(reach)), mode)


@_or_scipy
def gaussian_filter1d(input: ArrayLike, sigma: float | Sequence[float], axis: int = -1, order: Pair = 0, output: Any = None,
                      mode: Modes = "reflect", cval: float = 0.0, truncate: float = 4.0, *,
                      radius: Pair | None = None) -> Numbers:
    """scipy.ndimage.gaussian_filter1d: a Gaussian, or its derivative of `order`, along one axis."""
    return _by_lines(input, lambda dimensions: [_gaussian_line(*_axes(axis, dimensions), sigma, order, mode, truncate, radius)],
                     output, cval)


def _gaussian_lines(dimensions, sigma, order, mode, truncate, radius, axes):
    chosen = _axes(axes, dimensions)
    values = [_per_axis(one, len(chosen)) for one in (sigma, order, mode, radius)]
    return [_gaussian_line(axis, s, o, m, truncate, r) for axis, s, o, m, r in zip(chosen, *values) if s > 1e-15]


@_or_scipy
def gaussian_filter(input: ArrayLike, sigma: float | Sequence[float], order: Pair = 0, output: Any = None,
                    mode: Modes = "reflect", cval: float = 0.0, truncate: float = 4.0, *, radius: Pair | None = None,
                    axes: Pair | None = None) -> Numbers:
    """scipy.ndimage.gaussian_filter: a Gaussian, or its derivatives, along all axes or those named."""
    return _by_lines(input, lambda dimensions: _gaussian_lines(dimensions, sigma, order, mode, truncate, radius, axes),
                     output, cval)


def _uniform_line(axis, size, mode, origin):
    size = operator.index(size) if isinstance(size, (int, np.integer)) else 0
    if size < 1:
        raise _NotOurs("a size that is no integer from 1 on is not taken")
    return _line(axis, (1.0 / size,) * size, mode, origin)


@_or_scipy
def uniform_filter1d(input: ArrayLike, size: Pair, axis: int = -1, output: Any = None, mode: Modes = "reflect",
                     cval: float = 0.0, origin: Pair = 0) -> Numbers:
    """scipy.ndimage.uniform_filter1d: the mean of `size` samples along one axis."""
    return _by_lines(input, lambda dimensions: [_uniform_line(*_axes(axis, dimensions), size, mode, origin)], output, cval)


@_or_scipy
def uniform_filter(input: ArrayLike, size: Pair = 3, output: Any = None, mode: Modes = "reflect", cval: float = 0.0,
                   origin: Pair = 0, *, axes: Pair | None = None) -> Numbers:
    """scipy.ndimage.uniform_filter: the mean of a box of `size` along all axes or those named."""

    def lines(dimensions):
        chosen = _axes(axes, dimensions)
        values = [_per_axis(one, len(chosen)) for one in (size, mode, origin)]
        return [_uniform_line(axis, s, m, o) for axis, s, m, o in zip(chosen, *values) if s != 1]

    return _by_lines(input, lines, output, cval)


def _edges(input, axis, output, mode, cval, smooth):
    def lines(dimensions):
        chosen, = _axes(axis, dimensions)
        modes = _per_axis(mode, dimensions)
        return [_line(chosen, (-1.0, 0.0, 1.0), modes[chosen]),
                *(_line(other, smooth, modes[other]) for other in range(dimensions) if other != chosen)]

    return _by_lines(input, lines, output, cval)


@_or_scipy
def prewitt(input: ArrayLike, axis: int = -1, output: Any = None, mode: Modes = "reflect", cval: float = 0.0) -> Numbers:
    """scipy.ndimage.prewitt: differences -1 0 1 along one axis, sums 1 1 1 along all others."""
    return _edges(input, axis, output, mode, cval, (1.0, 1.0, 1.0))


@_or_scipy
def sobel(input: ArrayLike, axis: int = -1, output: Any = None, mode: Modes = "reflect", cval: float = 0.0) -> Numbers:
    """scipy.ndimage.sobel: differences -1 0 1 along one axis, sums 1 2 1 along all others."""
    return _edges(input, axis, output, mode, cval, (1.0, 2.0, 1.0))


# ---- Weights of several dimensions ----

def _correlate(input, weights, output, mode, cval, origin, axes, turned):
    array, cval, mode = _take(input), _border(cval), _mode(mode)
    chosen = _axes(axes, array.ndim)
    weights, origins = _weights(weights, len(chosen)), _per_axis(origin, len(chosen))
    if len(chosen) < array.ndim:  # in SciPy, weights have axes in rising order, and origins are in the order of `axes`
        origins = [one for _, one in sorted(zip(chosen, origins))]
    if turned:
        weights = np.flip(weights)
        origins = [-operator.index(one) - (1 - size % 2) for one, size in zip(origins, weights.shape)]
    places = [_place(size, one) for one, size in zip(origins, weights.shape)]
    weights = np.where(np.abs(weights) > np.finfo(float).eps, weights, 0)  # SciPy ignores smaller weights
    if not weights.all() and not are_finite(array):
        raise _NotOurs("NaN and infinities under weights of 0 are not taken")
    several = [(axis, place) for axis, place, size in zip(sorted(chosen), places, weights.shape) if size > 1]
    axes, places = [axis for axis, _ in several], [place for _, place in several]
    if len(several) > 1:
        work = functools.partial(correlate_planes, weights=weights.squeeze(), places=places, axes=axes, mode=mode, cval=cval)
        return _answer(array, output, lambda array, kind, into: work(array, kind=kind, output=into))
    line = Line(axes[0] if axes else 0, tuple(weights.ravel().tolist()), places[0] if axes else 0, mode)
    return _answer(array, output, lambda array, kind, into: correlate_lines(array, [line], kind, cval, into))


@_or_scipy
def correlate(input: ArrayLike, weights: ArrayLike, output: Any = None, mode: Modes = "reflect", cval: float = 0.0,
              origin: Pair = 0, *, axes: Pair | None = None) -> Numbers:
    """scipy.ndimage.correlate: weights of as many dimensions as the array, or as axes."""
    return _correlate(input, weights, output, mode, cval, origin, axes, False)


@_or_scipy
def convolve(input: ArrayLike, weights: ArrayLike, output: Any = None, mode: Modes = "reflect", cval: float = 0.0,
             origin: Pair = 0, *, axes: Pair | None = None) -> Numbers:
    """scipy.ndimage.convolve: correlate() with weights that are reversed along each axis."""
    return _correlate(input, weights, output, mode, cval, origin, axes, True)


# ---- Sums of several results ----

_CROSS = np.array(((0, 1, 0), (1, -4, 1), (0, 1, 0)), float)


def _sum(array, parts, kind, cval, into=None, square=False):
    """Returns the sum of the parts, or of their squares, in the type of the result. A part is a list of lines."""
    total = None
    for lines in parts:
        part = _lines(array, lines, kind, cval, into if len(parts) == 1 else None)
        part = np.multiply(part, part, out=part) if square else part
        total = part if total is None else np.add(total, part, out=total)
    return total


def _by_sum(input, parts_of, output, cval, work=_sum):
    """Returns the answer of a function that adds up parts_of(dimensions); each part is a list of lines."""
    array, cval = _take(input), _border(cval)
    parts = parts_of(array.ndim)
    if not parts or _kind(array, output) == bool:
        raise _NotOurs("sums of bool, and those along no axes, are not taken")
    return _answer(array, output, lambda array, kind, into: work(array, parts, kind, cval, into))


def _second_differences(array, parts, kind, cval, into=None):
    """Returns the sum of second differences; one plane of weights computes those along height and width."""
    lines = [line for line, in parts]
    pair = [line for line in lines if letter_of(line.axis, array.shape) in "HW"]
    if len(pair) < 2 or pair[0].mode != pair[1].mode or not are_exact(array.dtype, lines, kind, cval):
        return _sum(array, parts, kind, cval, into)
    total = correlate_planes(array, _CROSS, (1, 1),
                             sorted(line.axis for line in pair), kind, pair[0].mode, cval, into if len(lines) == 2 else None)
    if not are_finite(total):  # NaN or infinities may lie under weights of 0
        return _sum(array, parts, kind, cval, into)
    for line in lines:
        if line not in pair:
            np.add(total, correlate_lines(array, [line], kind, cval), out=total)
    return total


@_or_scipy
def laplace(input: ArrayLike, output: Any = None, mode: Modes = "reflect", cval: float = 0.0, *,
            axes: Pair | None = None) -> Numbers:
    """scipy.ndimage.laplace: the sum of second differences 1 -2 1 along the axes."""

    def parts(dimensions):
        chosen = _axes(axes, dimensions)
        return [[_line(axis, (1.0, -2.0, 1.0), one)] for axis, one in zip(chosen, _per_axis(mode, len(chosen)))]

    return _by_sum(input, parts, output, cval, _second_differences)


def _derivatives(dimensions, sigmas, mode, axes, which, truncate=4.0, radius=None):
    """Returns the derivatives of order `which` along each of the axes, each as a list of lines; the array is smoothed with
    one sigma per axis. The mode of an axis holds for all lines of its derivative."""
    chosen = _axes(axes, dimensions)
    orders = [[which if other == axis else 0 for other in range(dimensions)] for axis in chosen]
    return [_gaussian_lines(dimensions, sigmas, order, one, truncate, radius, None)
            for order, one in zip(orders, _per_axis(mode, len(chosen)))]


def _check_options(options):
    wrong = options.keys() - {"truncate", "radius"}
    if wrong:
        raise _NotOurs(f"the option {sorted(wrong)[0]} is not taken")


@_or_scipy
def gaussian_laplace(input: ArrayLike, sigma: float | Sequence[float], output: Any = None, mode: Modes = "reflect",
                     cval: float = 0.0, *, axes: Pair | None = None, **kwargs: Any) -> Numbers:
    """scipy.ndimage.gaussian_laplace: the sum of the second derivatives of a Gaussian."""
    _check_options(kwargs)

    def parts(dimensions):
        chosen = _axes(axes, dimensions)
        sigmas = _per_axis(sigma, len(chosen))
        if len(chosen) < dimensions:  # only then, SciPy takes sigmas in the order of `axes`; others are 0
            sigmas = [dict(zip(chosen, sigmas)).get(axis, 0) for axis in range(dimensions)]
        return _derivatives(dimensions, sigmas, mode, axes, 2, **kwargs)

    return _by_sum(input, parts, output, cval)


def _magnitude(array, parts, kind, cval, into=None):
    """Returns the root of the sum of the squares of the parts, added in the type of the result, as in SciPy."""
    if kind in _NARROW and kind.kind != "f" and \
            sum(largest_sum(array.dtype, lines) ** 2 for lines in parts) > np.iinfo(kind).max:
        raise _NotOurs(f"squares that wrap around in {kind} are not taken")
    total = _sum(array, parts, kind, cval, square=True)
    return np.sqrt(total, total, casting="unsafe")


@_or_scipy
def gaussian_gradient_magnitude(input: ArrayLike, sigma: float | Sequence[float], output: Any = None,
                                mode: Modes = "reflect", cval: float = 0.0, *, axes: Pair | None = None,
                                **kwargs: Any) -> Numbers:
    """scipy.ndimage.gaussian_gradient_magnitude: the root of the sum of squares of the first derivatives of a Gaussian."""
    _check_options(kwargs)

    def parts(dimensions):
        return _derivatives(dimensions, _per_axis(sigma, dimensions), mode, axes, 1, **kwargs)  # SciPy smooths along all axes

    return _by_sum(input, parts, output, cval, _magnitude)
