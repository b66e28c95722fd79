# SPDX-License-Identifier: MIT
"""Networks: files of gconv, ONNX and PyTorch's safetensors, applied to arrays."""
from __future__ import annotations

import json
import os
import struct
import tempfile
from typing import Any

import numpy as np

from . import _core
from ._arguments import choose, whole
from ._arrays import apply, check_axes, finite_rows, floats, host, to_float, type_name
from ._errors import ArgumentError
from ._layers import MATHS
from ._types import Array, NDArray, Path

__all__ = ["Network"]


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

    _file = ""  #: a name that such a file may have

    def save(self, path: Path) -> None:
        """Writes it to a file, whole or not at all: a network with the bits of its weights, an SVM as text for LIBSVM, too."""
        self._model.save(os.fspath(path))

    def __reduce__(self):  # to be copied, and to be sent to other processes
        return from_bytes, (type(self).load, self._file, file_bytes(self.save, self._file))

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; () where there are none, as of regression."""
        return self._info["classes"]

    @property
    def features(self) -> str | None:
        """The features of pixels that it takes, as a text; None: it takes images as they are, or rows of tables."""
        return self._info["features"]

    @property
    def class_values(self) -> list[int]:
        """The number that each class has in maps."""
        return self._model.class_values()


def map_of_classes(operation, image, axes, device):
    """Returns H x W numbers of classes, for an image, or N of them."""
    result = apply(operation, image, axes, device, typed=True)
    axes = check_axes(result.shape, axes)
    return result[(slice(None),) * axes.index("C") + (0,)] if "C" in axes else result


def names_of(rows):
    """Returns the names of the columns of a DataFrame, or of what looks like one; None: none, or some are numbers."""
    columns = getattr(rows, "columns", None)
    columns = None if columns is None or callable(columns) else list(columns)
    return columns if columns and all(isinstance(name, str) and _is_word(name) for name in columns) else None


def _is_word(name):
    try:
        float(name)
    except ValueError:
        return bool(name.strip())
    return False


def model_rows(rows, info, missing=None):
    """Rows x columns as a model takes them: columns by name, missing="mean" filled by means of the training, and in float64
    less what float32 could not tell apart."""
    names, found, origins = list(info["names"]), names_of(rows), info["origins"]
    if names and found and names != found:
        if any(found.count(name) != 1 for name in names):
            raise ArgumentError(f"the columns do not fit: the model takes {', '.join(names)}, and there are {', '.join(found)}")
        rows = rows[names]
    if missing not in (None, "mean"):
        raise ArgumentError(f"missing={missing!r}: there is \"mean\", which puts in the means of the training")
    if missing is None and origins is None:
        return rows
    rows = np.array(host(rows), np.float64)
    if rows.ndim != 2 or rows.shape[1] != info["inputs"]:
        raise ArgumentError(f"rows of {info['inputs']} columns are wanted, and this has the shape {rows.shape}")
    if missing is not None:
        if info["means"] is None:
            raise ArgumentError("the model keeps no means of its columns: it was written by an older gconv, or by LIBSVM")
        rows = np.where(np.isnan(rows), info["means"], rows)
    return rows if origins is None else rows - origins


class Network(Model):
    """A chain of layers with their weights. Network.load() reads one, gconv.train() makes one.

        net = gconv.Network.load("denoise.safetensors")
        y = net(x)                                          # N x C x H x W -> N x K x P x Q, float32
    """

    _file = "network.safetensors"

    def __init__(self, text: str, channels: int, height: int = 0, width: int = 0, *, outputs: int = 0,
                 seed: int = 0) -> None:
        """Layers with random weights, from a text such as "4*(conv 16 3x3 relu), conv 1 3x3, residual" (docs/learning.md),
        for inputs of channels x height x width (0: of any size)."""
        self._hold(_core.network_make(str(text), whole("channels", channels), whole("height", height), whole("width", width),
                                      whole("outputs", outputs), whole("seed", seed, 0, 2 ** 64 - 1)))

    def _hold(self, network):
        self._model, self._operations = network, {}
        self._info = network.info()
        self._info["inputs"] = self._info["channels"]

    @classmethod
    def _of(cls, network):
        made = cls.__new__(cls)
        made._hold(network)
        return made

    @classmethod
    def load(cls, path: Path, *, layers: str | None = None) -> Network:
        """Reads a network of gconv, an ONNX model that is a chain of layers, or, with `layers`, the weights of a PyTorch
        nn.Sequential in safetensors: "relu, /2 relu, mean, softmax" says what follows each layer.

        Raises FileError, FormatError, or UnsupportedError, which names the node or tensor that fits no network."""
        return cls._of(_core.network_load(os.fspath(path), layers))

    @classmethod
    def of(cls, weights: Any, layers: str = "none") -> Network:
        """A network of convolutions with these weights, all of the same size as their inputs, unless `layers` says otherwise.

        weights: K x C x R x S numbers, a bank; or a list of (weights, biases or None), of one layer after the other.
        layers: what follows each layer, such as "relu, /2 relu, mean, none", as load() has it.

            y = gconv.Network.of(bank)(x)                        # N x K x H x W
            gconv.run("in/", gconv.Network.of(bank), "out/", present="classes")    # which filter responds most: 1 to K

        Raises ArgumentError for what are no numbers, and UnsupportedError or FormatError where layers do not fit."""
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
        return f"<gconv.Network: {len(self.layers)} layers, {self.channels} channels>"

    @property
    def channels(self) -> int:
        """The channels of an input."""
        return self._info["channels"]

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of an input; (0, 0): any."""
        return self._info["height"], self._info["width"]

    @property
    def layers(self) -> tuple[dict[str, Any], ...]:
        """A dict for each layer: kind, and of convolutions shape (K, C, R, S) and activation."""
        return self._info["layers"]

    @property
    def trained(self) -> str | None:
        """How it was trained, as a JSON text; None: it is not known."""
        return self._info["trained"]

    def weights(self, layer: int) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """(weights, biases) of layer number `layer`, as copies: K x C x R x S, and K numbers or None."""
        return self._model.weights(whole("layer", layer))

    def _operation(self, present, math, algorithm):
        key = (present, math, algorithm)
        if key not in self._operations:
            options = {"math": choose("math", math, MATHS), "algorithm": str(algorithm)}
            self._operations[key] = _core.model_operation(self._model, present, options)
        return self._operations[key]

    def _cases(self, rows):
        """Returns rows x columns as images of one pixel, N x C x 1 x 1."""
        if rows.shape[1] != self.channels:
            raise ArgumentError(f"a row has {rows.shape[1]} numbers, and the network takes {self.channels}")
        return rows[:, :, None, None]

    def _check_layout(self, shape):
        """Refuses arrays that seem to have channels last, if channels must come before rows."""
        if len(shape) not in (3, 4) or shape[-3] == self.channels:
            return
        if shape[-1] == self.channels or (self.channels == 1 and shape[-3] > 4 >= shape[-1]):
            layouts = ("C x H x W", "HWC") if len(shape) == 3 else ("N x C x H x W", "NHWC")
            raise ArgumentError(f"an array of {' x '.join(map(str, shape))} is taken as {layouts[0]}, with {shape[-3]} channels, "
                                f"and the network takes {self.channels}: if channels are its last axis, say "
                                f"axes=\"{layouts[1]}\"")

    def __call__(self, x: Array, *, axes: str | None = None, device: str | None = None, math: str = "fp32",
                 algorithm: str = "auto", out: Any = None) -> Array:
        """What the network makes of an array.

        x: float32, or uint8 and uint16, which are divided by white, 255 and 65535; any other numbers are converted to
            float32. axes: by default N x C x H x W, C x H x W or H x W; of networks that take features of pixels, images
            H x W x C; of networks that take rows of tables, rows x columns, whose numbers are taken as they are.
        Returns float32, N x K x P x Q, or without N as `x` has none; rows x K of rows. device, out: as of gconv.filter().
        """
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
        """The classes of an array: a list with a name for each image of N x C x H x W, and for each row of rows x columns of
        a network that was trained on a table; or, of a network of pixels, a map H x W of class numbers
        (gconv.Network.class_values). missing="mean": NaN in rows become the means of the training."""
        if self.features:
            return map_of_classes(self._operation("classes", "fp32", "auto"), x, axes, device)
        if not self.classes:
            raise ArgumentError("the outputs of this network are no classes: call it")
        if axes is None and self.size == (1, 1) and np.ndim(x) < 3:
            x = self._cases(finite_rows(model_rows(x, self._info, missing)))
        outputs = host(self(x, axes=axes, device=device))
        outputs = outputs if outputs.ndim == 4 else outputs[None]
        return [self.classes[number] for number in np.argmax(outputs.mean(axis=(2, 3)), axis=1)]
