# SPDX-License-Identifier: MIT
"""The linear filters of scipy.ndimage: its names, modes, origins, cval, output and axes, on NumPy's arrays.

    import gconv.ndimage as ndimage

bool, uint8, int8, uint16, int16 and float32 are taken, of 1 to 3 dimensions (what goes along one axis at a time: of any
number). Sums are float32, where SciPy has float64. Results of integers are cut towards 0 at each pass, as SciPy does, and
are within one level of its results for each pass. What is not taken goes to SciPy where it is installed, with a
gconv.Warning the first time; else UnsupportedError is raised. This is so of float64 and of integers of 32 and 64 bits,
whose accuracy float32 would lose: convert them to float32, or set

    gconv.ndimage.wide = "float32"        # compute them in float32 all the same, and bring results back to their type
"""
import functools
import inspect
import operator

import numpy as np

from ._errors import ArgumentError
from ._filter import filter as _filter
from ._filters import Filter
from ._original import hand_over

__all__ = ["convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d",
           "gaussian_gradient_magnitude", "gaussian_laplace", "laplace", "prewitt", "sobel", "uniform_filter",
           "uniform_filter1d"]

wide = "scipy"  #: who computes what has more than 24 bits: "scipy", or "float32": we do, in float32

_NARROW = frozenset("bool uint8 int8 uint16 int16 float32".split())
_WIDE = frozenset("float64 int32 uint32 int64 uint64".split())
_MODES = {"reflect": "symmetric", "grid-mirror": "symmetric", "constant": "constant", "grid-constant": "constant",
          "nearest": "replicate", "mirror": "reflect101", "wrap": "wrap", "grid-wrap": "wrap"}
_PADS = {"symmetric": "symmetric", "constant": "constant", "replicate": "edge", "reflect101": "reflect", "wrap": "wrap"}


class _NotOurs(Exception):
    """A call that SciPy has to answer; the text is why."""


# ---- What is taken ----

def _take(array):
    """The array of the caller, whose type we compute with."""
    array = np.asarray(array)
    name = array.dtype.name
    if not array.dtype.isnative or name not in (_NARROW | _WIDE if wide == "float32" else _NARROW):
        raise _NotOurs(f"arrays of the type {array.dtype} are not taken")
    if array.ndim == 0 or array.size == 0:
        raise _NotOurs("arrays without samples are not taken")
    return array


def _output(output, array):
    """(type of the result, array of the caller or None)."""
    if output is None:
        return array.dtype, None
    if isinstance(output, np.ndarray):
        if output.shape != array.shape:
            raise _NotOurs("output has another shape than the input")
        kind = output.dtype
    else:
        kind, output = np.dtype(output), None
    if kind.name not in _NARROW | _WIDE:
        raise _NotOurs(f"an output of the type {kind} is not taken")
    if wide != "float32" and kind.name not in _NARROW:
        raise _NotOurs(f"an output of the type {kind} is not taken")
    return kind, output


def _mode(mode):
    try:
        return _MODES[mode]
    except (KeyError, TypeError):
        raise _NotOurs(f"the mode {mode!r} is not taken") from None


def _per_axis(value, count):
    """One value for each axis."""
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


def _or_scipy(function):
    """What is not ours, and what is wrong, goes to SciPy, which says what is wrong in its own words."""

    @functools.wraps(function)
    def call(*arguments, **options):
        try:
            return function(*arguments, **options)
        except (_NotOurs, ArgumentError) as error:
            reason = str(error)
        return hand_over("scipy.ndimage", function.__name__, reason, arguments, options)

    call.__signature__ = inspect.signature(function)
    return call


# ---- What is computed ----

def _floats(array):
    return np.ascontiguousarray(array, np.float32)


_WHOLE = 1 + 5e-7  # what is an integer but for the rounding of float32 counts as one


def _cut(values, kind):
    """float32 as a type, as C casts: integers are cut towards 0."""
    if kind.kind == "f" or values.dtype == kind:
        return values.astype(kind, copy=False)
    return (values * np.float32(_WHOLE)).astype(np.int32 if kind.itemsize <= 2 else np.int64).astype(kind)


def _cutting(array, kind, weights, modes, cval):
    """Options with which gconv.filter() itself cuts its results towards 0; {} where only _cut() can. The array must be of
    unsigned integers, and the weights must be a mean, so that no result is below 0 or above white. gconv.filter() rounds:
    half a level less, rounded to the nearest level, is the level cut towards 0."""
    if array.dtype != kind or kind.name not in ("uint8", "uint16") or ("constant" in modes and cval != 0) or \
            not all(one.min() >= 0 and one.sum() <= 1 + 1e-6 for one in weights):
        return {}
    return {"scale": _WHOLE, "offset": -0.5 / np.iinfo(kind).max}


def _along(values, weights, axis, mode, cval, origin, **options):
    """An array correlated with a line of weights along one axis."""
    length, before = values.shape[axis], int(np.prod(values.shape[:axis]))
    behind = values.size // (length * before)
    place = weights.size // 2 + origin
    if not 0 <= place < weights.size:
        raise _NotOurs("the origin lies outside the filter")
    if behind == 1 and length <= 4 < before:  # such as colours: rows that are so short take long
        turned = np.ascontiguousarray(values.reshape(before, length).T)
        return np.ascontiguousarray(_along(turned, weights, 0, mode, cval, origin, **options).T).reshape(values.shape)
    if behind == 1:
        taps, image, anchor, axes = weights[None, :], values.reshape(before, length), (0, place), "HW"
    elif behind <= 4:
        taps, image, anchor, axes = weights[None, :], values.reshape(before, length, behind), (0, place), "HWC"
    else:
        taps, image, anchor, axes = weights[:, None], values.reshape(before, length, behind), (place, 0), "NHW"
    kernel = Filter(taps, anchor=anchor)
    return _filter(image, kernel, border=mode, border_value=cval, axes=axes, **options).reshape(values.shape)


def _store(result, output):
    if output is None:
        return result
    output[...] = result
    return output


def _finish(result, kind, output):
    return _store(_cut(result, kind), output)


def _lines(array, lines, kind, cval):
    """Passes along axes, one after the other: (weights, axis, mode, origin). Between them, values have the type of the
    result, as SciPy keeps them there."""
    cutting = _cutting(array, kind, [line[0] for line in lines], [line[2] for line in lines], cval) if lines else {}
    values = np.ascontiguousarray(array) if cutting else _floats(array)
    if kind == np.float32 and values.ndim == 2 and len(lines) == 2 and {line[1] for line in lines} == {0, 1} and \
            lines[0][2] == lines[1][2] and (cval == 0 or lines[0][2] != "constant"):
        (down, _, mode, down_origin), (across, _, _, across_origin) = sorted(lines, key=lambda line: line[1])
        place = down.size // 2 + down_origin, across.size // 2 + across_origin
        if not (0 <= place[0] < down.size and 0 <= place[1] < across.size):
            raise _NotOurs("the origin lies outside the filter")
        return _filter(values, Filter(np.outer(down, across), anchor=place), border=mode)  # both at once
    for weights, axis, mode, origin in lines:
        values = _along(values, weights, axis, mode, cval, origin, **cutting)
        if kind.kind != "f" and len(lines) > 1 and not cutting:
            values = _floats(_cut(values, kind))
    return values


def _weights(weights, dimensions):
    weights = np.asarray(weights)
    if weights.dtype.kind not in "buif" or weights.ndim != dimensions or weights.size == 0:
        raise _NotOurs("weights of another number of dimensions, or complex ones, are not taken")
    return weights.astype(np.float64)


def _correlate(input, weights, output, mode, cval, origin, axes, turned):
    array = _take(input)
    kind, output = _output(output, array)
    chosen = _axes(axes, array.ndim)
    if len(chosen) > 3:
        raise _NotOurs("more than 3 dimensions are not taken")
    weights = _weights(weights, len(chosen))
    origins = [operator.index(one) for one in _per_axis(origin, len(chosen))]
    mode = _mode(mode)
    if turned:
        weights = weights[(slice(None, None, -1),) * weights.ndim]
        origins = [-one - (1 - size % 2) for one, size in zip(origins, weights.shape)]
    if not all(0 <= size // 2 + one < size for one, size in zip(origins, weights.shape)):
        raise _NotOurs("the origin lies outside the filter")
    if len(chosen) == 0:
        return _finish(_floats(array), kind, output)
    several = [i for i, size in enumerate(weights.shape) if size > 1] or [0]  # one weight along an axis is none
    weights = weights.reshape([weights.shape[i] for i in several])
    chosen, origins = [chosen[i] for i in several], [origins[i] for i in several]
    cutting = _cutting(array, kind, [weights], [mode], cval) if weights.ndim <= 2 else {}
    values = array if cutting else _floats(array)
    if chosen == [0, 1] and array.ndim == 3 and array.shape[2] <= 4:
        kernel = Filter(weights, anchor=[size // 2 + one for size, one in zip(weights.shape, origins)])
        result = _filter(np.ascontiguousarray(values), kernel, border=mode, border_value=cval, axes="HWC", **cutting)
        return _finish(result, kind, output)
    values = np.ascontiguousarray(np.moveaxis(values, chosen, range(-len(chosen), 0)))
    planes = values.reshape(-1, *values.shape[values.ndim - len(chosen):])
    result = _sum_of_planes(planes, weights, mode, cval, origins, **cutting)
    result = np.moveaxis(result.reshape(values.shape), range(-len(chosen), 0), chosen)
    return _finish(result, kind, output)


def _sum_of_planes(values, weights, mode, cval, origins, **options):
    """Correlates each of values[0], values[1] ... with weights of 1, 2 or 3 dimensions."""
    if weights.ndim == 1:
        return _along(values, weights, 1, mode, cval, origins[0], **options)
    if weights.ndim == 2:
        kernel = Filter(weights, anchor=[size // 2 + one for size, one in zip(weights.shape, origins)])
        return _filter(values, kernel, border=mode, border_value=cval, axes="NHW", **options)
    depth, place = weights.shape[0], weights.shape[0] // 2 + origins[0]
    options = {"constant_values": cval} if mode == "constant" else {}
    padded = np.pad(values, ((0, 0), (place, depth - 1 - place), (0, 0), (0, 0)), _PADS[mode], **options)
    result = np.zeros_like(values)
    for number, plane in enumerate(weights):
        kernel = Filter(plane, anchor=[size // 2 + one for size, one in zip(plane.shape, origins[1:])])
        part = np.ascontiguousarray(padded[:, number:number + values.shape[1]])
        flat = part.reshape(-1, *values.shape[2:])
        result += _filter(flat, kernel, border=mode, border_value=cval, axes="NHW").reshape(values.shape)
    return result


# ---- SciPy's functions ----

@_or_scipy
def correlate(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    """scipy.ndimage.correlate: weights of as many dimensions as the array, or as axes, up to 3."""
    return _correlate(input, weights, output, mode, cval, origin, axes, False)


@_or_scipy
def convolve(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    """scipy.ndimage.convolve: correlate() with weights that are turned around."""
    return _correlate(input, weights, output, mode, cval, origin, axes, True)


def _one_line(input, weights, axis, output, mode, cval, origin, turned):
    array = _take(input)
    kind, output = _output(output, array)
    axis, = _axes(axis, array.ndim)
    weights, origin = _weights(weights, 1), operator.index(origin)
    if turned:
        weights, origin = weights[::-1], -origin - (1 - weights.size % 2)
    return _finish(_lines(array, [(weights, axis, _mode(mode), origin)], kind, cval), kind, output)


@_or_scipy
def correlate1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    """scipy.ndimage.correlate1d: a line of weights along one axis."""
    return _one_line(input, weights, axis, output, mode, cval, origin, False)


@_or_scipy
def convolve1d(input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    """scipy.ndimage.convolve1d: correlate1d() with weights that are turned around."""
    return _one_line(input, weights, axis, output, mode, cval, origin, True)


def _gaussian_line(sigma, order, truncate, radius):
    """The weights of a Gaussian, or of its derivative, for correlation."""
    sigma, reach = float(sigma), int(truncate * float(sigma) + 0.5) if radius is None else radius
    if sigma <= 0 or not isinstance(reach, (int, np.integer)) or reach < 0 or operator.index(order) < 0:
        raise _NotOurs("sigma, order or radius is none that a Gaussian has")
    x = np.arange(-reach, reach + 1)
    bell = np.exp(-0.5 * (x / sigma) ** 2)
    bell /= bell.sum()
    factor = np.polynomial.Polynomial([1.0])
    for _ in range(order):  # the derivative of q(x) * exp(-x^2 / 2 sigma^2), with the bell taken out
        factor = factor.deriv() - factor * np.polynomial.Polynomial([0, 1 / sigma ** 2])
    return (factor(x) * bell)[::-1]


@_or_scipy
def gaussian_filter1d(input, sigma, axis=-1, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None):
    """scipy.ndimage.gaussian_filter1d: a Gaussian, or its derivative of `order`, along one axis."""
    return _one_line(input, _gaussian_line(sigma, order, truncate, radius), axis, output, mode, cval, 0, False)


def _gaussian(array, sigma, order, kind, mode, cval, truncate, radius, axes):
    chosen = _axes(axes, array.ndim)
    values = [_per_axis(one, len(chosen)) for one in (sigma, order, mode, radius)]
    lines = [(_gaussian_line(s, o, truncate, r), axis, _mode(m), 0) for axis, s, o, m, r in zip(chosen, *values) if s > 1e-15]
    return _lines(array, lines, kind, cval)


@_or_scipy
def gaussian_filter(input, sigma, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None, axes=None):
    """scipy.ndimage.gaussian_filter: a Gaussian, or its derivatives, along all axes or those named."""
    array = _take(input)
    kind, output = _output(output, array)
    return _finish(_gaussian(array, sigma, order, kind, mode, cval, truncate, radius, axes), kind, output)


def _uniform_line(size, origin):
    size = operator.index(size)
    if size < 1:
        raise _NotOurs("a size below 1 is not taken")
    return np.full(size, 1.0 / size), operator.index(origin)


@_or_scipy
def uniform_filter1d(input, size, axis=-1, output=None, mode="reflect", cval=0.0, origin=0):
    """scipy.ndimage.uniform_filter1d: the mean of `size` samples along one axis."""
    weights, origin = _uniform_line(size, origin)
    return _one_line(input, weights, axis, output, mode, cval, origin, False)


@_or_scipy
def uniform_filter(input, size=3, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    """scipy.ndimage.uniform_filter: the mean of a box of `size` along all axes or those named."""
    array = _take(input)
    kind, output = _output(output, array)
    chosen = _axes(axes, array.ndim)
    values = [_per_axis(one, len(chosen)) for one in (size, origin, mode)]
    lines = []
    for axis, one, start, border in zip(chosen, *values):
        weights, start = _uniform_line(one, start)
        if weights.size > 1:
            lines.append((weights, axis, _mode(border), start))
    return _finish(_lines(array, lines, kind, cval), kind, output)


def _edges(input, axis, output, mode, cval, smooth):
    array = _take(input)
    kind, output = _output(output, array)
    axis, = _axes(axis, array.ndim)
    modes = [_mode(one) for one in _per_axis(mode, array.ndim)]
    lines = [(np.array((-1.0, 0, 1)), axis, modes[axis], 0)]
    lines += [(np.array(smooth), other, modes[other], 0) for other in range(array.ndim) if other != axis]
    return _finish(_lines(array, lines, kind, cval), kind, output)


@_or_scipy
def prewitt(input, axis=-1, output=None, mode="reflect", cval=0.0):
    """scipy.ndimage.prewitt: differences -1 0 1 along one axis, sums 1 1 1 along all others."""
    return _edges(input, axis, output, mode, cval, (1.0, 1, 1))


@_or_scipy
def sobel(input, axis=-1, output=None, mode="reflect", cval=0.0):
    """scipy.ndimage.sobel: differences -1 0 1 along one axis, sums 1 2 1 along all others."""
    return _edges(input, axis, output, mode, cval, (1.0, 2, 1))


def _sum(parts):
    """The sum of arrays, in their type, as SciPy adds them."""
    total = None
    for part in parts:
        total = part if total is None else np.add(total, part, out=total)
    if total is None:
        raise _NotOurs("there are no axes")
    return total


@_or_scipy
def laplace(input, output=None, mode="reflect", cval=0.0, *, axes=None):
    """scipy.ndimage.laplace: the sum of second differences 1 -2 1 along the axes."""
    array = _take(input)
    kind, output = _output(output, array)
    chosen = _axes(axes, array.ndim)
    modes = [_mode(one) for one in _per_axis(mode, len(chosen))]
    values = _floats(array)
    parts = (_along(values, np.array((1.0, -2, 1)), axis, one, cval, 0) for axis, one in zip(chosen, modes))
    return _store(_sum(_cut(part, kind) for part in parts), output)


def _derivatives(array, sigma, kind, mode, cval, axes, which, options):
    """The derivatives of order `which` of a smoothed array, along each of the axes."""
    wrong = options.keys() - {"truncate", "radius", "order"}
    if wrong:
        raise _NotOurs(f"the option {sorted(wrong)[0]} is not taken")
    truncate, radius = options.get("truncate", 4.0), options.get("radius")
    chosen = _axes(axes, array.ndim)
    for number, border in enumerate(_per_axis(mode, len(chosen))):  # which SciPy has for the whole derivative along an axis
        order = [which if other == number else 0 for other in range(len(chosen))]
        yield _gaussian(array, sigma, order, kind, border, cval, truncate, radius, axes)


@_or_scipy
def gaussian_laplace(input, sigma, output=None, mode="reflect", cval=0.0, *, axes=None, **kwargs):
    """scipy.ndimage.gaussian_laplace: the sum of the second derivatives of a Gaussian."""
    array = _take(input)
    kind, output = _output(output, array)
    parts = _derivatives(array, sigma, kind, mode, cval, axes, 2, kwargs)
    return _store(_sum(_cut(part, kind) for part in parts), output)


@_or_scipy
def gaussian_gradient_magnitude(input, sigma, output=None, mode="reflect", cval=0.0, *, axes=None, **kwargs):
    """scipy.ndimage.gaussian_gradient_magnitude: the root of the sum of squares of the first derivatives of a Gaussian."""
    array = _take(input)
    kind, output = _output(output, array)
    parts = (_cut(part, kind) for part in _derivatives(array, sigma, kind, mode, cval, axes, 1, kwargs))
    total = _sum((np.multiply(part, part) for part in parts))
    return _store(np.sqrt(total, total, casting="unsafe"), output)
