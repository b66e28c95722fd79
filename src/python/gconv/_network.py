# SPDX-License-Identifier: MIT
"""Networks: reads files of gconv, ONNX, and PyTorch (safetensors), and applies them to arrays."""
from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from . import _core
from ._arguments import choose, is_for, whole
from ._arrays import apply, check_axes, convert, finite_rows, floats, host, like, store, to_float, type_name
from ._errors import ArgumentError, Error, FileError, FormatError, UnsupportedError
from ._layers import MATHS
from ._types import Array, Math, NDArray, Path

__all__ = ["Network", "Tensor"]


def file_bytes(save, name):
    """Returns the bytes that save(path) writes to a file."""
    with tempfile.TemporaryDirectory(prefix="gconv-") as folder:
        path = os.path.join(folder, name)
        save(path)
        with open(path, "rb") as file:
            return file.read()


def from_bytes(load, name, contents):
    """Returns what load(path) makes of a file with these bytes."""
    with tempfile.TemporaryDirectory(prefix="gconv-") as folder:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(contents)
        return load(path)


class Model:
    """What Network and SVM have in common: a file, classes, features of pixels."""

    _file = ""  #: a file name for a model of this kind

    def save(self, path: Path) -> None:
        """Writes the model to a file, whole or not at all. Weights of networks keep their bits; SVMs are LIBSVM's text."""
        self._model.save(os.fspath(path))

    def __reduce__(self):  # for copies and pickles
        return from_bytes, (type(self).load, self._file, file_bytes(self.save, self._file))

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; () if there are none, as in regression."""
        return self._info["classes"]

    @property
    def features(self) -> str | None:
        """The text of the features of pixels that the model takes; None: it takes images as they are, or rows of tables."""
        return self._info["features"]

    @property
    def class_values(self) -> list[int]:
        """The number that each class has in maps."""
        return self._model.class_values()


def map_of_classes(operation, image, axes, device):
    """Returns a map H x W of class numbers for an image, or N x H x W for several."""
    result = apply(operation, image, axes, device, typed=True)
    axes = check_axes(result.shape, axes)
    return result[(slice(None),) * axes.index("C") + (0,)] if "C" in axes else result


def names_of(rows):
    """Returns the names of the columns of a DataFrame or a similar object; None if there are none, or some are numbers."""
    columns = getattr(rows, "columns", None)
    columns = None if columns is None or callable(columns) else list(columns)
    return columns if columns and all(isinstance(name, str) and _is_word(name) for name in columns) else None


def _shape_text(shape):
    return "of any shape" if shape is None else " x ".join("?" if size is None else str(size) for size in shape) or "a number"


def _as_type(array, tensor):
    """Converts an array to the type that the model takes, if that loses nothing."""
    have, want = str(array.dtype), tensor.type
    if have == want:
        return array
    if want in ("float32", "float64") and array.dtype.kind in "bif":
        return array.astype(want)
    if array.dtype.kind in "biu" and "float" not in want:
        made = array.astype(want)
        if (made == array).all() and (made < 0).sum() == (array < 0).sum():
            return made
    advice = ": convert it, x.astype(numpy.float32), and scale it as the model wants it" if array.dtype.kind == "u" else ""
    raise ArgumentError(f"the input {tensor.name!r} takes {want}, and this array has {have}{advice}")


def _is_word(name):
    try:
        float(name)
    except ValueError:
        return bool(name.strip())
    return False


def model_rows(rows, info, missing=None):
    """Returns rows x columns for a model: columns are matched by name, missing="mean" replaces NaN by the means of the
    training, and the model's origins (gconv_column_notes) are subtracted in float64."""
    names, found, origins = list(info["names"]), names_of(rows), info["origins"]
    if names and found and names != found:
        if any(found.count(name) != 1 for name in names):
            raise ArgumentError(f"the columns do not fit: the model takes {', '.join(names)}, and there are {', '.join(found)}")
        rows = rows[names]
    if missing not in (None, "mean"):
        raise ArgumentError(f"missing={missing!r}: it may be \"mean\", which puts in the means of the training")
    if missing is None and origins is None:
        return rows
    rows = np.array(host(rows), np.float64)
    if rows.ndim != 2 or rows.shape[1] != info["inputs"]:
        raise ArgumentError(f"rows of {info['inputs']} columns are expected, and this has the shape {rows.shape}")
    if missing is not None:
        if info["means"] is None:
            raise ArgumentError("the model keeps no means of its columns: it was written by an older gconv, or by LIBSVM")
        rows = np.where(np.isnan(rows), info["means"], rows)
    return rows if origins is None else rows - origins


class Tensor(NamedTuple):
    """An input or output of a network."""

    name: str
    type: str  #: "float32", "uint8", "int64" ...
    shape: tuple[int | None, ...] | None  #: None in it: any size; None: the model does not say the shape


_BYTES = {name: np.dtype(name).itemsize for name in ("float32", "float64", "bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))}


def _graph_of_bytes(contents, digest):
    network = from_bytes(Network.load, "network.onnx", contents)
    if network._model.digest != digest:
        raise ArgumentError("the file of the model has changed since it was read, or has its weights in further files: send "
                            "its path, and load it where it is needed")
    network._source = contents
    return network


class Network(Model):
    """A network: a chain of layers with their weights, or an ONNX model. gconv.train() makes a chain.

        net = gconv.Network("denoise.onnx")                 # ONNX, or a file of gconv
        y = net(x)                                          # N x C x H x W -> N x K x P x Q, float32
        sharp, mask = net(x)                                # of a model with two outputs
        y = net({"image": x, "sigma": s})                   # of a model with two inputs
    """

    _file = "network.safetensors"
    _source = None  # for a graph: the path of its file, or the file's bytes

    def __init__(self, source: Path, channels: int | None = None, height: int = 0, width: int = 0, *,
                 layers: str | None = None, outputs: int = 0, seed: int = 0) -> None:
        """Reads a file, as load() does. With `channels`, makes layers with random weights from a text such as "4*(conv 16
        3x3 relu), conv 1 3x3, residual" (docs/learning.md), for inputs channels x height x width (0: any size)."""
        if channels is None:
            self._read(source, layers)
            return
        is_for("layers", layers, False, "files, which have no channels")
        self._hold(_core.network_make(str(source), whole("channels", channels), whole("height", height), whole("width", width),
                                      whole("outputs", outputs), whole("seed", seed, 0, 2 ** 64 - 1)))

    def _read(self, path, layers):
        try:
            self._hold(_core.network_load(os.fspath(path), layers))
        except FileError as error:
            if not os.path.exists(path) and " " in os.fsdecode(path):
                raise FileError(f"{error}; to make layers of a text, give the channels of their input, too") from None
            raise
        self._source = os.path.abspath(os.fsdecode(path))

    def _hold(self, network):
        self._model, self._operations = network, {}
        self._info = network.info()
        self._graph, self._tensors = self._info["graph"], (self._info["inputs"], self._info["outputs"])
        self._info["inputs"] = self._info["channels"]

    @classmethod
    def _of(cls, network):
        made = cls.__new__(cls)
        made._hold(network)
        return made

    @classmethod
    def load(cls, path: Path, *, layers: str | None = None) -> Network:
        """Reads a network of gconv, an ONNX model, or, with `layers`, the weights of a PyTorch nn.Sequential in safetensors.
        layers: what follows each layer, such as "relu, /2 relu, mean, softmax".

        Raises FileError, FormatError, or UnsupportedError, which names the node or tensor that cannot be imported."""
        made = cls.__new__(cls)
        made._read(path, layers)
        return made

    @classmethod
    def of(cls, weights: Any, layers: str = "none") -> Network:
        """Makes a network of convolutions with these weights. By default, outputs have the size of inputs.

        weights: K x C x R x S numbers, a bank; or a list with a tuple (weights, biases or None) for each layer.
        layers: what follows each layer, as for load().

            y = gconv.Network.of(bank)(x)                        # N x K x H x W
            gconv.run("in/", gconv.Network.of(bank), "out/", present="classes")    # which filter responds most: 1 to K

        Raises ArgumentError if weights are not numbers, and UnsupportedError or FormatError if layers do not fit."""
        chain = weights if isinstance(weights, (list, tuple)) and len(weights) and isinstance(weights[0], (list, tuple)) and \
            len(weights[0]) == 2 and np.ndim(weights[0][0]) == 4 else [(weights, None)]
        header, blobs, place = {}, [], 0
        for number, (one, biases) in enumerate(chain):
            for name, values, dimensions in (("weight", one, 4), ("bias", biases, 1)):
                if values is None:
                    continue
                values = floats(values, name)
                if values.ndim != dimensions or values.size == 0:
                    raise ArgumentError(f"the {name} of layer {number} has the shape {values.shape}: a weight is K x C x R x S, "
                                        f"a bias K numbers")
                header[f"l{number}.{name}"] = {"dtype": "F32", "shape": values.shape, "data_offsets": (place, place + values.nbytes)}
                blobs.append(values.astype("<f4", copy=False).tobytes())
                place += values.nbytes
        text = json.dumps(header).encode()
        contents = b"".join((struct.pack("<Q", len(text)), text, *blobs))
        return from_bytes(lambda path: cls.load(path, layers=str(layers)), "weights.safetensors", contents)

    def __repr__(self):
        if self._graph:
            ends = (", ".join(f"{one.name} {one.type} {_shape_text(one.shape)}" for one in side) for side in (self.inputs, self.outputs))
            return f"<gconv.Network: {' -> '.join(ends)}>"
        return f"<gconv.Network: {len(self.layers)} layers, {self.channels} channels>"

    def __reduce__(self):
        if not self._graph:
            return super().__reduce__()
        contents = self._source
        if isinstance(contents, str):
            with open(contents, "rb") as file:
                contents = file.read()
            _graph_of_bytes(contents, self._model.digest)
        return _graph_of_bytes, (contents, self._model.digest)

    def __copy__(self):
        return self  # nothing changes a network

    def __deepcopy__(self, memo):
        return self

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """A tuple (name, type, shape) for each input."""
        shape = (None, self.channels, self.size[0] or None, self.size[1] or None)
        if self._graph or self._tensors[0]:
            return tuple(Tensor(*one) for one in self._tensors[0])
        return (Tensor("input", "float32", shape),)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """A tuple (name, type, shape) for each output. Sizes that depend on the input's are None."""
        if not self._tensors[1]:
            self._tensors = self._tensors[0], (("output", "float32", self._made_shape()),)
        return tuple(Tensor(*one) for one in self._tensors[1])

    def _made_shape(self):
        """Returns the shape that plans make. An axis whose size is not known is one in which plans for two sizes differ."""
        if self.features:
            return None, self.layers[-1]["shape"][0], None, None
        operation = self._operation("tensor", "fp32", "auto")
        try:
            small, large = (operation.info((1, self.channels, *size), "float32", True, "cpu")["output_shape"]
                            for size in ((self.size, self.size) if any(self.size) else ((64, 64), (128, 128))))
        except Error:  # a layer takes other sizes
            return None
        return None, *(a if a == b else None for a, b in zip(small[1:], large[1:]))

    @property
    def channels(self) -> int:
        """The number of channels of an input."""
        return self._info["channels"]

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of an input; (0, 0): any size."""
        return self._info["height"], self._info["width"]

    @property
    def layers(self) -> tuple[dict[str, Any], ...]:
        """A dict for each layer: kind, and for layers with weights shape (K, C, R, S) and activation."""
        return self._info["layers"]

    @property
    def trained(self) -> str | None:
        """How the network was trained, as a JSON text; None: not known."""
        return self._info["trained"]

    def weights(self, layer: int) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Returns copies of the weights, K x C x R x S, and biases, K numbers or None, of layer number `layer`."""
        return self._model.weights(whole("layer", layer))

    def _operation(self, present, math, algorithm, output=""):
        key = (present, math, algorithm, output)
        if key not in self._operations:
            options = {"math": choose("math", math, MATHS), "algorithm": str(algorithm), "output_name": output}
            self._operations[key] = _core.model_operation(self._model, present, options)
        return self._operations[key]

    def _cases(self, rows):
        """Returns rows x columns as images of one pixel, N x C x 1 x 1."""
        if rows.shape[1] != self.channels:
            raise ArgumentError(f"a row has {rows.shape[1]} numbers, and the network takes {self.channels}")
        return rows[:, :, None, None]

    def _check_layout(self, shape):
        """Refuses arrays that seem to be H x W x C, although the network takes C x H x W."""
        if len(shape) not in (3, 4) or shape[-3] == self.channels:
            return
        if shape[-1] == self.channels or (self.channels == 1 and shape[-3] > 4 >= shape[-1]):
            layouts = ("C x H x W", "HWC") if len(shape) == 3 else ("N x C x H x W", "NHWC")
            raise ArgumentError(f"an array of {' x '.join(map(str, shape))} is read as {layouts[0]}, with "
                                f"{shape[-3]} channels, "
                                f"and the network takes {self.channels}: if channels are its last axis, pass "
                                f"axes=\"{layouts[1]}\"")

    # ---- Models of ONNX ----

    def _chosen(self, output):
        """Returns the names of the outputs that the caller wants."""
        names = [name for name, *_ in self._tensors[1]] or ["output"]
        wanted = names if output is None else [output] if isinstance(output, str) else list(output)
        for name in wanted:
            if name not in names:
                raise ArgumentError(f"output={name!r}: the outputs of this network are {', '.join(map(repr, names))}")
        return wanted

    def _takes_images(self, axes):
        """Returns whether the network runs on arrays as images: one by one, and in tiles if they are large."""
        one = self.inputs[0] if self.inputs else None
        return axes is not None or (len(self.inputs) == 1 and one.type == "float32" and not self._info["channels_last"] and
                                    (one.shape is None or (len(one.shape) == 4 and one.shape[0] in (None, 1))))

    def _run_images(self, x, wanted, several, axes, device, math, algorithm, out):
        """Computes the wanted outputs for images. Results have the axes and types of the model's outputs."""
        given = len(x.shape)
        if axes is None and 2 <= given <= 4:
            self._check_layout(x.shape)
            x = x if given == 4 else x[(None,) * (4 - given)]
        one = len(wanted) == 1 and not several
        operation = self._operation("tensor", math, algorithm, wanted[0] if one and len(self.outputs) > 1 else "")
        plain = axes is not None or (given == 4 and all(self._stays(name) for name in wanted))
        direct = out if plain and one else None
        made = apply(operation, x, axes, device, direct, typed=True)
        made = dict(zip([tensor.name for tensor in self.outputs], made)) if isinstance(made, tuple) else {wanted[0]: made}
        results = [made[name] if axes is not None else self._shaped(made[name], name, given, x, operation) for name in wanted]
        return results if direct is not None or out is None else self._stored(results, out, one)

    def _stays(self, name):
        """Returns whether the model declares this output as float32 with four axes."""
        tensor = next(one for one in self.outputs if one.name == name)
        return tensor.type == "float32" and tensor.shape is not None and len(tensor.shape) == 4

    def _shaped(self, result, name, given, x, operation):
        """Converts a result N x K x P x Q to the type and axes of the model's output, without axes that the input lacks."""
        tensor = next(one for one in self.outputs if one.name == name)
        n, k, p, q = result.shape
        axes = len(tensor.shape) if tensor.shape is not None else operation.output_axes(x.shape, name)
        shape = {4: (n, k, p, q), 3: (n, p, q), 2: (n, k), 1: (n * k,), 0: (n,) if n > 1 else ()}[axes]
        if axes in (2, 3, 4) and given < 4:
            shape = shape[2:] if axes == 4 and given == 2 and k == 1 else shape[1:]
        result = result.reshape(shape)
        return result if tensor.type == "float32" else convert(result, tensor.type)

    def _stored(self, results, out, one):
        outs = (out,) if one else out
        if not isinstance(outs, (tuple, list)) or len(outs) != len(results):
            raise ArgumentError(f"there are {len(results)} results: out must be a tuple of as many arrays")
        return [store(result, target) for result, target in zip(results, outs)]

    def _run_arrays(self, x, wanted, device, out, several):
        """Computes the wanted outputs for arrays of the model's own shapes."""
        inputs = self.inputs
        if isinstance(x, Mapping):
            given = [(next((one for one in inputs if one.name == name), None), name, array) for name, array in x.items()]
            wrong = [name for one, name, _ in given if one is None]
            if wrong:
                raise ArgumentError(f"{wrong[0]!r} is no input of this network: they are {', '.join(repr(one.name) for one in inputs)}")
        else:
            arrays = list(x) if len(inputs) > 1 and isinstance(x, (list, tuple)) else [x]
            if len(arrays) != len(inputs):
                raise ArgumentError(f"this network takes {len(inputs)} inputs, {', '.join(repr(one.name) for one in inputs)}: give "
                                    f"a dict, or a list of as many arrays")
            given = [(one, one.name, array) for one, array in zip(inputs, arrays)]
        first, taken, alone = given[0][2] if given else None, [], False
        for tensor, name, array in given:
            array = _as_type(np.asarray(host(array)), tensor)
            if tensor.shape is not None and array.ndim + 1 == len(tensor.shape) and tensor.shape[0] in (None, 1):
                array, alone = array[None], True
            taken.append((name, np.require(array, requirements=["C", "ALIGNED"]), tensor))
        results = [result[0] if alone and result.ndim and result.shape[0] == 1 else result for result in self._batch(taken, wanted, device)]
        results = [like(first, result) for result in results]
        return results if out is None else self._stored(results, out, len(results) == 1 and not several)

    def _batch(self, taken, wanted, device):
        """Runs all cases at once or, if the model takes a single case, one after the other."""
        run = lambda rows: [np.frombuffer(memory, type).reshape(shape) if memory.size else np.empty(shape, type)  # noqa: E731
                            for memory, type, shape in self._model.run(rows, wanted, _BYTES, device or "cpu")]
        rows = [(name, array, str(array.dtype)) for name, array, _ in taken]
        tensor = taken[0][2] if len(taken) == 1 else None
        if tensor is None or not tensor.shape or tensor.shape[0] != 1 or taken[0][1].ndim != len(tensor.shape) or len(taken[0][1]) < 2:
            return run(rows)
        parts = [run([(rows[0][0], case[None], rows[0][2])]) for case in taken[0][1]]
        return [np.concatenate([part[i] if part[i].ndim else part[i][None] for part in parts]) for i in range(len(wanted))]

    def _run_as_arrays(self, x, wanted, axes, device, out, several, error):
        """Runs the model on arrays after it failed with `error` on images. Raises `error` if that fails, too."""
        if not self._graph or axes is not None or device not in (None, "cpu") or type_name(x) in ("uint8", "uint16"):
            raise error
        try:
            return self._run_arrays(x, wanted, device, out, several)
        except (UnsupportedError, FormatError):
            raise error from None

    def _call_graph(self, x, axes, device, math, algorithm, output, out):
        wanted, several = self._chosen(output), output is not None and not isinstance(output, str)
        if isinstance(x, Mapping) and len(self.inputs) == 1 and list(x) == [self.inputs[0].name]:
            x = x[self.inputs[0].name]
        if not isinstance(x, Mapping) and not hasattr(x, "dtype") and not (len(self.inputs) > 1 and isinstance(x, (list, tuple))):
            x = floats(x, "the input") if self.inputs and self.inputs[0].type == "float32" else np.asarray(x)
        if not isinstance(x, (Mapping, list, tuple)) and len(x.shape) in (2, 3, 4) and self._takes_images(axes):
            try:
                results = self._run_images(x, wanted, several, axes, device, math, algorithm, out)
            except (UnsupportedError, FormatError) as error:  # such as outputs that are not images
                results = self._run_as_arrays(x, wanted, axes, device, out, several, error)
        elif axes is not None:
            raise ArgumentError("axes= is for a network that takes one image")
        else:
            results = self._run_arrays(x, wanted, device, out, several)
        return results[0] if len(results) == 1 and not several else tuple(results)

    @overload
    def __call__(self, x: Mapping[str, Any] | list[Any], *, axes: str | None = ..., device: str | None = ..., math: Math = ...,
                 algorithm: str = ..., output: str | Sequence[str] | None = ..., out: Any = ...) -> Any: ...
    @overload
    def __call__(self, x: Array, *, axes: str | None = ..., device: str | None = ..., math: Math = ...,
                 algorithm: str = ..., output: str | None = ..., out: Any = ...) -> Array: ...
    def __call__(self, x: Any, *, axes: str | None = None, device: str | None = None, math: Math = "fp32",
                 algorithm: str = "auto", output: str | Sequence[str] | None = None, out: Any = None) -> Any:
        """Applies the network to an array.

        x: float32, or uint8 and uint16, which are divided by white (255 or 65535); other types are converted to float32.
        axes: by default N x C x H x W, C x H x W or H x W; for networks of features of pixels, images H x W x C; for
            networks of tables, rows x columns, whose numbers are not scaled.
        device, out: as for gconv.filter().
        Returns float32, N x K x P x Q, or K x P x Q if `x` has no N; for rows, rows x K.

        For an ONNX model, results have the axes and types of its outputs; several outputs are a tuple in the order of
        Network.outputs. output: the name of the output to compute, or several names. x may also be a dict (by the names of
        Network.inputs) or a list of arrays of any shape: these go into the model unscaled, on the CPU, and their types must
        be the model's, or convertible without loss. The same holds if the model's only input is not float32 N x C x H x W.
        """
        if self._graph or (self._tensors[0] and self._takes_images(axes)):
            return self._call_graph(x, axes, device, math, algorithm, output, out)
        self._chosen(output)
        if axes is None and out is None and self.size == (1, 1) and np.ndim(x) == 2:
            x = model_rows(x, self._info)
            x, _ = to_float(x if hasattr(x, "dtype") else floats(x, "rows x columns"))
            return self(self._cases(x), device=device, math=math, algorithm=algorithm)[:, :, 0, 0]
        if axes is None and not self.features:
            self._check_layout(getattr(x, "shape", ()))
            axes = "CHW" if getattr(x, "ndim", 0) == 3 else None
        operation = self._operation("tensor", math, algorithm)
        if not hasattr(x, "dtype") or type_name(x) not in ("uint8", "uint16"):
            x, _ = to_float(x)
        return apply(operation, x, axes, device, out, typed=True)

    def classify(self, x: Any, *, axes: str | None = None, device: str | None = None, missing: str | None = None) -> Any:
        """Returns the classes of an array: a list with a name for each image of N x C x H x W, or for each row of rows x
        columns if the network was trained on a table; for a network of pixels, a map H x W of class numbers
        (gconv.Network.class_values). missing="mean": NaN in rows are replaced by the means of the training."""
        if self.features:
            return map_of_classes(self._operation("classes", "fp32", "auto"), x, axes, device)
        if not self.classes:
            raise ArgumentError("the outputs of this network are not classes: call the network")
        if axes is None and self.size == (1, 1) and np.ndim(x) < 3:
            x = self._cases(finite_rows(model_rows(x, self._info, missing)))
        outputs = host(self(x, axes=axes, device=device))
        outputs = outputs if outputs.ndim == 4 else outputs[None]
        return [self.classes[number] for number in np.argmax(outputs.mean(axis=(2, 3)), axis=1)]
