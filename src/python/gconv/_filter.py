# SPDX-License-Identifier: MIT
"""Filtering of arrays: filter(), and Plan, which is made once and called many times."""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from . import _core
from ._arguments import choose, flags, is_for, pair, real, sides, whole
from ._arrays import apply, check_axes, library_of, refuse_masked, type_name
from ._errors import ArgumentError
from ._filters import Filter, resolve
from ._repeat import kept, note
from ._types import Alpha, Array, Border, Combine, Combined, Kernel, Nan, OneKernel, Padding, Pair, Range

__all__ = ["OPTIONS", "Plan", "check_options", "clear_cache", "filter", "filter_operation", "filter_options"]

BORDERS = {"zero": 0, "constant": 1, "replicate": 2, "symmetric": 3, "reflect101": 4, "wrap": 5, "normalize": 6}
PADDINGS = {"same": 0, "valid": 1, "full": 2}
COMBINES = {"none": 0, "magnitude": 1, "sum": 2, "max": 3, "stack": 4}
RANGES = {"clamp": 0, "abs": 1, "signed": 2, "minmax": 3, "wrap": 4}
ALPHAS = {"keep": 0, "filter": 1, "premultiply": 2, "drop": 3}
NANS = {"keep": 0, "skip": 1, "fill": 2, "zero": 3}
STATISTICS = ("variance", "std", "contrast")
TYPES = {"uint8": 0, "uint16": 1, "float32": 2, "int16": 3}

_KEPT_OPERATIONS = 256
_operations = {}  # a cache, by kernel and options; the oldest is first


OPTIONS = ("border", "border_value", "padding", "stride", "dilation", "flip", "combine", "scale", "offset", "range", "alpha",
           "gray", "linear", "mix", "algorithm", "nan", "weights", "preserve_nan", "nodata", "least_weight")


def check_options(function, options, known):
    wrong = sorted(options.keys() - set(known))
    if wrong:
        raise TypeError(f"{function}() has no option {wrong[0]!r}: it takes {', '.join(known)}")


def padding_options(value):
    """Returns the options for a padding: a word, or numbers of pixels."""
    if isinstance(value, str):
        return {"padding": choose("padding", value, PADDINGS)}
    return dict(zip(("padding", "pad_top", "pad_bottom", "pad_left", "pad_right"), (3, *sides("padding", value))))


def mixing_options(value):
    """Returns the options for a matrix that mixes channels: the number of channels, and 16 numbers."""
    try:
        matrix = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        matrix = np.zeros(0)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not 1 <= matrix.shape[0] <= 4:
        raise ArgumentError("mix= is a matrix of numbers, as many rows and columns as there are channels, 1 to 4")
    whole_matrix = np.zeros((4, 4))
    whole_matrix[:len(matrix), :len(matrix)] = matrix
    return {"mix": len(matrix), "mixing": whole_matrix.ravel().tolist()}


def type_number(dtype):
    try:
        name = np.dtype(dtype).name
    except TypeError:  # a type of another array library
        name = str(dtype).removeprefix("torch.")
    return choose("dtype", name, TYPES)


def hole_options(nan, weights, preserve_nan, nodata, least_weight):
    """Returns the options for missing samples and for weights, without those that are None."""
    options = {"nan": choose("nan", nan, NANS), **flags(preserve_nan=preserve_nan)}
    if weights is not None:
        try:
            options["weights"] = np.ascontiguousarray(weights, np.float32)
        except (TypeError, ValueError):
            options["weights"] = np.zeros(0)
        if options["weights"].ndim != 2 or options["weights"].size == 0:
            raise ArgumentError("weights= is an array of numbers, H x W: one for each pixel")
    if nodata is not None:
        options["nodata"] = real("nodata", nodata)
    if least_weight is not None:
        options["least_weight"] = real("least_weight", least_weight)
    return options


def filter_options(filters, border=None, border_value=0.0, padding="same", stride=1, dilation=1, flip=False, dtype=None,
                   combine=None, scale=1.0, offset=0.0, range="clamp", alpha=None, gray=False, linear=False,
                   mix=None, algorithm="auto", nan="keep", weights=None, preserve_nan=False, nodata=None, least_weight=None):
    """Converts the options of filter() to those of the extension."""
    combine = ("magnitude" if filters.gradient else "none") if combine is None else combine
    (stride_y, stride_x), (dilation_y, dilation_x) = pair("stride", stride, 1), pair("dilation", dilation, 1)
    holes = hole_options(nan, weights, preserve_nan, nodata, least_weight)
    if border is None:  # if samples are left out, pixels outside the image are left out, too
        leaves_out = nan in ("skip", "fill") or weights is not None or (nodata is not None and nan != "zero")
        border = "normalize" if leaves_out else "zero"
    options = {
        **holes, "border": choose("border", border, BORDERS), "border_value": real("border_value", border_value),
        **padding_options(padding), "stride_y": stride_y, "stride_x": stride_x, "dilation_y": dilation_y, "dilation_x": dilation_x,
        **flags(flip=flip, gray=gray, linear=linear), "combine": choose("combine", combine, COMBINES),
        "scale": real("scale", scale), "offset": real("offset", offset), "range": choose("range", range, RANGES),
        "algorithm": str(algorithm)}
    is_for("border_value", options["border_value"], border == "constant", 'border="constant"')
    if options["scale"] == 0:
        raise ArgumentError("scale=0: all samples would be the same, whatever the image")
    if mix is not None:
        options.update(mixing_options(mix))
    if alpha is not None:
        options["alpha"] = choose("alpha", alpha, ALPHAS)
    if dtype is not None:
        options["output_type"] = type_number(dtype)
    return options


def _statistic_of(kernel):
    """Returns "std" for "std:size=5", which is no filter but a statistic, and so on; None for filters."""
    name = kernel.partition(":")[0] if isinstance(kernel, str) else None
    return name if name in STATISTICS and not os.path.exists(kernel) else None


def filter_operation(kernel, *options, **more):
    """Makes the operation of a kernel and options. Its plans are made when it is first applied."""
    name = _statistic_of(kernel)
    filters = resolve("average" + kernel[len(name):] if name else kernel)
    asked = filter_options(filters, *options, **more)
    if name:  # the box of the filter gives the size of the window
        asked["statistic"] = STATISTICS.index(name)
        if (options[0] if options else more.get("border")) is None:
            asked["border"] = choose("border", "normalize", BORDERS)
    return _core.filter_operation([one._as_tuple() for one in filters], asked)


def _keep(key, operation):
    while len(_operations) >= _KEPT_OPERATIONS:
        try:
            del _operations[next(iter(_operations))]
        except (KeyError, RuntimeError, StopIteration):  # another thread was faster
            break
    _operations[key] = operation


def _operation_of(kernel, options):
    """Returns the operation of filter() from the cache, or makes it. Arrays are compared by their numbers, built-in filters
    by their names; files, and arrays of other libraries, are read each time."""
    if type(kernel) is np.ndarray:
        key = kernel.tobytes(), kernel.shape, kernel.dtype, options
    elif type(kernel) is Filter or type(kernel) is str and not os.path.exists(kernel):
        key = kernel, options
    else:
        kernel = resolve(kernel)
        key = kernel, kernel.gradient, options
    try:
        operation = _operations.get(key)
    except TypeError:  # an option is a list, which cannot be a key
        return filter_operation(kernel, *options)
    if operation is None:
        operation = filter_operation(kernel, *options)
        _keep(key, operation)
    return operation


@overload
def filter(image: Array, kernel: OneKernel, *, border: Border | None = ..., border_value: float = ..., padding: Padding = ...,
           stride: Pair = ..., dilation: Pair = ..., flip: bool = ..., axes: str | None = ..., dtype: None = ...,
           combine: Combined | None = ..., scale: float = ..., offset: float = ..., range: Range = ...,
           alpha: Alpha | None = ..., gray: bool = ..., linear: bool = ..., mix: object | None = ...,
           device: str | None = ..., algorithm: str = ..., out: Array | None = ..., nan: Nan = ..., weights: Any = ...,
           preserve_nan: bool = ..., nodata: float | None = ..., least_weight: float | None = ...) -> Array: ...
@overload
def filter(image: Array, kernel: Kernel, *, border: Border | None = ..., border_value: float = ..., padding: Padding = ...,
           stride: Pair = ..., dilation: Pair = ..., flip: bool = ..., axes: str | None = ..., dtype: Any = ...,
           combine: Combine | None = ..., scale: float = ..., offset: float = ..., range: Range = ...,
           alpha: Alpha | None = ..., gray: bool = ..., linear: bool = ..., mix: object | None = ...,
           device: str | None = ..., algorithm: str = ..., out: Any = ..., nan: Nan = ..., weights: Any = ...,
           preserve_nan: bool = ..., nodata: float | None = ..., least_weight: float | None = ...) -> Any: ...
def filter(image: Array, kernel: Kernel, *, border: Border | None = None, border_value: float = 0.0, padding: Padding = "same",
           stride: Pair = 1, dilation: Pair = 1, flip: bool = False, axes: str | None = None, dtype: Any = None,
           combine: Combine | None = None, scale: float = 1.0, offset: float = 0.0, range: Range = "clamp",
           alpha: Alpha | None = None, gray: bool = False, linear: bool = False, mix: object | None = None,
           device: str | None = None, algorithm: str = "auto", out: Any = None, nan: Nan = "keep", weights: Any = None,
           preserve_nan: bool = False, nodata: float | None = None, least_weight: float | None = None) -> Any:
    """Filters an image: by default by correlation, with zeros outside the image, and results of the same size.

    image: an array of NumPy, PyTorch or CuPy (or anything that NumPy converts), of 2 to 4 dimensions. uint8, uint16 and
        float32 are filtered directly. Other integers, bool, float16 and float64 are converted to float32, and the result
        back (except for bool): integers are rounded to nearest even and saturated. Rows with gaps are copied.
    kernel: a plane of numbers, R x S; a text as for `gconv -f` ("gaussian:sigma=2", "sobel", a file); a Filter; or a list
        of these. "std:size=5", "variance:size=5" and "contrast:size=31" are statistics of the samples in a window, on the
        CPU; by default, they leave out samples outside the image.
    border: what lies outside the image: "zero", "constant" (border_value, where 1 is white; of float32 a sample),
        "replicate", "symmetric", "reflect101", "wrap", or "normalize" (the taps inside the image are scaled up to the sum
        of all taps). The default is "zero", or "normalize" if nan=, nodata= or weights= leaves samples out.
    padding: "same", "valid", "full", or numbers of pixels: one, (down, across) or (top, bottom, left, right).
    stride, dilation: whole numbers, or (down, across).
    flip: turn the filter by 180 degrees: mathematical convolution.
    axes: the meaning of the array's axes: "HW", "HWC", "CHW", "NCHW" ...; by default HW, HWC and NCHW for 2, 3 and 4
        dimensions. Each channel and each image is filtered by itself.
    dtype: the type of the result, "uint8", "uint16", "float32" or "int16"; by default that of the image. White stays white:
        255 in uint8 becomes 1.0 in float32. "int16" (on the CPU) holds signed levels of the image, rounded to nearest even
        and saturated: 255 in uint8 stays 255, and a derivative may be -255.
    combine: how the results of several filters are combined: "none" (a tuple of results), "magnitude", "sum", "max" or
        "stack" (channels); by default "magnitude" for a gradient such as "sobel", else "none".
    scale, offset: a result is response * scale + offset, offset in units of white.
    range: "clamp", "abs", "signed", "minmax", or "wrap" (on the CPU): integers are truncated towards 0 and wrap around,
        like casts in C and NumPy.
    alpha: the last channel of HWC is alpha: "keep", "filter", "premultiply" or "drop"; None: the array has no alpha.
    gray, linear: make one grey channel first; filter in linear light (sRGB).
    mix: a matrix, channels x channels: channel c of HWC first becomes the sum over d of mix[c][d] times channel d.
    device: "cpu", "cuda", "cuda:1", "auto"; by default where the array is.
    algorithm: "auto", or a name that gconv.algorithms() lists.
    out: an array for the result, of its shape and type, that does not overlap the image.
    nan: what becomes of NaN and infinities: "keep" (they spread as far as the filter reaches), "skip" (they are left out of
        sums and of their weights, and stay NaN where they are), "fill" (left out, and filled) or "zero".
    weights: an array, H x W: the weight of each pixel, such as the confidence in it, or a mask. A result is
        sum(t) * sum(t * w * x) / sum(t * w), for taps t.
    preserve_nan: NaN in the image stays NaN in the result, with any nan=, as in astropy.
    nodata: samples of this value are missing: they are left out, and stay in the result unless nan="fill" or "zero".
    least_weight: a result is NaN if |sum(t * w)| is below this share of sum |t|; by default 2 ** -10.

    Returns an array of the library of `image`, on its device. Raises ArgumentError (a ValueError), UnsupportedError (a
    NotImplementedError), NoMemoryError (a MemoryError) or DeviceError. Calls from several threads run in parallel.
    """
    options = (border, border_value, padding, stride, dilation, flip, dtype, combine, scale, offset, range, alpha, gray,
               linear, mix, algorithm, nan, weights, preserve_nan, nodata, least_weight)
    try:  # most calls find their operation in the cache
        if type(kernel) is np.ndarray:
            operation = _operations[kernel.tobytes(), kernel.shape, kernel.dtype, options]
        else:
            operation = _operations[kernel, options]
    except (KeyError, TypeError):
        operation = _operation_of(kernel, options)
    refuse_masked(image)
    result = operation.run(image, axes, device, out, None, False)
    if result is None and library_of(image) in ("dask.array", "xarray"):
        names = ("border", "border_value", "padding", "stride", "dilation", "flip", "dtype", "combine", "scale", "offset", "range",
                 "alpha", "gray", "linear", "mix", "algorithm", "nan", "weights", "preserve_nan", "nodata", "least_weight")
        return _filter_labelled(image, kernel, axes=axes, device=device, out=out, **dict(zip(names, options)))
    if result is None:
        return apply(operation, image, axes, device, out, typed=dtype is not None, ready=False)
    if device is None and out is None:
        note(operation, axes, image, result)
    return result


def _filter_labelled(image, kernel, **options):
    """filter() of an array of Dask, or of xarray. Results of xarray keep names of axes and coordinates."""
    if library_of(image) == "dask.array":
        from . import dask
        return dask.filter(image, kernel, **options)
    results = filter(image.data, kernel, **options)
    named = [image.copy(data=one) if one.shape == image.shape else one for one in (results if isinstance(results, tuple) else (results,))]
    return tuple(named) if isinstance(results, tuple) else named[0]


def filter_chain(image, stages, axes, out=None):
    """Applies several stages, tuples (kernel, pairs of its options), one after the other. Works strip by strip, so that no
    intermediate result has the size of the image."""
    stages = tuple(stages)
    operation = _operations.get(stages)
    if operation is None:
        operation = _core.chain_operation([filter_operation(kernel, **dict(options)) for kernel, options in stages])
        _keep(stages, operation)
    refuse_masked(image)
    result = operation.run(image, axes, None, out, None, False)
    if result is None:
        return apply(operation, image, axes, None, out, typed=True, ready=False)
    if out is None:
        note(operation, axes, image, result)
    return result


class Plan:
    """A filter prepared for images of one shape, type and device: made once, called many times.

        plan = gconv.Plan("gaussian:sigma=2", (1080, 1920, 3), "uint8")
        for frame in frames:
            plan(frame, out=blurred)

    shape, dtype, axes: those of the images. kernel and the other options are those of filter(), and result= is its dtype=.
    On the CPU, calls from several threads run in parallel. On a GPU, calls of one plan must not overlap: use it in one
    stream at a time. After its first call, it may be captured into a CUDA graph, which it must outlive.
    """

    def __init__(self, kernel: Kernel, shape: Sequence[int], dtype: Any = "uint8", *, axes: str | None = None,
                 device: str = "cpu", **options: Any) -> None:
        check_options("Plan", options, ("result", *OPTIONS))
        try:
            self.shape: tuple[int, ...] = tuple(whole("shape", size, 1) for size in shape)
        except TypeError:
            raise ArgumentError(f"shape={shape!r}: give the lengths of the axes, such as (1080, 1920, 3)") from None
        self.axes: str = check_axes(self.shape, axes)
        self.dtype: str = list(TYPES)[type_number(dtype)]
        self._dtype = np.dtype(self.dtype)
        self.device: str = str(device)
        self._kernel, self._options = kernel if _statistic_of(kernel) else resolve(kernel), options
        self._operation = filter_operation(self._kernel, **{"dtype" if name == "result" else name: value
                                                            for name, value in options.items()})
        sizes = dict(zip(self.axes, self.shape))
        planar = "C" in sizes and (sizes["C"] > 4 or self.axes.index("C") < self.axes.index("W"))
        self._like = (tuple(sizes.get(letter, 1) for letter in "NCHW"), self.dtype, planar, self.device)
        self._operation.info(*self._like)  # raises errors now, rather than in the first call

    def __call__(self, image: Array, *, out: Any = None, stream: int | None = None) -> Any:
        """Filters an image. out: an array for the result. stream: the number of a CUDA stream; by default the current one
        of the library of `image`. Raises ArgumentError for images of another shape or type."""
        is_numpy = isinstance(image, np.ndarray)
        if not (is_numpy or hasattr(image, "shape") and hasattr(image, "dtype")):
            raise ArgumentError(f"the plan is for arrays of the shape {self.shape} and the type {self.dtype}, and this is no "
                                f"array: {type(image).__name__}")
        if image.shape != self.shape or (image.dtype != self._dtype if is_numpy else type_name(image) != self.dtype):
            raise ArgumentError(f"the plan is for images of the shape {self.shape} and the type {self.dtype}, and this is "
                                f"{tuple(image.shape)} and {image.dtype}")
        device = self.device if is_numpy or self.device != "cpu" else None  # a plan for "cpu" works on arrays of a GPU, too
        refuse_masked(image)
        result = self._operation.run(image, self.axes, device, out, stream, True)
        if result is None:
            result = apply(self._operation, image, self.axes, device, out, stream, True, ready=False)
        return result

    @property
    def info(self) -> dict[str, Any]:
        """A dict: device, algorithm, math, exact, outputs, output_shape (N, C, H, W), flop, bytes, workspace_bytes,
        error_bound (relative to the sum of |taps| times the largest |sample|), estimate_ms."""
        return self._operation.info(*self._like)

    def explain(self) -> str:
        """A text of some lines: the chosen algorithm, and why it was chosen."""
        return self._operation.explain(*self._like)

    def _names(self):
        return [self._kernel] if isinstance(self._kernel, str) else [one.name for one in self._kernel]

    def _repr_html_(self):
        from ._notebook import table
        return table([("filters", self._names()), *self.info.items()])

    def __repr__(self):
        return f"<gconv.Plan {', '.join(self._names())}: {self.shape} of {self.dtype} on {self.device}>"

    def __reduce__(self):  # for copies and pickles: these make a new plan
        return _plan_of, (self._kernel, self.shape, self.dtype, self.axes, self.device, self._options)


def _plan_of(kernel, shape, dtype, axes, device, options):
    return Plan(kernel, shape, dtype, axes=axes, device=device, **options)


def clear_cache() -> None:
    """Frees the plans that filter() keeps for later calls, with their memory on the host and on GPUs."""
    _operations.clear()
    kept.clear()
