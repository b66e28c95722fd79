# SPDX-License-Identifier: MIT
"""What gconv.ndimage computes with: an array of any number of dimensions is correlated with lines of weights, each along an
axis, or with weights of as many dimensions as it has.

An array is seen as images, N x H x W x C (_image_of()). A line along H, W or C is a pass over these images: a column of
weights, a row of weights, or a matrix that mixes channels. A line along any other axis is a pass over a view that has this
axis as the height of images (_view_along()). All passes are plans of gconv.filter(), which read the samples as they are and
write the type of the result: no array of floats lies between. SciPy casts results as C does: cut towards 0, and wrapped
around. So does range="wrap". A result of int16 is one of uint16, seen as int16.
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
             "int16": np.dtype(np.uint16)}  # and what stores them
_FLOAT, _INT16 = np.dtype(np.float32), np.dtype(np.int16)
_WHITE = {"uint8": 255.0, "uint16": 65535.0, "float32": 1.0}
_WHOLE = 1 + 5e-7  # what is an integer but for the rounding of float32 counts as one
_INTEGER_WEIGHT = 257  # what the algorithm "integer" takes of |weights| together
_CHANNELS = 4  # at most, of an image

# Weights along an axis, a tuple of floats; the border there, by gconv's name; and which weight lies on the sample.
Line = collections.namedtuple("Line", "axis weights place mode")


def _cut(values, kind, whole=_WHOLE):
    """Converts an array to another type as C does: floats are cut towards 0."""
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
    """Returns (integers, divisor) whose quotients are the weights, or None. A mean has ones, and their number."""
    whole = np.rint(weights)
    if (whole == weights).all():
        return whole, 1.0
    least = np.abs(weights[weights != 0]).min()
    whole, divisor = np.rint(weights / least), float(np.rint(1 / least))
    if np.abs(whole).sum() > _INTEGER_WEIGHT or not np.allclose(whole / max(divisor, 1), weights, rtol=1e-12, atol=0):
        return None
    return whole, divisor


class _Pass:
    """Correlates images of the type `dtype` with a plane of weights, of which number `anchor` lies on the sample, after a
    matrix `mix` has mixed their channels, if there is one. `kind` is the type of the result.

    reads, makes: the types that gconv.filter() is given, and that it yields. kernel, options: its arguments."""

    def __init__(self, dtype, kind, weights, anchor, mode, cval=0.0, mix=None):
        constant, integers = mode == "constant", _as_integers(weights)
        integer_border = not constant or float(cval).is_integer()
        integer_mix = mix is None or bool((np.rint(mix) == mix).all())
        exact = bool(integers) and integers[1] == 1 and integer_border  # for integers and such a mix
        largest = np.abs(weights).sum() * (1 if mix is None else np.abs(mix).sum(1).max()) * 2 ** (8 * dtype.itemsize)
        self.kind, self.reads = kind, _FLOAT
        if dtype.name in _WHITE:
            self.reads = dtype
        elif {dtype.name, kind.name} <= _UNSIGNED.keys() and exact and integer_mix and kind.itemsize <= dtype.itemsize and \
                largest < 2 ** 24:
            self.reads = _UNSIGNED[dtype.name]  # as only the low bits of exact sums count
        if constant and not (integer_border and 0 <= cval <= _WHITE[self.reads.name]):
            self.reads = _FLOAT
        if mix is not None and self.reads != _UNSIGNED.get(kind.name):
            self.reads = _FLOAT  # channels are mixed within a type
        wraps = kind.name in _UNSIGNED and (mix is None or self.reads != _FLOAT)
        self.makes = _UNSIGNED[kind.name] if wraps else _FLOAT
        self.guard = 1.0 if exact and (self.reads != _FLOAT or dtype.name in _UNSIGNED and integer_mix) else _WHOLE
        white, divisor = _WHITE[self.reads.name], 1.0
        options = {"dtype": self.makes.name, "border": mode, "border_value": cval / white if constant else 0.0}
        if integers and self.reads != _FLOAT:
            weights, divisor = integers
            if self.reads == np.uint8 and np.abs(weights).sum() <= _INTEGER_WEIGHT and -128 <= weights.min() and \
                    weights.max() <= 127:
                self.guard, options["algorithm"] = 1.0, "integer"  # whose sums are exact
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
        return values.astype(_FLOAT) if self.reads == _FLOAT else values.view(self.reads)

    def finished(self, result):
        if self.makes == self.kind:
            return result
        return _cut(result, self.kind, self.guard) if self.makes == _FLOAT else result.view(self.kind)

    def is_continued_by(self, after):
        """Whether the next pass reads what this one makes, as it is."""
        return after.reads == self.makes and (self.makes == self.kind or self.makes != _FLOAT)


@functools.lru_cache(256)
def _kept_pass(dtype, kind, weights, shape, anchor, mode, cval):
    return _Pass(dtype, kind, np.frombuffer(weights).reshape(shape), anchor, mode, cval)


def _run(values, passes, shape, axes, output=None):
    """What passes that continue each other make of an array, which they see in another shape, with these axes. The result
    has the shape of the array; it is `output`, where that can be written directly."""
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
    """(N, H, W, C) of an array: its last axis is one of channels if it is short, and N stands for all before H."""
    sides = (1, 1, *shape) if len(shape) > 1 and shape[-1] <= _CHANNELS else (1, 1, *shape, 1)
    return math.prod(sides[:-3]), *sides[-3:]


def letter_of(axis, shape):
    """Which letter of _image_of() an axis is: "H", "W", "C", or "N", for those that are not one letter alone."""
    behind = len(shape) - axis + (0 if len(shape) > 1 and shape[-1] <= _CHANNELS else 1)
    return {1: "C", 2: "W", 3: "H"}.get(behind, "N")


def _as_seen(image):
    """(shape, axes) of N x H x W x C for gconv.filter(), without N and C where they are 1."""
    letters = "".join(letter for letter, size in zip("NHWC", image) if letter in "HW" or size > 1)
    return tuple(size for letter, size in zip("NHWC", image) if letter in letters), letters


def _view_along(axis, shape):
    """(shape, axes, whether the axis goes along rows) of an array seen as images, whatever the axis is."""
    before, behind = math.prod(shape[:axis]), math.prod(shape[axis + 1:])
    if behind <= _CHANNELS:
        return *_as_seen((1, before, shape[axis], behind)), True
    return *_as_seen((before, shape[axis], behind, 1)), False


# ---- Lines of weights along axes ----

def _positions(mode, places, length):
    """Which samples of an axis a border shows at these places; below 0 for its constant."""
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
    """What a line of weights along the channels is as a matrix."""
    matrix = np.zeros((channels, channels))
    for channel in range(channels):
        seen = _positions(line.mode, channel - line.place + np.arange(len(line.weights)), channels)
        np.add.at(matrix[channel], seen[seen >= 0], np.array(line.weights)[seen >= 0])
    return matrix


def largest_sum(dtype, lines):
    """What no sum of the lines exceeds, for arrays of this type; infinite if that is not known."""
    levels = np.inf if dtype.kind == "f" else np.iinfo(dtype).max + 1
    return levels * math.prod(float(np.abs(line.weights).sum()) for line in lines)


def are_exact(dtype, lines, kind, cval):
    """Whether nothing is cut between passes, and they go in any order: results are floats; or all weights are integers and
    all sums exact, so that the low bits are those of the whole sum, wherever it is wrapped around."""
    if cval != 0 and any(line.mode == "constant" for line in lines):  # which is no 0 to the next pass
        return False
    if kind.kind == "f":
        return True
    whole = all(weight.is_integer() for line in lines for weight in line.weights)
    return kind.name in _UNSIGNED and whole and largest_sum(dtype, lines) < 2 ** 24


def may_wrap(dtype, lines, kind):
    """Whether results of these passes may wrap around, where they are not exact. A sum that is off by its last bit becomes 0
    in place of 255 there, and what the next pass makes of it is off by any number of levels."""
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
    """Which lines are one pass: each pass as {letter of its axis: line}, where "N" is of a line along whatever axis."""
    steps = []
    for line in lines:
        letter = letter_of(line.axis, shape)
        mixes = finite and (cval == 0 or line.mode != "constant")  # a matrix adds up weights of one sample, and no cval
        steps.append({"N" if letter == "C" and not mixes else letter: line})
    if not are_exact(dtype, lines, kind, cval):
        return steps
    others = [step for step in steps if "N" in step]
    found = {letter: line for step in steps for letter, line in step.items() if letter != "N"}
    colours, down, across = found.pop("C", None), found.get("H"), found.get("W")
    together = down and across and down.mode == across.mode and len(down.weights) * len(across.weights) <= 1 << 16
    planes = [found] if together else [{letter: line} for letter, line in found.items()]
    if colours and planes and (others or _UNSIGNED.get(dtype.name, dtype) == _UNSIGNED.get(kind.name, kind)):
        planes[0]["C"] = colours  # mixed before they are filtered, which leaves their type as it is
    elif colours:
        planes.append({"C": colours})
    return others + planes


_NOTHING = Line(None, (1.0,), 0, "replicate")


def _pass_of(step, shape, dtype, kind, cval):
    """(the pass, (shape, axes) as which it sees the array)"""
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
    """What correlate_lines() runs for arrays of this shape and type: [(passes that continue each other, (shape, axes))]."""
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
    """The array correlated with lines of weights, one after the other. Between them, values have the type of the result, as
    SciPy keeps them there. The result is a new array, or `output`."""
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
    """The samples that lie `by` further along an axis, with its border."""
    seen = _positions(mode, np.arange(values.shape[axis]) + by, values.shape[axis])
    shifted = np.take(values, seen, axis)
    np.moveaxis(shifted, axis, 0)[seen < 0] = cval
    return shifted


def correlate_planes(array, weights, places, axes, kind, mode, cval, output=None):
    """The array correlated with weights of two dimensions or more, along axes in rising order. Of more than two, planes of
    weights are applied one by one to the array that is shifted, and added."""
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
