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
from ._filter import filter as _filter, filter_chain
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


# ---- One plan ----
#
# All that is computed is a plan of gconv.filter() that reads the samples as they are and writes the type of the result: no
# array of floats lies between. SciPy casts results as C does: cut towards 0, and wrapped around. So does range="wrap". A
# result of int16 is one of uint16, seen as int16.

_SMALL = {"uint8": np.uint8, "int8": np.uint8, "uint16": np.uint16, "int16": np.uint16}  # and what stores them
_WHITE = {"uint8": 255.0, "uint16": 65535.0, "float32": 1.0}
_WHOLE = 1 + 5e-7  # what is an integer but for the rounding of float32 counts as one
_INTEGER_WEIGHT = 257  # what the algorithm "integer" takes of |weights| together


def _floats(array):
    return np.ascontiguousarray(array, np.float32)


def _cut(values, kind):
    """An array as another type, as C casts: floats become integers that are cut towards 0."""
    if kind.kind == "f" or values.dtype == kind:
        return values.astype(kind, copy=False)
    if values.dtype.kind != "f":
        return values.astype(kind)
    return (values * np.float32(_WHOLE)).astype(np.int32 if kind.itemsize <= 2 else np.int64).astype(kind)


def _as_integers(weights):
    """(integers, divisor) that the weights are, or None: those of a mean are ones, over their number."""
    whole = np.rint(weights)
    if (whole == weights).all():
        return whole, 1.0
    least = np.abs(weights[weights != 0]).min()
    whole, divisor = np.rint(weights / least), float(np.rint(1 / least))
    if np.abs(whole).sum() > _INTEGER_WEIGHT or not np.allclose(whole / max(divisor, 1), weights, rtol=1e-12, atol=0):
        return None
    return whole, divisor


class _Stage:
    """A plan for arrays of one type: `reads`, as which type it reads them; `kernel` and `options` of gconv.filter(); `makes`,
    the type of its results, and `kind`, as which type they are seen or to which they are brought."""

    def __init__(self, dtype, kind, weights, anchor, mode, cval=0.0, mix=None):
        small, bits = kind.name in _SMALL, 8 * dtype.itemsize
        integer = dtype.name in _SMALL
        found = _as_integers(weights)
        mixes_integers = mix is None or bool((np.rint(mix) == mix).all())
        sums_integers = bool(found) and found[1] == 1 and mixes_integers and (mode != "constant" or float(cval).is_integer())
        reach = np.abs(weights).sum() * (1 if mix is None else np.abs(mix).sum(1).max())  # of sums: times the largest level
        self.kind, self.reads = kind, np.dtype(np.float32)
        if dtype == bool:
            self.reads = np.dtype(np.uint8)
        elif dtype.name in _WHITE:
            self.reads = dtype
        elif integer and small and sums_integers and kind.itemsize <= dtype.itemsize and reach * 2 ** bits < 2 ** 24:
            self.reads = np.dtype(_SMALL[dtype.name])  # as only the low bits of exact sums count
        if (mix is not None and self.reads != _SMALL.get(kind.name)) or \
                (mode == "constant" and not 0 <= cval <= _WHITE[self.reads.name]):
            self.reads = np.dtype(np.float32)
        wraps = small and (mix is None or self.reads != np.float32)  # channels are mixed within a type
        self.makes = np.dtype(_SMALL[kind.name] if wraps else np.float32)
        white, whole, divisor = _WHITE[self.reads.name], _WHOLE, 1.0
        options = {"dtype": self.makes.name, "border": mode, "border_value": cval / white if mode == "constant" else 0.0}
        if found and self.reads != np.float32:
            weights, divisor = found
            if self.reads == np.uint8 and np.abs(weights).sum() <= _INTEGER_WEIGHT and -128 <= weights.min() and \
                    weights.max() <= 127 and (mode != "constant" or float(cval).is_integer()):
                whole, options["algorithm"] = 1.0, "integer"  # whose sums are exact
        if found and found[1] == 1 and integer and reach * 2 ** bits > 1e6:
            whole = 1.0  # sums are integers, too large for what is added to others
        if wraps and not found:  # nothing is left to multiply sums with
            weights, whole = weights * whole, 1.0
        options["scale"] = white / _WHITE[self.makes.name] * whole if wraps else white
        if wraps:
            options["range"] = "wrap"
        if mix is not None:
            options["mix"] = tuple(map(tuple, (mix if mixes_integers or not wraps else mix * _WHOLE).tolist()))
        self.kernel, self.options = Filter(weights, anchor=anchor, divisor=divisor), options
        self.key = self.kernel, tuple(options.items())

    def stored(self, values):
        return _floats(values) if self.reads == np.float32 else values.view(self.reads)

    def is_continued_by(self, after):
        """Whether the next stage reads what this one makes, as it is."""
        return after.reads == self.makes and (self.makes == self.kind or self.makes != np.float32)


@functools.lru_cache(256)
def _kept_stage(dtype, kind, weights, shape, anchor, mode, cval):
    return _Stage(dtype, kind, np.frombuffer(weights).reshape(shape), anchor, mode, cval)


def _stage_of(dtype, kind, weights, anchor, mode, cval):
    """A stage that was made before, or a new one."""
    return _kept_stage(dtype, kind, weights.tobytes(), weights.shape, tuple(anchor), mode, cval)


def _run(values, stages, shape, axes, output=None):
    """What stages that continue each other make of an array, which they see in another shape, with these axes. The result has
    the shape of the array; it is `output`, where that can be written directly."""
    first, last = stages[0], stages[-1]
    samples, into = first.stored(np.ascontiguousarray(values)), None
    if output is not None and output.dtype == last.kind and last.kind.itemsize == last.makes.itemsize and \
            (last.kind == np.float32) == (last.makes == np.float32) and output.flags.c_contiguous and \
            output.flags.writeable and not np.may_share_memory(output, samples):
        into = output.view(last.makes).reshape(shape)
    if len(stages) == 1:
        result = _filter(samples.reshape(shape), first.kernel, axes=axes, out=into, **first.options)
    else:
        result = filter_chain(samples.reshape(shape), [one.key for one in stages], axes, into)
    if into is not None:
        return output
    exact = last.makes != np.float32
    return (result.view(last.kind) if exact else _cut(result, last.kind)).reshape(values.shape)


# ---- Lines of weights along axes ----

class _Line:
    """Weights along an axis, the border there, and the weight that lies on the sample. Lines with the same are equal."""

    def __init__(self, weights, axis, mode, origin=0):
        self.weights, self.axis, self.mode, self.place = weights, axis, mode, weights.size // 2 + origin
        if not 0 <= self.place < weights.size:
            raise _NotOurs("the origin lies outside the filter")
        self.key = weights.tobytes(), axis, mode, self.place

    def __eq__(self, other):
        return self.key == other.key

    def __hash__(self):
        return hash(self.key)


def _product(sizes):
    return functools.reduce(operator.mul, sizes, 1)


def _is_colours(line, shape):
    """Whether a line goes along a last axis that is so short, such as that of colours, that it is one of channels."""
    return line.axis == len(shape) - 1 > 0 and shape[-1] <= 4 < _product(shape[:-1])


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
        seen = _positions(line.mode, channel - line.place + np.arange(line.weights.size), channels)
        np.add.at(matrix[channel], seen[seen >= 0], line.weights[seen >= 0])
    return matrix


def _plane_of(down, across):
    """Weights and anchor of two lines, either of which may be None."""
    column, row = (np.ones(1) if line is None else line.weights for line in (down, across))
    return np.outer(column, row), (0 if down is None else down.place, 0 if across is None else across.place)


def _view(shape, down, across, colours):
    """(shape, axes) of an array whose axis number `down` runs down the images and `across` along their rows; of which either
    may be None. colours: the last axis is one of channels."""
    channels = shape[-1] if colours else 1
    if across is None:
        seen = (_product(shape[:down]), shape[down], _product(shape[down + 1:]) // channels, channels)
    else:
        first = across if down is None else down
        seen = (_product(shape[:first]), 1 if down is None else shape[down], shape[across],
                _product(shape[across + 1:]))
        if down is None:  # all rows are of one image
            seen = (1, seen[0], *seen[2:])
    return (seen[1:] if seen[0] == 1 else seen)[:None if seen[3] > 1 else -1], ("HW" if seen[0] == 1 else "NHW") + \
        ("C" if seen[3] > 1 else "")


def _pair(lines, shape, cval):
    """Two of the lines that can be one plane of weights, along neighbouring axes; or None."""
    for across in lines:
        for down in lines:
            if down.axis == across.axis - 1 and down.mode == across.mode and (cval == 0 or down.mode != "constant") and \
                    _product(shape[across.axis + 1:]) <= 4 and down.weights.size * across.weights.size <= 1 << 16:
                return down, across
    return None


def _alone(line, shape):
    return (None, line, None) if _product(shape[line.axis + 1:]) <= 4 else (line, None, None)


def _steps(lines, shape, dtype, kind, cval, together):
    """The passes that the lines are: (down, across, colours), each a line or None. together: lines of any order may be one
    pass, as nothing is cut between them."""
    colours = [line for line in lines if _is_colours(line, shape)]
    if not together:
        return [(None, None, line) if line in colours else _alone(line, shape) for line in lines]
    others, steps = [line for line in lines if line not in colours], []
    pair = _pair(others, shape, cval)
    if pair:
        steps.append((*pair, None))
    steps += [_alone(line, shape) for line in others if not pair or line not in pair]
    for line in colours:  # channels are mixed before they are filtered, if that leaves their type as it is
        if steps and _SMALL.get(dtype.name, dtype) == _SMALL.get(kind.name, kind):
            steps[0] = (*steps[0][:2], line)
        else:
            steps.append((None, None, line))
    return steps


def _reach(dtype, lines):
    """What no sum of the lines exceeds, for arrays of this type; 0 or infinite if that is not known."""
    level = 2 ** (8 * dtype.itemsize) if dtype.name in _SMALL else 1 if dtype == bool else np.inf
    sums = _product(float(np.abs(line.weights).sum()) for line in lines)
    return sums * level if sums > 0 else 0


def _are_exact(dtype, lines, kind, cval):
    """Whether nothing is cut between passes, and they go in any order: results are floats; or all weights are integers and
    all sums exact, so that the low bits are those of the whole sum, wherever it is wrapped around."""
    if cval != 0 and any(line.mode == "constant" for line in lines):  # which is no 0 to the next pass
        return False
    if kind.kind == "f":
        return True
    whole = all((np.rint(line.weights) == line.weights).all() for line in lines)
    return kind.name in _SMALL and whole and 0 < _reach(dtype, lines) < 2 ** 24


def _stage(dtype, step, kind, cval, channels):
    """(the stage that a step of _steps() is, what is added to its results, of each channel)"""
    down, across, colours = step
    weights, anchor = _plane_of(down, across)
    mode = "replicate" if down is None and across is None else (across if down is None else down).mode
    if colours is None:
        return _Stage(dtype, kind, weights, anchor, mode, cval), None
    matrix = _matrix(colours, channels)
    offset = cval * (colours.weights.sum() - matrix.sum(1)) if colours.mode == "constant" else np.zeros(1)
    if offset.any():  # before it is cut
        return _Stage(dtype, np.dtype(np.float32), weights, anchor, mode, 0.0, matrix), offset.astype(np.float32)
    return _Stage(dtype, kind, weights, anchor, mode, cval, matrix), None


def _view_of(shape, step):
    """How a step sees an array: its shape and its axes."""
    down, across, colours = step
    if down is None and across is None:
        return (_product(shape[:-2]), shape[-2], shape[-1]), "HWC"
    return _view(shape, *(None if line is None else line.axis for line in (down, across)), colours is not None)


def _image_of(shape, steps):
    """How all steps can see the array as one image, whose pixels are its last axis if that is short; or None."""
    pixels = len(shape) > 2 and shape[-1] <= 4
    width = len(shape) - (2 if pixels else 1)
    if width < 1 or _product(shape[:width - 1]) != 1:
        return None
    for down, across, colours in steps:
        if (down and down.axis != width - 1) or (across and across.axis != width) or (colours and not pixels):
            return None
    return shape[width - 1:], "HWC" if pixels else "HW"


@functools.lru_cache(256)
def _plan(shape, dtype, lines, kind, cval):
    """What _lines() runs for arrays of this shape and type: (stages, how they see the array, what is added, or None)."""
    steps = _steps(lines, shape, dtype, kind, cval, _are_exact(dtype, lines, kind, cval))
    image = _image_of(shape, steps) if all(line.mode != "wrap" for line in lines) else None  # which needs whole images
    runs = []
    for step in steps:
        stage, offset = _stage(dtype, step, kind, cval, shape[-1])
        dtype = kind
        stages, view, before = runs[-1] if runs else ([], None, None)
        if image and runs and before is None and offset is None and stages[-1].is_continued_by(stage):
            runs[-1] = [*stages, stage], image, None
        else:
            runs.append(([stage], _view_of(shape, step), offset))
    return runs


def _lines(array, lines, kind, cval, output=None):
    """The array correlated with lines of weights, one after the other. Between them, values have the type of the result, as
    SciPy keeps them there."""
    if kind == np.float32 and any(_is_colours(line, array.shape) for line in lines) and array.dtype.itemsize == 1 and \
            _are_exact(array.dtype, lines, np.dtype(np.int16), cval) and _reach(array.dtype, lines) < 2 ** 15:
        values = _lines(array, lines, np.dtype(np.int16), cval)  # a quarter of the time of mixing floats
        return _store(values, output) if output is not None else values.astype(kind)
    runs = _plan(array.shape, array.dtype, tuple(lines), kind, cval)
    values = array if runs else _cut(array.copy(), kind)
    for number, (stages, view, offset) in enumerate(runs):
        values = _run(values, stages, *view, output if number == len(runs) - 1 and offset is None else None)
        if offset is not None:
            values = _cut(values + offset, kind)
    return values


def _sum(array, parts, kind, cval, output=None):
    """The sum of the parts, each an array correlated with lines, in the type of the result, as SciPy adds them."""
    if not parts:
        raise _NotOurs("there are no axes")
    total = None
    for lines in parts:
        part = _lines(array, lines, kind, cval, output if len(parts) == 1 else None)
        total = part if total is None else np.add(total, part, out=total)
    return total


# ---- Planes of weights ----

def _store(result, output):
    if output is None or result is output:
        return result
    output[...] = result
    return output


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
        return _store(_cut(array.copy(), kind), output)
    several = [i for i, size in enumerate(weights.shape) if size > 1] or [0]  # one weight along an axis is none
    weights = weights.reshape([weights.shape[i] for i in several])
    chosen, origins = [chosen[i] for i in several], [origins[i] for i in several]
    if weights.ndim == 1:
        return _store(_lines(array, [_Line(weights, chosen[0], mode, origins[0])], kind, cval, output), output)
    anchor = [size // 2 + one for size, one in zip(weights.shape, origins)]
    if weights.ndim == 2 and chosen[0] == chosen[1] - 1 and _product(array.shape[chosen[1] + 1:]) <= 4:
        view = _view(array.shape, *chosen, False)
        return _store(_run(array, [_stage_of(array.dtype, kind, weights, anchor, mode, cval)], *view, output), output)
    values = np.ascontiguousarray(np.moveaxis(array, chosen, range(-len(chosen), 0)))
    if weights.ndim == 2:
        result = _run(values, [_stage_of(values.dtype, kind, weights, anchor, mode, cval)],
                      *_view(values.shape, values.ndim - 2, values.ndim - 1, False))
    else:
        result = _cut(_sum_of_planes(_floats(values), weights, mode, cval, anchor), kind)
    return _store(np.moveaxis(result, range(-len(chosen), 0), chosen), output)


def _sum_of_planes(values, weights, mode, cval, anchor):
    """Correlates the last three axes of an array of floats with weights: plane by plane of the first of these axes."""
    planes, result = values.reshape(-1, *values.shape[-3:]), np.zeros_like(values)
    sums = result.reshape(planes.shape)
    height, width = planes.shape[2:]
    for number, plane in enumerate(weights):
        seen = _positions(mode, np.arange(planes.shape[1]) + number - anchor[0], planes.shape[1])
        part = planes[:, seen]
        part[:, seen < 0] = cval
        stage = _stage_of(values.dtype, values.dtype, plane, anchor[1:], mode, cval)
        sums += _run(part, [stage], (-1, height, width), "NHW")
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
    return _store(_lines(array, [_Line(weights, axis, _mode(mode), origin)], kind, cval, output), output)


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
    sigma, order = float(sigma), operator.index(order)
    reach = int(truncate * sigma + 0.5) if radius is None else radius
    if sigma <= 0 or not isinstance(reach, (int, np.integer)) or reach < 0 or order < 0:
        raise _NotOurs("sigma, order or radius is none that a Gaussian has")
    return _bell(sigma, order, int(reach))


@functools.lru_cache(64)
def _bell(sigma, order, reach):
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


def _gaussian(array, sigma, order, mode, truncate, radius, axes):
    """The lines of a Gaussian, or of its derivatives."""
    chosen = _axes(axes, array.ndim)
    values = [_per_axis(one, len(chosen)) for one in (sigma, order, mode, radius)]
    return [_Line(_gaussian_line(s, o, truncate, r), axis, _mode(m)) for axis, s, o, m, r in zip(chosen, *values) if s > 1e-15]


@_or_scipy
def gaussian_filter(input, sigma, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None, axes=None):
    """scipy.ndimage.gaussian_filter: a Gaussian, or its derivatives, along all axes or those named."""
    array = _take(input)
    kind, output = _output(output, array)
    return _store(_lines(array, _gaussian(array, sigma, order, mode, truncate, radius, axes), kind, cval, output), output)


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
            lines.append(_Line(weights, axis, _mode(border), start))
    return _store(_lines(array, lines, kind, cval, output), output)


def _edges(input, axis, output, mode, cval, smooth):
    array = _take(input)
    kind, output = _output(output, array)
    axis, = _axes(axis, array.ndim)
    modes = [_mode(one) for one in _per_axis(mode, array.ndim)]
    lines = [_Line(np.array((-1.0, 0, 1)), axis, modes[axis])]
    lines += [_Line(np.array(smooth), other, modes[other]) for other in range(array.ndim) if other != axis]
    return _store(_lines(array, lines, kind, cval, output), output)


@_or_scipy
def prewitt(input, axis=-1, output=None, mode="reflect", cval=0.0):
    """scipy.ndimage.prewitt: differences -1 0 1 along one axis, sums 1 1 1 along all others."""
    return _edges(input, axis, output, mode, cval, (1.0, 1, 1))


@_or_scipy
def sobel(input, axis=-1, output=None, mode="reflect", cval=0.0):
    """scipy.ndimage.sobel: differences -1 0 1 along one axis, sums 1 2 1 along all others."""
    return _edges(input, axis, output, mode, cval, (1.0, 2, 1))


def _second_differences(array, lines, kind, cval, output):
    """The sum of what single lines of weights make: those of two neighbouring axes by one plane of weights."""
    pair = _pair([line for line in lines if not _is_colours(line, array.shape)], array.shape, cval)
    if not pair or not _are_exact(array.dtype, lines, kind, cval):
        return _sum(array, [[line] for line in lines], kind, cval, output)
    (down, across), others = pair, [line for line in lines if line not in pair]
    weights = np.zeros((down.weights.size, across.weights.size))
    weights[:, across.place] += down.weights
    weights[down.place] += across.weights
    view = _view(array.shape, down.axis, across.axis, False)
    stage = _stage_of(array.dtype, kind, weights, (down.place, across.place), down.mode, cval)
    total = _run(array, [stage], *view, None if others else output)
    for line in others:
        total = np.add(total, _lines(array, [line], kind, cval), out=total)
    return total


@_or_scipy
def laplace(input, output=None, mode="reflect", cval=0.0, *, axes=None):
    """scipy.ndimage.laplace: the sum of second differences 1 -2 1 along the axes."""
    array = _take(input)
    kind, output = _output(output, array)
    chosen = _axes(axes, array.ndim)
    modes = [_mode(one) for one in _per_axis(mode, len(chosen))]
    lines = [_Line(np.array((1.0, -2, 1)), axis, one) for axis, one in zip(chosen, modes)]
    return _store(_second_differences(array, lines, kind, cval, output), output)


def _derivatives(array, sigma, mode, axes, which, options):
    """The derivatives of order `which` of a smoothed array along each of the axes, each as a list of lines."""
    wrong = options.keys() - {"truncate", "radius", "order"}
    if wrong:
        raise _NotOurs(f"the option {sorted(wrong)[0]} is not taken")
    truncate, radius = options.get("truncate", 4.0), options.get("radius")
    chosen = _axes(axes, array.ndim)
    parts = []
    for number, border in enumerate(_per_axis(mode, len(chosen))):  # which SciPy has for the whole derivative along an axis
        order = [which if other == number else 0 for other in range(len(chosen))]
        parts.append(_gaussian(array, sigma, order, border, truncate, radius, axes))
    return parts


@_or_scipy
def gaussian_laplace(input, sigma, output=None, mode="reflect", cval=0.0, *, axes=None, **kwargs):
    """scipy.ndimage.gaussian_laplace: the sum of the second derivatives of a Gaussian."""
    array = _take(input)
    kind, output = _output(output, array)
    return _store(_sum(array, _derivatives(array, sigma, mode, axes, 2, kwargs), kind, cval, output), output)


def _magnitude(array, parts, kind, cval):
    """The root of the sum of the squares of the parts: in the type of the result, as SciPy adds them."""
    total = None
    for lines in parts:
        part = _lines(array, lines, kind, cval)
        part = np.multiply(part, part, out=part) if part is not array else np.multiply(part, part)
        total = part if total is None else np.add(total, part, out=total)
    if total is None:
        raise _NotOurs("there are no axes")
    if kind.kind == "u" and kind.itemsize <= 2:  # the same levels as those of NumPy's root, which is of float16 for uint8
        return np.sqrt(total, out=total, dtype=np.float32, casting="unsafe")
    return np.sqrt(total, total, casting="unsafe")


@_or_scipy
def gaussian_gradient_magnitude(input, sigma, output=None, mode="reflect", cval=0.0, *, axes=None, **kwargs):
    """scipy.ndimage.gaussian_gradient_magnitude: the root of the sum of squares of the first derivatives of a Gaussian."""
    array = _take(input)
    kind, output = _output(output, array)
    return _store(_magnitude(array, _derivatives(array, sigma, mode, axes, 1, kwargs), kind, cval), output)
