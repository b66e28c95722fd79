# SPDX-License-Identifier: MIT
"""The computations of gconv.ndimage. Arrays of any number of dimensions are correlated with lines of weights, each along an
axis, or with weights of several dimensions.

An array is viewed as images, N x H x W x C (_image_of()). A line along H, W or C is a pass over these images: a column of
weights, a row of weights, or a matrix that mixes channels. A line along any other axis is a pass over another view, in
which this axis is the height of the images (_view_along()). Each pass is a call of gconv.filter(), which reads samples in
their own type and writes the type of the result: there is no intermediate array of floats. SciPy casts results as C does:
truncated towards 0, and wrapped around. So does range="wrap". A result of int16 is computed as uint16, and viewed as int16.
"""
import collections
import functools
import math

import numpy as np

from ._filter import filter as _filter, filter_chain
from ._filters import Filter
from ._repeat import depends_on_samples

__all__ = ["Line", "are_exact", "are_finite", "correlate_lines", "correlate_planes", "largest_sum", "letter_of", "may_wrap"]

_UNSIGNED = {"uint8": np.dtype(np.uint8), "int8": np.dtype(np.uint8), "uint16": np.dtype(np.uint16),
             "int16": np.dtype(np.uint16)}  # integer types, and the unsigned type that stores their bits
_FLOAT, _INT16 = np.dtype(np.float32), np.dtype(np.int16)
_WHITE = {"uint8": 255.0, "uint16": 65535.0, "float32": 1.0}
_WHOLE = 1 + 5e-7  # before truncation, a factor for results that rounding in float32 may have put just below an integer
_INTEGER_WEIGHT = 257  # the limit of the algorithm "integer" on the sum of |weights|
_CHANNELS = 4  # the most channels of an image

# axis; weights, a tuple of floats; place, the index of the weight that lies on the sample; mode, gconv's name of the border.
Line = collections.namedtuple("Line", "axis weights place mode")


def _cut(values, kind, whole=_WHOLE):
    """Converts an array to another type as C does: floats are truncated towards 0."""
    if kind.kind == "f" or values.dtype == kind:
        return values.astype(kind, copy=False)
    if values.dtype.kind != "f":
        return values.astype(kind)
    return (values * np.float32(whole)).astype(np.int32 if kind.itemsize <= 2 else np.int64).astype(kind)


def are_finite(values):
    """Returns whether all floats are finite. May return False if their sum is too large."""
    if values.dtype.kind != "f":
        return True
    depends_on_samples()
    with np.errstate(all="ignore"):
        return bool(np.isfinite(values.sum()))


# ---- One pass: a plan of gconv.filter() ----

def _as_integers(weights):
    """Returns (integers, divisor) such that integers / divisor are the weights, or None. For a mean: ones and their
    number."""
    whole = np.rint(weights)
    if (whole == weights).all():
        return whole, 1.0
    least = np.abs(weights[weights != 0]).min()
    whole, divisor = np.rint(weights / least), float(np.rint(1 / least))
    if np.abs(whole).sum() > _INTEGER_WEIGHT or not np.allclose(whole / max(divisor, 1), weights, rtol=1e-12, atol=0):
        return None
    return whole, divisor


class _Pass:
    """Correlates images of the type `dtype` with a plane of weights; the weight at `anchor` lies on the sample. If there is
    a matrix `mix`, it mixes channels first. `kind` is the type of the result.

    reads, makes: the types of samples and results of gconv.filter(). kernel, options: its arguments."""

    def __init__(self, dtype, kind, weights, anchor, mode, cval=0.0, mix=None):
        constant, integers = mode == "constant", _as_integers(weights)
        integer_border = not constant or float(cval).is_integer()
        integer_mix = mix is None or bool((np.rint(mix) == mix).all())
        exact = bool(integers) and integers[1] == 1 and integer_border  # sums are exact if samples and mix are integers
        largest = np.abs(weights).sum() * (1 if mix is None else np.abs(mix).sum(1).max()) * 2 ** (8 * dtype.itemsize)
        self.kind, self.reads = kind, _FLOAT
        if dtype.name in _WHITE:
            self.reads = dtype
        elif {dtype.name, kind.name} <= _UNSIGNED.keys() and exact and integer_mix and kind.itemsize <= dtype.itemsize and \
                largest < 2 ** 24:
            self.reads = _UNSIGNED[dtype.name]  # sums are exact, and only their low bits count
        if constant and not (integer_border and 0 <= cval <= _WHITE[self.reads.name]):
            self.reads = _FLOAT
        if mix is not None and self.reads != _UNSIGNED.get(kind.name):
            self.reads = _FLOAT  # the result of mixing has the type of the samples
        wraps = kind.name in _UNSIGNED and (mix is None or self.reads != _FLOAT)
        self.makes = _UNSIGNED[kind.name] if wraps else _FLOAT
        self.guard = 1.0 if exact and (self.reads != _FLOAT or dtype.name in _UNSIGNED and integer_mix) else _WHOLE
        white, divisor = _WHITE[self.reads.name], 1.0
        options = {"dtype": self.makes.name, "border": mode, "border_value": cval / white if constant else 0.0}
        if integers and self.reads != _FLOAT:
            weights, divisor = integers
            if self.reads == np.uint8 and np.abs(weights).sum() <= _INTEGER_WEIGHT and -128 <= weights.min() and \
                    weights.max() <= 127:
                self.guard, options["algorithm"] = 1.0, "integer"  # this algorithm's sums are exact
        options["scale"] = white
        if wraps:
            options["range"] = "wrap"
            options["scale"] = white / _WHITE[self.makes.name] * (self.guard if integers else 1.0)
            weights = weights if integers else weights * self.guard
        if mix is not None:
            options["mix"] = tuple(map(tuple, (mix if integer_mix or not wraps else mix * _WHOLE).tolist()))
        self.kernel, self.options = Filter(weights, anchor=anchor, divisor=divisor), options

    def stored(self, values):
        values = np.ascontiguousarray(values)
        if self.reads == values.dtype:
            return values
        if self.reads != _FLOAT:
            return values.view(self.reads)
        return values.astype(_FLOAT) if values.dtype.name in _WHITE else values  # others gconv.filter() converts, by strips

    def finished(self, result):
        if self.makes == self.kind:
            return result
        return _cut(result, self.kind, self.guard) if self.makes == _FLOAT else result.view(self.kind)

    def is_continued_by(self, after):
        """Returns whether the next pass can read the result of this pass without conversion."""
        return after.reads == self.makes and (self.makes == self.kind or self.makes != _FLOAT)


@functools.lru_cache(256)
def _kept_pass(dtype, kind, weights, shape, anchor, mode, cval):
    return _Pass(dtype, kind, np.frombuffer(weights).reshape(shape), anchor, mode, cval)


def _run(values, passes, shape, axes, output=None):
    """Runs passes, each on the result of the one before it, on an array that is reshaped to `shape`, with these axes. The
    result has the shape of the array; it is `output` if that can be written directly."""
    first, last = passes[0], passes[-1]
    samples, into = first.stored(values), None
    if output is not None and output.dtype == last.kind and (last.makes != _FLOAT or last.kind == _FLOAT) and \
            output.flags.c_contiguous and output.flags.writeable and not np.may_share_memory(output, samples):
        into = output.view(last.makes).reshape(shape)
    samples = samples if samples.shape == shape else samples.reshape(shape)
    if len(passes) == 1:
        result = _filter(samples, first.kernel, axes=axes, out=into, **first.options)
    else:
        result = filter_chain(samples, [(one.kernel, tuple(one.options.items())) for one in passes], axes, into)
    if into is not None:
        return output
    result = last.finished(result)
    return result if result.shape == values.shape else result.reshape(values.shape)


# ---- Arrays as images ----

def _image_of(shape):
    """Returns (N, H, W, C) of an array: the last axis is channels if it has at most 4; N is all axes before H."""
    sides = (1, 1, *shape) if len(shape) > 1 and shape[-1] <= _CHANNELS else (1, 1, *shape, 1)
    return math.prod(sides[:-3]), *sides[-3:]


def letter_of(axis, shape):
    """Returns the letter of an axis in _image_of(): "H", "W", "C", or "N" for all axes before H."""
    behind = len(shape) - axis + (0 if len(shape) > 1 and shape[-1] <= _CHANNELS else 1)
    return {1: "C", 2: "W", 3: "H"}.get(behind, "N")


def _as_seen(image):
    """Returns (shape, axes) of N x H x W x C for gconv.filter(), without N and C if they are 1."""
    letters = "".join(letter for letter, size in zip("NHWC", image) if letter in "HW" or size > 1)
    return tuple(size for letter, size in zip("NHWC", image) if letter in letters), letters


def _view_along(axis, shape):
    """Returns (shape, axes, along_rows) of a view as images for any axis of an array: `axis` is the width of the images if
    along_rows, else their height."""
    before, behind = math.prod(shape[:axis]), math.prod(shape[axis + 1:])
    if behind <= _CHANNELS:
        return *_as_seen((1, before, shape[axis], behind)), True
    return *_as_seen((before, shape[axis], behind, 1)), False


# ---- Lines of weights along axes ----

def _positions(mode, places, length):
    """Returns the indices of the samples that a border puts at these places of an axis; -1 stands for the constant."""
    if mode == "replicate":
        return np.clip(places, 0, length - 1)
    if mode == "constant":
        return np.where((places < 0) | (places >= length), -1, places)
    if mode == "wrap":
        return places % length
    period = 2 * length if mode == "symmetric" else max(2 * length - 2, 1)
    places = places % period
    return np.where(places < length, places, period - places - (mode == "symmetric"))


def _matrix(line, channels):
    """Returns the matrix of a line of weights along the channels."""
    matrix = np.zeros((channels, channels))
    for channel in range(channels):
        seen = _positions(line.mode, channel - line.place + np.arange(len(line.weights)), channels)
        np.add.at(matrix[channel], seen[seen >= 0], np.array(line.weights)[seen >= 0])
    return matrix


def largest_sum(dtype, lines):
    """Returns an upper bound of sums of the lines, for arrays of this type; infinite if it is not known."""
    levels = np.inf if dtype.kind == "f" else np.iinfo(dtype).max + 1
    return levels * math.prod(float(np.abs(line.weights).sum()) for line in lines)


def are_exact(dtype, lines, kind, cval):
    """Returns whether passes may be reordered and fused, as nothing is truncated between them: results are floats; or all
    weights are integers and all sums exact, so that wrapping around at any point leaves the low bits of the sum."""
    if cval != 0 and any(line.mode == "constant" for line in lines):  # after a pass, this border is no longer 0
        return False
    if kind.kind == "f":
        return True
    whole = all(weight.is_integer() for line in lines for weight in line.weights)
    return kind.name in _UNSIGNED and whole and largest_sum(dtype, lines) < 2 ** 24


def may_wrap(dtype, lines, kind):
    """Returns whether results of these passes may wrap around without being exact. A sum with a wrong last bit may then
    become 0 in place of 255, so that the result of the next pass is wrong by any number of levels."""
    for line in lines if kind.name in _UNSIGNED else ():
        limits = (0, 1) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        weights = np.array(line.weights)
        below, above = weights[weights < 0].sum(), weights[weights > 0].sum()
        least, largest = below * limits[1] + above * limits[0], above * limits[1] + below * limits[0]
        if (dtype.kind == "f" or least <= np.iinfo(kind).min - 1 or largest >= np.iinfo(kind).max + 1) and \
                not all(weight.is_integer() for weight in line.weights):
            return True
        dtype = kind
    return False


def _steps(lines, shape, dtype, kind, cval, finite):
    """Groups lines into passes. A pass is a dict {letter of the axis: line}; "N" stands for a line along any axis."""
    steps = []
    for line in lines:
        letter = letter_of(line.axis, shape)
        mixes = finite and (cval == 0 or line.mode != "constant")  # a matrix adds up weights of a sample, and has no cval
        steps.append({"N" if letter == "C" and not mixes else letter: line})
    if not are_exact(dtype, lines, kind, cval):
        return steps
    others = [step for step in steps if "N" in step]
    found = {letter: line for step in steps for letter, line in step.items() if letter != "N"}
    colours, down, across = found.pop("C", None), found.get("H"), found.get("W")
    together = down and across and down.mode == across.mode and len(down.weights) * len(across.weights) <= 1 << 16
    planes = [found] if together else [{letter: line} for letter, line in found.items()]
    if colours and planes and (others or _UNSIGNED.get(dtype.name, dtype) == _UNSIGNED.get(kind.name, kind)):
        planes[0]["C"] = colours  # channels are mixed before filtering, which keeps their type
    elif colours:
        planes.append({"C": colours})
    return others + planes


_NOTHING = Line(None, (1.0,), 0, "replicate")


def _pass_of(step, shape, dtype, kind, cval):
    """Returns (the pass, (shape, axes) of its view of the array)."""
    if "N" in step:
        line = step["N"]
        *view, along_rows = _view_along(line.axis, shape)
        weights, anchor = np.array(line.weights), (0, line.place) if along_rows else (line.place, 0)
        return _Pass(dtype, kind, weights.reshape((1, -1) if along_rows else (-1, 1)), anchor, line.mode, cval), tuple(view)
    down, across = step.get("H", _NOTHING), step.get("W", _NOTHING)
    mix = _matrix(step["C"], shape[-1]) if "C" in step else None
    mode = (across if down is _NOTHING else down).mode
    weights = np.outer(down.weights, across.weights)
    return _Pass(dtype, kind, weights, (down.place, across.place), mode, cval, mix), _as_seen(_image_of(shape))


@functools.lru_cache(256)
def _plan(shape, dtype, lines, kind, cval, finite):
    """Returns what correlate_lines() runs for arrays of this shape and type: tuples (a chain of passes, (shape, axes))."""
    runs = []
    for step in _steps(lines, shape, dtype, kind, cval, finite):
        one, view = _pass_of(step, shape, dtype, kind, cval)
        dtype = kind
        if runs and view == runs[-1][1] and "N" not in view[1] and runs[-1][0][-1].is_continued_by(one):
            runs[-1][0].append(one)
        else:
            runs.append(([one], view))
    return runs


def correlate_lines(array, lines, kind, cval, output=None):
    """Correlates the array with lines of weights, one after the other. Intermediate values have the type of the result, as
    in SciPy. The result is a new array, or `output`."""
    lines, colours = tuple(lines), any(letter_of(line.axis, array.shape) == "C" for line in lines)
    if kind == _FLOAT and array.dtype.itemsize == 1 and colours and are_exact(array.dtype, lines, _INT16, cval) and \
            largest_sum(array.dtype, lines) < 2 ** 15:
        return correlate_lines(array, lines, _INT16, cval).astype(kind)  # faster than mixing floats
    runs = _plan(array.shape, array.dtype, lines, kind, cval, not colours or are_finite(array))
    values = array if runs else _cut(array.copy(), kind)
    for number, (passes, view) in enumerate(runs):
        values = _run(values, passes, *view, output if number == len(runs) - 1 else None)
    return values


# ---- Weights of several dimensions ----

def _shifted(values, axis, by, mode, cval):
    """Returns the array shifted by `by` samples along an axis, filled by the border."""
    seen = _positions(mode, np.arange(values.shape[axis]) + by, values.shape[axis])
    shifted = np.take(values, seen, axis)
    np.moveaxis(shifted, axis, 0)[seen < 0] = cval
    return shifted


def correlate_planes(array, weights, places, axes, kind, mode, cval, output=None):
    """Correlates the array with weights of two or more dimensions, along axes in rising order. With more than two, each
    plane of weights is applied to a shifted array, and the results are added."""
    letters = "".join(letter_of(axis, array.shape) for axis in axes)
    values = array if letters == "HW" else np.moveaxis(array, axes, range(-len(axes), 0))
    image = _image_of(array.shape) if letters == "HW" else (math.prod(values.shape[:-2]), *values.shape[-2:], 1)
    if weights.ndim == 2:
        plane = _kept_pass(array.dtype, kind, weights.tobytes(), weights.shape, tuple(places), mode, cval)
        result = _run(values, [plane], *_as_seen(image), output if letters == "HW" else None)
    else:
        values, result = np.ascontiguousarray(values, _FLOAT), np.zeros(values.shape, _FLOAT)
        for number in np.ndindex(weights.shape[:-2]):
            part = values
            for axis, (one, place) in enumerate(zip(number, places), -weights.ndim):
                part = _shifted(part, axis, one - place, mode, cval)
            result += _run(part, [_Pass(_FLOAT, _FLOAT, weights[number], places[-2:], mode, cval)], *_as_seen(image))
        result = _cut(result, kind, 1.0 if array.dtype.kind != "f" and (np.rint(weights) == weights).all() else _WHOLE)
    return result if letters == "HW" else np.moveaxis(result, range(-len(axes), 0), axes)
