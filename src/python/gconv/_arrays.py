# SPDX-License-Identifier: MIT
"""Arrays of all array libraries, and calls that must copy the array because of its type, strides or order of axes.

An array of u8, u16 or f32 whose rows are contiguous is used in place (src/python/arrays.cpp). This module copies any other
array, and converts the result back to the array's type and order of axes.
"""
import sys

import numpy as np

from . import _core
from ._errors import ArgumentError, UnsupportedError, warn

__all__ = ["apply", "check_axes", "convert", "empty", "export_from_other_gpu", "finite_rows", "floats", "host", "library_of",
           "like", "store", "stream", "to_float", "type_name", "warn_of_rounding"]

_TAKEN = ("uint8", "uint16", "float32")
_CONVERTED = ("float16", "float64", "int8", "int16", "int32", "int64", "uint32", "uint64")  # to float32, and the results back
_WHOLE = 1 << 19  #: smaller arrays are converted as a whole
_USUAL_AXES = {2: "HW", 3: "HWC", 4: "NCHW"}


def library_of(array):
    """Returns the library of an array: "numpy", "torch", "cupy", "jax", "dask.array", "xarray" or "other". Imports none of
    them."""
    if isinstance(array, np.ndarray):
        return "numpy"
    for name, type_name in (("torch", "Tensor"), ("cupy", "ndarray"), ("jax", "Array"), ("dask.array", "Array"), ("xarray", "DataArray")):
        module = sys.modules.get(name)
        if module is not None and isinstance(array, getattr(module, type_name)):
            return name
    return "other"


def empty(like, shape, dtype):
    """Returns an uninitialised contiguous array of the library of `like`, on its device."""
    if library_of(like) == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device)
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(like.device.id):
        return cupy.empty(shape, dtype)


def stream(library, device):
    """Returns the number of the array library's current CUDA stream on GPU number `device`."""
    if library == "torch":
        return sys.modules["torch"].cuda.current_stream(device).cuda_stream
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(device):
        return cupy.cuda.get_current_stream().ptr


def export_from_other_gpu(array):
    """Returns the DLPack capsule of an array that lies on another GPU than the current one: PyTorch exports an array only
    while its GPU is the current one. Returns None if it lies on the current GPU: then there is another reason."""
    library = library_of(array)
    if library == "torch":
        cuda = sys.modules["torch"].cuda
        if array.requires_grad or array.device.index == cuda.current_device():
            return None
        with cuda.device(array.device):
            return array.__dlpack__(stream=-1)
    if library != "cupy":
        return None
    cuda = sys.modules["cupy"].cuda
    if array.device.id == cuda.Device().id:
        return None
    with cuda.Device(array.device.id):
        return array.__dlpack__(stream=-1)


def refuse_masked(array):
    """Refuses masked arrays, because NumPy would compute with the values under the mask."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise ArgumentError(f"{np.ma.count_masked(array)} elements of the array are masked, so they have no values: "
                            f"fill them, such as by array.filled(0)")


def host(array):
    """Returns any array as a NumPy array, in host memory; without a copy if it is there already."""
    library = library_of(array)
    refuse_masked(array)
    if library == "torch":
        tensor = array.detach().cpu()
        return (tensor.float() if type_name(tensor) == "bfloat16" else tensor).numpy()
    if library == "cupy":
        return array.get()
    return np.asarray(array)


def like(array, result):
    """Converts a result, a NumPy array, to an array of the library of `array`."""
    library = library_of(array)
    if library == "torch":
        return sys.modules["torch"].from_numpy(result)
    if library == "jax":
        return sys.modules["jax"].numpy.asarray(result)
    return sys.modules["cupy"].asarray(result) if library == "cupy" else result


def _real(array, what):
    """Returns any array as one of NumPy. Raises ArgumentError if its numbers are not real."""
    try:
        found = host(array)
    except ValueError as error:
        raise ArgumentError(f"{what} must be an array of numbers: {error}") from None
    if found.dtype.kind not in "buif" and found.dtype.name != "bfloat16":
        raise ArgumentError(f"{what} must be an array of real numbers, and this has the type {found.dtype}")
    return found


def floats(array, what):
    """Returns any array as a C-contiguous NumPy array of float32; without a copy if it is one. Raises ArgumentError if its
    numbers are not real."""
    found = _real(array, what)
    warn_of_rounding(found)
    return np.asarray(found, np.float32, order="C")


def finite_rows(array):
    """Returns an array rows x columns as floats() does. Raises ArgumentError for other shapes, NaN and infinities."""
    with np.errstate(over="ignore"):  # numbers too large for float32 become infinite, and are refused below
        rows = np.asarray(_real(array, "rows x columns"), np.float32, order="C")
    if rows.ndim != 2 or rows.size == 0:
        raise ArgumentError(f"rows x columns are wanted, and this has the shape {rows.shape}")
    wrong = np.argwhere(~np.isfinite(rows))
    if len(wrong):
        row, column = wrong[0]
        raise ArgumentError(f"row {row}, column {column} (from 0) is {rows[row, column]}: numbers must be finite, "
                            f"and fit into float32")
    return rows


def _adopt(image):
    """Returns an array of NumPy, PyTorch or CuPy with the memory of `image`, and a function that converts results back."""
    library = library_of(image)
    refuse_masked(image)
    if library == "torch" and image.requires_grad:
        raise ArgumentError("the tensor requires gradients, which this function does not compute: pass tensor.detach(); "
                            "gconv.torch.conv2d has gradients")
    if library in ("numpy", "torch", "cupy"):
        return image, lambda result: result
    if library == "jax":
        jax = sys.modules["jax"]
        if next(iter(image.devices())).platform != "cpu":
            raise UnsupportedError("JAX arrays must be in host memory: "
                                   "hand the array to PyTorch or CuPy by from_dlpack(), and back")
        return np.asarray(image), lambda result: jax.numpy.from_dlpack(np.ascontiguousarray(result))
    if hasattr(image, "__cuda_array_interface__"):
        try:
            import cupy
        except ImportError:
            raise UnsupportedError("an array that has only __cuda_array_interface__ needs CuPy, which is not installed: "
                                   "install it, or pass a tensor of PyTorch, torch.as_tensor(array)") from None
        return cupy.asarray(image), lambda result: result
    if hasattr(image, "__dlpack__"):
        return np.from_dlpack(image), lambda result: result
    return np.asarray(image), lambda result: result


def type_name(image):
    """Returns the name of an array's type: "uint8"."""
    return str(image.dtype).removeprefix("torch.")


def convert(image, name):
    """Returns the array converted to the type called `name`."""
    if library_of(image) == "torch":
        torch = sys.modules["torch"]
        return image.to(getattr(torch, name))
    return image.astype(name)


def _extremes(numbers):
    """Returns the least and the largest number of an array; NaN for both if there is none."""
    numbers = numbers[np.isfinite(numbers)]
    return (float(numbers.min()), float(numbers.max())) if numbers.size else (np.nan, np.nan)


def warn_of_rounding(image):
    """Warns of integers beyond 2^24, and of numbers of float64 that float32 hardly tells apart or does not reach."""
    if library_of(image) != "numpy" or image.dtype.name not in ("float64", "int32", "int64", "uint32", "uint64"):
        return
    if image.dtype.kind in "iu":
        if image.size and max(-int(image.min()), int(image.max())) > 2 ** 24:
            warn(f"the array of {image.dtype} has integers beyond 2^24: float32, in which they are filtered, rounds most of them")
        return
    few = image[tuple(slice(None, None, max(1, size // 32)) for size in image.shape)]
    for numbers in (few, image):  # a few numbers tell enough of most images
        low, high = _extremes(numbers)
        largest = max(-low, high)
        reached = largest == 0 or 2.0 ** -126 <= largest <= np.finfo(np.float32).max
        if np.isnan(largest) or (reached and high - low >= 1000 * np.spacing(np.float32(largest))):
            return
    if not reached:
        warn(f"numbers of float64 from {low:.12g} to {high:.12g} are too large or too small for float32, to which they are "
             f"rounded: multiply them by a number first")
    elif low < high:
        warn(f"the numbers of float64 go from {low:.12g} to {high:.12g}, where float32, to which they are rounded, tells hardly "
             f"any apart: subtract a number such as {low:.6g} first")


def _to_taken(image):
    """Returns the array in a type that gconv takes, and the type to which results are converted back, or None."""
    name = type_name(image)
    if name in _TAKEN:
        return image, None
    if name == "bool":
        return convert(image, "float32"), None
    if name in _CONVERTED or name == "bfloat16":
        return convert(image, "float32"), name
    raise ArgumentError(f"the image has numbers of the type {name}: uint8, uint16 and float32 are taken as they are, other "
                        f"integers, bool, float16 and float64 are converted to float32; convert it yourself")


def to_float(image):
    """Returns the array as float32, for layers, and a function (result, out) that converts results back, or None."""
    if not hasattr(image, "dtype") or type_name(image) == "float32":
        return image, None
    image, restore = _adopt(image)
    name = type_name(image)
    back = name if name in ("float16", "float64", "bfloat16") else None
    if back is None and name not in ("bool", "uint8", "uint16", "int8", "int16", "int32", "int64", "uint32", "uint64"):
        raise ArgumentError(f"the array has numbers of the type {name}, which are no real numbers")
    warn_of_rounding(image)

    def finish(result, out):
        result = _from_float(result, back)
        return restore(result) if out is None else store(result, out)

    return convert(image, "float32"), finish


def _from_float(result, name):
    """Converts float32 results to the type of the input: integers round to nearest even and saturate; NaN becomes 0."""
    if type_name(result) != "float32" or name is None:
        return result
    if name.startswith("float") or name == "bfloat16":
        return convert(result, name)
    xp = sys.modules[library_of(result)]
    lowest, highest = np.iinfo(name).min, np.iinfo(name).max
    if np.iinfo(name).bits >= 32:  # the largest float32 within the limit
        highest = float(np.nextafter(np.float32(highest), np.float32(0)))
    if xp.__name__ == "torch":
        return xp.clip(xp.round(xp.nan_to_num(result, nan=0.0)), lowest, highest).to(getattr(xp, name))
    return xp.clip(xp.rint(xp.nan_to_num(result, nan=0.0)), lowest, highest).astype(name)


def _reorder(image, axes, wanted):
    order = [axes.index(letter) for letter in wanted]
    return image.permute(order) if library_of(image) == "torch" else image.transpose(order)


def _contiguous(image):
    library = library_of(image)
    if library == "torch":
        return image.contiguous()
    if library == "cupy":
        return sys.modules["cupy"].ascontiguousarray(image)
    return np.require(image, requirements=["C", "ALIGNED"])


def _order_in_memory(image, axes):
    """Returns the order of axes in which the image must lie in memory: interleaved with up to 4 channels, else planar."""
    channels = image.shape[axes.index("C")] if "C" in axes else 1
    planes = channels > 4 or ("C" in axes and axes.index("C") < min(axes.index("H"), axes.index("W")))
    return "".join(letter for letter in ("NCHW" if planes else "NHWC") if letter in axes)


def check_axes(shape, axes):
    """Checks `axes`, or finds them from the number of dimensions. Returns their letters."""
    if not 2 <= len(shape) <= 4:
        raise ArgumentError(f"the image has {len(shape)} dimensions: 2 to 4 are taken, such as H x W, H x W x C or "
                            f"N x C x H x W")
    if 0 in shape:
        raise ArgumentError(f"the image has no samples: its shape is {tuple(shape)}")
    axes = _USUAL_AXES[len(shape)] if axes is None else axes
    if not isinstance(axes, str) or not {"H", "W"} <= set(axes) <= set("NCHW") or len(set(axes)) != len(axes):
        raise ArgumentError(f"axes={axes!r}: name each axis of the array once, H and W, and C and N where it has them: "
                            f'"HW", "HWC", "CHW" or "NCHW"')
    if len(axes) != len(shape):
        raise ArgumentError(f'the array has {len(shape)} dimensions, and axes="{axes}" names {len(axes)}')
    return axes


def store(result, out):
    """Copies a result into the caller's array."""
    library = library_of(out)
    if library not in ("numpy", "torch", "cupy"):
        raise ArgumentError("out is no array of NumPy, PyTorch or CuPy")
    if tuple(out.shape) != tuple(result.shape) or type_name(out) != type_name(result):
        raise ArgumentError(f"out has the shape {tuple(out.shape)} and the type {type_name(out)}, and the result "
                            f"{tuple(result.shape)} and {type_name(result)}")
    if library == "numpy" and not out.flags.writeable:
        raise ArgumentError("out is read-only: pass an array that may be written")
    if library != library_of(result):
        raise ArgumentError("out and the image are arrays of different libraries")
    out[...] = result
    return out


def apply(operation, image, axes=None, device=None, out=None, stream=None, any_stream=False, typed=False, ready=True):
    """Applies an operation to an array of any library, any type and any strides.

    ready: first try the array in place. typed: the caller asked for a type of results, so they are not converted back.
    """
    refuse_masked(image)
    if ready:
        result = operation.run(image, axes, device, out, stream, any_stream)
        if result is not None:
            return result
    image, restore = _adopt(image)
    axes = check_axes(image.shape, axes)
    warn_of_rounding(image)
    if library_of(image) == "numpy" and device in (None, "cpu") and out is None:
        result = _by_strips(operation, image, axes, typed)
        if result is not None:
            return restore(result)
    taken, back = _to_taken(image)
    order = _order_in_memory(taken, axes)
    result = operation.run(_contiguous(_reorder(taken, axes, order)), order, device, None, stream, any_stream)
    if result is None:
        raise UnsupportedError("the image cannot be copied into contiguous memory")
    several = isinstance(result, tuple)
    results = [_finish(one, order, axes, None if typed else back) for one in (result if several else (result,))]
    if out is not None:
        outs = out if several else (out,)
        if len(outs) != len(results):
            raise ArgumentError(f"there are {len(results)} results: out must be a tuple of as many arrays")
        if len({id(target) for target in outs}) != len(outs):
            raise ArgumentError("the same array is in out twice: each result needs memory of its own")
        results = [store(one, target) for one, target in zip(results, outs)]
    else:
        results = [restore(one) for one in results]
    return tuple(results) if several else results[0]


def _by_strips(operation, image, axes, typed):
    """Applies an operation to an array that is converted to float32, and back unless `typed`, strip by strip: converted as a
    whole, it would take many times its memory. Returns None for small arrays, and for operations without strips."""
    name = type_name(image)
    if name not in _CONVERTED or image.size < _WHOLE:
        return None
    order = _order_in_memory(image, axes)
    sizes = dict(zip(axes, image.shape))
    shape, planar = tuple(sizes.get(letter, 1) for letter in "NCHW"), "C" in order and order.index("C") < order.index("W")
    strips = operation.strips(shape, planar)
    if strips is None:
        return None
    rows, result = order.index("H"), None
    image = _reorder(image, axes, order)
    for first, end, begin, past in strips:
        window = np.ascontiguousarray(image[(slice(None),) * rows + (slice(begin, past),)], np.float32)
        part = operation.run_rows(window, order, shape, planar, begin, first, end)
        part = part if typed else _from_float(part, name)
        result = np.empty([sizes[letter] for letter in order], part.dtype) if result is None else result
        result[(slice(None),) * rows + (slice(first, end),)] = part
    return _reorder(result, order, axes)


def _finish(result, order, axes, back):
    if result.ndim == len(axes):
        result = _reorder(result, order, axes)
    return _from_float(result, back)
