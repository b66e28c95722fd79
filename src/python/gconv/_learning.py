# SPDX-License-Identifier: MIT
"""Learning: fit() finds a filter from pairs of images, train() trains networks, SVM is support vector machines."""
import contextlib
import dataclasses
import os
import pathlib
import tempfile

import numpy as np

from . import _core
from ._arrays import host
from ._errors import ArgumentError, UnsupportedError
from ._filter import BORDERS, choose, pair
from ._filters import Filter
from ._network import Network

__all__ = ["Epoch", "Fit", "SVM", "classify", "fit", "train"]

KINDS = {"table": 0, "windows": 1, "classes": 2, "pairs": 3, "pixels": 4}
LOSSES = {"default": 0, "sse": 1, "mse": 2, "mae": 3, "cross-entropy": 4}
OPTIMIZERS = {"adam": 0, "sgd": 1, "momentum": 2, "rprop": 3}
SCHEDULES = {"constant": 0, "linear": 1, "cosine": 2, "step": 3}
SVM_KERNELS = {"rbf": 0, "linear": 1, "polynomial": 2, "sigmoid": 3}
SCALINGS = {"none": 0, "symmetric": 1, "unit": 2, "standard": 3}


# ---- Fitted filters ----

@dataclasses.dataclass(frozen=True)
class Fit:
    """What a fit came to. fitted, held: dicts with r2, residual (1 is white), samples, clipped."""

    filter: Filter
    taps: np.ndarray  #: float64, before they are rounded
    bias: float
    fitted: dict
    held: dict
    condition: float
    nonlinear: bool  #: no filter of this size explains the images
    shift: tuple  #: `after` looks shifted, (down, across) in pixels; None: it does not
    cut: bool  #: the filter looks cut off: a larger one may explain more


def _image(image):
    """A path, or an array of a type and with rows that the library takes."""
    if isinstance(image, (str, os.PathLike)):
        return os.fspath(image)
    image = host(image)
    if image.dtype not in (np.uint8, np.uint16, np.float32):
        image = image.astype(np.float32)
    return np.require(image, requirements=["C", "ALIGNED"])


def fit(before, after, size, *, bias=False, ridge=0.0, held_out=0.0, border=None, border_value=0.0):
    """Finds the filter that makes `after` of `before`, by least squares.

    before, after: images, H x W or H x W x C, of one shape, or paths; or lists of as many. size: of the filter, odd or even,
        or (rows, columns). bias: fit a constant, too. ridge: at least 0. held_out: the share of each pair that the filter is
        judged by, not fitted to. border: what lies outside `before`; None: only what the filter sees whole counts.
    Raises UnsupportedError where there is no single solution.
    """
    rows, columns = pair("size", size, 1)
    befores, afters = ([one] if isinstance(one, (str, os.PathLike, np.ndarray)) or hasattr(one, "dtype") else list(one)
                       for one in (before, after))
    if len(befores) != len(afters) or not befores:
        raise ArgumentError(f"{len(befores)} images before and {len(afters)} after: give pairs")
    pairs = [(_image(first), _image(second)) for first, second in zip(befores, afters)]
    number = None if border is None else choose("border", border, BORDERS)
    (name, taps, row, column, divisor, offset), exact, rest = _core.fit(
        pairs, rows, columns, bool(bias), float(ridge), float(held_out), number, float(border_value))
    found = Filter(taps, name=name or "fitted", anchor=(row, column), divisor=divisor, offset=offset)
    return Fit(found, exact, **rest)


# ---- Cases ----

@contextlib.contextmanager
def _dataset(inputs, targets, kind, options):
    """A data set of paths, or of arrays, which go through a file for as long as it is open."""
    with contextlib.ExitStack() as stack:
        if isinstance(inputs, (str, os.PathLike)):
            inputs = os.fspath(inputs)
            if kind is None:
                kind = "table" if not os.path.isdir(inputs) else "classes" if targets is None else "pairs"
            given = {"inputs": inputs, **({} if targets is None else {"targets": os.fspath(targets)})}
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gconv-"))
            kind, given = "table", {"inputs": _write_table(folder, inputs, targets)}
        given["kind"] = choose("kind", kind, KINDS)
        yield _core.open_dataset({**given, **options})


def _write_table(folder, inputs, targets):
    rows = np.asarray(host(inputs), np.float32)
    labels = np.asarray(host(targets)) if targets is not None else None
    if rows.ndim != 2 or labels is None or labels.shape != rows.shape[:1]:
        raise ArgumentError("arrays of cases are rows x columns, with a target for each row; images and signals are given as "
                            "paths")
    if labels.dtype.kind in "buif":
        path = pathlib.Path(folder) / "cases.npy"
        np.save(path, np.column_stack([rows, labels.astype(np.float32)]))
    else:
        path = pathlib.Path(folder) / "cases.csv"
        with open(path, "w", encoding="utf-8") as file:
            for row, label in zip(rows, labels):
                text = str(label).replace('"', '""')
                file.write(",".join(repr(float(value)) for value in row) + f',"{text}"\n')
    return str(path)


# ---- Training ----

@dataclasses.dataclass(frozen=True)
class Epoch:
    """What an epoch came to. NaN: there is none, of targets without classes, or without validation."""

    number: int
    loss: float
    accuracy: float
    validation_loss: float
    validation_accuracy: float
    best: bool
    ended: str  #: why training is at its end; None: it is not


def train(network, inputs, targets=None, *, kind=None, epochs=0, batch=0, rate=0.0, loss="default", optimizer="adam",
          schedule="constant", momentum=0.0, weight_decay=0.0, patience=0, stop_error=0.0, validation=0.0, seed=0,
          algorithm="auto", device="cpu", progress=None, **data):
    """Trains a network, and returns the Network with the best weights.

    network: layers as a text, "dense 64 tanh, dense 26 softmax" (docs/learning.md), or a Network, which stays as it is.
    inputs, targets: rows x columns and a target for each row, as arrays; or paths: of a table, of a folder with a folder for
        each class, of a folder and one of what is wanted of its images (docs/learning.md). kind: "table", "windows",
        "classes", "pairs" or "pixels"; by default as the paths look. Further options of data sets: label=, regression=,
        syntax=, missing=, window=, hop=, patch=, augment=, gray=, features=, most_cases=.
    epochs (0: 100), batch (0: 32), rate, loss, optimizer ("adam", "sgd", "momentum", "rprop"), schedule, patience ...: as
        `gconv train` has them; 0 is the default. validation: the share of cases that is held back to judge by.
    algorithm: "exact": the same bytes on every device. progress: a function that gets an Epoch; if it raises, training stops.
    """
    options = {"epochs": int(epochs), "batch": int(batch), "rate": float(rate), "loss": choose("loss", loss, LOSSES),
               "optimizer": choose("optimizer", optimizer, OPTIMIZERS), "schedule": choose("schedule", schedule, SCHEDULES),
               "momentum": float(momentum), "weight_decay": float(weight_decay), "patience": int(patience),
               "stop_error": float(stop_error), "seed": int(seed), "algorithm": str(algorithm), "device": str(device)}
    _check_data(data)
    with _dataset(inputs, targets, kind, {**data, "seed": int(seed)}) as dataset:
        info = dataset.info()
        if not isinstance(network, Network):
            network = Network(str(network), *info["shape"], outputs=info["outputs"], seed=seed)
        report = None if progress is None else lambda told: progress(Epoch(**told))
        return Network._of(_core.train(network._network, dataset, options, float(validation), report))


_DATA = {"label", "regression", "syntax", "missing", "window", "hop", "patch", "augment", "gray", "features", "most_cases",
         "memory"}


def _check_data(data):
    wrong = data.keys() - _DATA
    if wrong:
        raise TypeError(f"there is no option {sorted(wrong)[0]!r}: of data sets there are {', '.join(sorted(_DATA))}")


# ---- Support vector machines ----

class SVM:
    """A support vector machine: SVM.train() makes one, SVM.load() reads a model of LIBSVM or gconv."""

    def __init__(self, model):
        self._model, self._info = model, model.info()

    @classmethod
    def train(cls, inputs, targets=None, *, kernel="rbf", cost=0.0, gamma=0.0, degree=0, coef0=0.0, scaling="none",
              regression=False, tube=0.0, tolerance=0.0, probabilities=False, seed=0, device="cpu", kind=None, **data):
        """Trains on rows x columns and a target for each row, as arrays, or on a table, a path.

        kernel: "rbf", "linear", "polynomial" or "sigmoid". cost (0: 1), gamma (0: 1 / columns), tube (0: 0.1), tolerance (0:
        0.001): as LIBSVM has them. scaling: "none", "symmetric", "unit" or "standard". regression: targets are numbers."""
        _check_data(data)
        options = _svm_options(kernel, cost, gamma, degree, coef0, scaling, regression, tube, tolerance, probabilities, seed,
                               device)
        with _dataset(inputs, targets, kind, {**data, "regression": bool(regression)}) as dataset:
            return cls(_core.svm_train(options, dataset))

    @staticmethod
    def validate(inputs, targets=None, *, folds=5, kernel="rbf", cost=0.0, gamma=0.0, degree=0, coef0=0.0, scaling="none",
                 regression=False, tube=0.0, tolerance=0.0, seed=0, device="cpu", kind=None, **data):
        """Cross-validation: a dict with cases, right, accuracy, mse, correlation. Arguments as of train()."""
        _check_data(data)
        options = _svm_options(kernel, cost, gamma, degree, coef0, scaling, regression, tube, tolerance, False, seed, device)
        with _dataset(inputs, targets, kind, {**data, "regression": bool(regression)}) as dataset:
            return _core.svm_validate(options, dataset, int(folds))

    @classmethod
    def load(cls, path):
        """Reads a model. Raises FormatError, which names the line that is wrong."""
        return cls(_core.svm_load(os.fspath(path)))

    def save(self, path):
        """Writes the model, whole or not at all, as text that LIBSVM reads."""
        self._model.save(os.fspath(path))

    @property
    def classes(self):
        """The names of the classes; () of regression."""
        return self._info["classes"]

    @property
    def vectors(self):
        """How many support vectors there are."""
        return self._info["vectors"]

    def _predict(self, rows, device):
        rows = np.ascontiguousarray(host(rows), np.float32)
        if rows.ndim != 2 or rows.size == 0:
            raise ArgumentError(f"rows x columns are wanted, and this has the shape {rows.shape}")
        return self._model.predict(rows, str(device))

    def predict(self, rows, *, device="cpu"):
        """The class of each row, as an array of names; of regression, the numbers."""
        numbers, values, _ = self._predict(rows, device)
        return values[:, 0] if numbers is None else np.array(self.classes)[numbers]

    def decision(self, rows, *, device="cpu"):
        """The values of the pairs of classes, (0, 1), (0, 2) ...: above 0 for the first of a pair."""
        return self._predict(rows, device)[1]

    def probabilities(self, rows, *, device="cpu"):
        """rows x classes. Raises UnsupportedError for a model that was trained without probabilities=True."""
        found = self._predict(rows, device)[2]
        if found is None:
            raise UnsupportedError("the model yields no probabilities: train it with probabilities=True")
        return found


def _svm_options(kernel, cost, gamma, degree, coef0, scaling, regression, tube, tolerance, probabilities, seed, device):
    return {"type": int(bool(regression)), "kernel": choose("kernel", kernel, SVM_KERNELS), "cost": float(cost),
            "gamma": float(gamma), "degree": int(degree), "coef0": float(coef0), "tube": float(tube),
            "scaling": choose("scaling", scaling, SCALINGS), "tolerance": float(tolerance),
            "probabilities": bool(probabilities), "seed": int(seed), "device": str(device)}


def classify(model, x, **options):
    """The classes of rows, images or pixels: model is a Network, an SVM, or the path of one."""
    if isinstance(model, (str, os.PathLike)):
        with open(model, "rb") as file:
            begin = file.read(16)
        model = SVM.load(model) if begin.startswith((b"svm_type", b"kernel_type")) else Network.load(model)
    return model.predict(x, **options) if isinstance(model, SVM) else model.classify(x, **options)
