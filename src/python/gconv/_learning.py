# SPDX-License-Identifier: MIT
"""Learning: fit() finds a filter from pairs of images, train() trains networks, SVM is support vector machines."""
from __future__ import annotations

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from . import _core
from ._arguments import choose, flag, is_for, pair, real, table, whole
from ._arrays import finite_rows, floats, host
from ._errors import ArgumentError, Error, UnsupportedError, Warning
from ._filter import BORDERS
from ._filters import Filter
from ._layers import MATHS
from ._network import Model, Network, map_of_classes, model_rows, names_of
from ._types import Border, Math, NDArray, Numbers, Pair, Path, SVMKernel

__all__ = ["Epoch", "Fit", "SVM", "classify", "fit", "train"]

KINDS = {"table": 0, "windows": 1, "classes": 2, "pairs": 3, "pixels": 4}
LOSSES = {"default": 0, **_core.LOSSES}
OPTIMIZERS, SCHEDULES = _core.OPTIMIZERS, _core.SCHEDULES
SVM_KERNELS = {"rbf": 0, "linear": 1, "polynomial": 2, "sigmoid": 3, "precomputed": 4}
SVM_PARAMETERS = {"rbf": ("gamma",), "linear": (), "polynomial": ("gamma", "degree", "coef0"), "sigmoid": ("gamma", "coef0"),
                  "precomputed": ()}  # by kernel
SCALINGS = {"none": 0, "symmetric": 1, "unit": 2, "standard": 3}

_PIXELS = 10000  #: the default number of pixels that an SVM is trained on, as for `gconv svm`


# ---- Fitted filters ----

@dataclasses.dataclass(frozen=True)
class Fit:
    """The result of a fit. fitted, held: dicts with r2, residual (1 is white), samples, clipped."""

    filter: Filter
    taps: NDArray[np.float64]  #: float64, before they are rounded
    bias: float
    fitted: dict[str, Any]
    held: dict[str, Any]
    condition: float
    nonlinear: bool  #: no filter of this size explains the images
    shift: tuple[float, float] | None  #: by how much `after` looks shifted, (down, across) in pixels; None: it does not
    cut: bool  #: the filter looks cut off: a larger one may explain more


def _image(image, what):
    """Returns a path, or an array whose type and layout the library takes."""
    if isinstance(image, (str, bytes, os.PathLike)):
        return os.fspath(image)
    image = host(image)
    if image.dtype not in (np.uint8, np.uint16, np.float32):
        image = floats(image, what)
    if image.ndim not in (2, 3) or image.ndim == 3 and image.shape[2] > 4:
        raise ArgumentError(f"{what} has the shape {image.shape}: an image is H x W, or H x W x C with up to 4 channels")
    return np.require(image, requirements=["C", "ALIGNED"])


def fit(before: Any, after: Any, size: Pair, *, bias: bool = False, ridge: float = 0.0, held_out: float = 0.0,
        border: Border | None = None, border_value: float = 0.0, max_pixels: int = 0) -> Fit:
    """Finds the filter that makes `after` of `before`, by least squares.

    before, after: images, H x W or H x W x C, of one shape, or paths; or lists of as many. size: that of the filter, odd or
        even, or (rows, columns). bias: fit a constant, too. ridge: at least 0. held_out: the share of each pair to which
        the filter is not fitted, but by which it is judged. border: what lies outside `before`; None: only pixels count for
        which the filter lies inside the image.
    max_pixels: larger files raise LimitError; 0: 2^30.
    Raises UnsupportedError if there is no unique solution.
    """
    rows, columns = pair("size", size, 1)
    befores, afters = ([one] if isinstance(one, (str, bytes, os.PathLike)) or hasattr(one, "dtype") else list(one)
                       for one in (before, after))
    if len(befores) != len(afters) or not befores:
        raise ArgumentError(f"{len(befores)} images before and {len(afters)} after: give pairs")
    pairs = [(_image(first, "before"), _image(second, "after")) for first, second in zip(befores, afters)]
    options = {"rows": rows, "columns": columns, "bias": flag("bias", bias), "ridge": real("ridge", ridge),
               "held_out": real("held_out", held_out), "border_value": real("border_value", border_value),
               "max_pixels": _count("max_pixels", max_pixels)}
    if border is not None:
        options["border"] = choose("border", border, BORDERS)
    is_for("border_value", options["border_value"], border == "constant", 'border="constant"')
    (name, taps, row, column, divisor, offset, _), exact, rest = _core.fit(pairs, options)
    found = Filter(taps, name=name or "fitted", anchor=(row, column), divisor=divisor, offset=offset)
    return Fit(found, exact, **rest)


# ---- Cases ----

def _count(name, value):
    return whole(name, value, 0, 2 ** 63)


def _text(name, value):
    return str(value)


_DATA = {"label": _text, "syntax": _text, "separator": _text, "missing": _text, "features": _text, "regression": flag,
         "one_hot": flag, "classification": flag, "augment": flag, "gray": flag, "window": _count, "hop": _count,
         "patch": _count, "most_cases": _count, "memory": _count}


def _data_options(data):
    """Checks the options of data sets, and converts them to those of the extension."""
    wrong = sorted(data.keys() - _DATA.keys())
    if wrong:
        raise TypeError(f"there is no option {wrong[0]!r}: data sets have the options {', '.join(sorted(_DATA))}")
    return {name: _DATA[name](name, value) for name, value in data.items() if value is not None}


def _seed(seed):
    return whole("seed", seed, 0, 2 ** 64 - 1)


def _is_path(given):
    return isinstance(given, (str, bytes, os.PathLike))


def _dataset(inputs, targets, kind, options):
    """Returns (data set, kind) for paths, or for arrays."""
    names = None
    if kind is None and "features" in options:
        kind = "pixels"
    if _is_path(inputs):
        inputs = os.fspath(inputs)
        if kind is None:
            kind = "table" if not os.path.isdir(inputs) else "classes" if targets is None else "pairs"
        if targets is not None and not _is_path(targets):
            raise ArgumentError("inputs are a path, and targets are an array: give both as paths, or both as arrays")
        given = {"inputs": inputs, **({} if targets is None else {"targets": os.fspath(targets)})}
    elif kind in ("classes", "pairs", "pixels"):
        given = _images_in_memory(inputs, targets, kind)
    elif kind in (None, "table"):
        kind = "table"
        given, names = _rows_in_memory(inputs, targets, options)
    else:
        raise ArgumentError(f"kind={kind!r}: give signals as paths")
    dataset = _core.open_dataset({"kind": choose("kind", kind, KINDS), **given, **options})
    if names is not None and "classes" not in options and "missing" not in options:
        classes = dataset.info()["classes"]
        if len(classes) != names:
            raise ArgumentError(f"the labels are {names} different texts, but name {len(classes)} classes: texts that differ "
                                f"only by blanks around them, or are the same number, such as 1 and 01, are one class")
    return dataset, kind


def _labels(targets):
    """Returns targets as an array of NumPy; names in bytes become texts. Raises ArgumentError if one is missing."""
    labels = np.asarray(host(targets))
    if labels.dtype.kind == "S":
        return np.char.decode(labels, "utf-8", "surrogateescape")
    if labels.dtype.kind == "O":
        for row, label in enumerate(labels.ravel()):
            if label is None or label != label:  # pandas has NaN for missing values
                raise ArgumentError(f"the label of row {row} is {label}: leave out the rows whose class is not known")
    return labels


def _rows_in_memory(inputs, targets, options):
    """Returns cases of rows x columns for the extension, and the number of different names of classes, or None."""
    with np.errstate(over="ignore"):  # too large numbers become infinite, and the data set refuses them
        rows = floats(inputs, "inputs, rows x columns,")
    names, exact = names_of(inputs), host(inputs).dtype
    if exact.kind in "iuf" and exact.itemsize > 2 and exact != np.float32:  # float32 might make different numbers equal
        rows = np.asarray(host(inputs), np.float64, order="C")
    labels = None if targets is None else _labels(targets)
    if rows.ndim != 2 or rows.size == 0 or labels is None or labels.shape != rows.shape[:1]:
        have = "no targets" if labels is None else f"targets of the shape {labels.shape}"
        raise ArgumentError(f"arrays of cases are rows x columns, with a target for each row, and these are inputs of the shape "
                            f"{rows.shape} and {have}; of images, say kind= \"classes\", \"pairs\" or \"pixels\"")
    given = {"rows": rows, **({} if names is None else {"names": names})}
    if options.get("regression"):
        labels = floats(labels, "targets")
    if labels.dtype.kind in "biuf":
        return {**given, "numbers": np.asarray(labels, np.float64, order="C")}, None
    labels = labels.astype(str).tolist()
    return {**given, "labels": labels}, len(set(labels))


def _images_in_memory(inputs, targets, kind):
    """Returns cases of images for the extension."""
    if targets is None:
        raise ArgumentError(f"kind={kind!r}: give a label or an image for each image")
    one = hasattr(inputs, "dtype") and kind != "classes"  # an array is one image, but N images for "classes"
    images = [_image(image, "an image") for image in ([inputs] if one else inputs)]
    wanted = _labels(targets) if kind == "classes" else [targets] if hasattr(targets, "dtype") and one else list(targets)
    if len(images) != len(wanted) or not images:
        raise ArgumentError(f"{len(images)} images and {len(wanted)} targets: give one for each image")
    if kind == "classes":
        return {"images": images, "labels": [str(label) for label in wanted.tolist()]}
    return {"images": images, "wanted": [_mask(one) if kind == "pixels" else _image(one, "a target") for one in wanted]}


def _mask(mask):
    """Returns a mask as an array of a type that the library takes: uint8 or uint16, else float32."""
    mask = host(mask)
    if mask.dtype.kind in "biu" and mask.size and 0 <= mask.min() and mask.max() < 65536:
        return np.ascontiguousarray(mask, np.uint8 if mask.max() < 256 else np.uint16)
    return np.ascontiguousarray(floats(mask, "a mask"))


# ---- Training ----

@dataclasses.dataclass(frozen=True)
class Epoch:
    """The results of an epoch. NaN: not known, for targets without classes, or without validation."""

    number: int
    loss: float
    accuracy: float
    validation_loss: float
    validation_accuracy: float
    best: bool
    ended: str | None  #: why training has ended; None: it has not
    diverged: bool  #: it has ended because the loss or a weight is no longer finite


def train(network: str | Network, inputs: Any, targets: Any = None, *, kind: str | None = None, epochs: int = 0,
          batch: int = 0, rate: float = 0.0, loss: Literal["default", "sse", "mse", "mae", "cross-entropy"] = "default", optimizer: Literal["adam", "sgd", "momentum", "rprop"] = "adam", schedule: Literal["constant", "linear", "cosine", "step"] = "constant",
          momentum: float = 0.0, weight_decay: float = 0.0, elimination: float = 0.0, patience: int = 0,
          stop_error: float = 0.0, validation: float = 0.0, normalize: bool | None = None,
          weights: Mapping[Any, float] | None = None, seed: int = 0, algorithm: str = "auto", math: Math = "fp32",
          device: str = "cpu", progress: Callable[[Epoch], Any] | None = None, **data: Any) -> Network:
    """Trains a network, and returns the Network with the best weights.

    network: layers as a text, "dense 64 tanh, dense 26 softmax" (docs/learning.md), or a Network, which stays as it is.
    inputs, targets: arrays: rows x columns, and a target for each row. Or paths: a table; a folder with a sub-folder for
        each class; a folder of images and a folder of target images; images and masks (docs/learning.md, docs/pixels.md).
    kind: "table", "windows", "classes", "pairs" or "pixels"; by default, found from the paths. With kind=, images may be
        lists of arrays, with lists of labels, of target images, or of masks.
    Further options of data sets: label=, regression=, classification= (integers are classes even if nearly each row has its
        own; the default for a network that ends in softmax), syntax=, separator=, missing=, one_hot=, window=, hop=,
        patch=, augment=, gray=, features=, most_cases=, memory= (bytes).
    normalize: subtract the mean of each column or channel, and divide by its standard deviation; the network keeps both.
        None: yes, except for images, and for a Network, which has its own; like `gconv train`.
    epochs (0: 100), batch (0: 32), rate, loss, optimizer ("adam", "sgd", "momentum", "rprop"), schedule ("constant",
        "linear", "cosine", "step"), momentum, weight_decay, elimination, patience, stop_error: as for `gconv train`; 0 is
        the default. validation: the share of cases that is not trained on, but used to judge the network.
    weights: weights of classes, {"name": 2.0}, multiply the loss of their cases; other classes have 1. The network keeps a
    DataFrame's names of columns, and matches columns of later DataFrames by them.
    algorithm: "exact": the same bytes on every device. math: the type to which products may be rounded on a GPU: "fp32",
        "tf32", "fp16", "bf16". progress: a function that gets an Epoch; if it raises, training stops.
    If the loss is no longer finite, training ends with a gconv.Warning, and the network has the best weights before that.
    If this happens in the first epoch, gconv.Error is raised.
    """
    options = {"epochs": whole("epochs", epochs), "batch": whole("batch", batch), "rate": real("rate", rate),
               "loss": choose("loss", loss, LOSSES), "optimizer": choose("optimizer", optimizer, OPTIMIZERS),
               "schedule": choose("schedule", schedule, SCHEDULES), "momentum": real("momentum", momentum),
               "weight_decay": real("weight_decay", weight_decay), "elimination": real("elimination", elimination),
               "patience": whole("patience", patience), "stop_error": real("stop_error", stop_error), "seed": _seed(seed),
               "weights": {str(name): real("weights", weight) for name, weight in table("weights", weights).items()},
               "algorithm": str(algorithm), "math": choose("math", math, MATHS), "device": str(device)}
    data = _data_options(data)
    if isinstance(network, str) and network.rstrip(" )").endswith("softmax"):
        data.setdefault("classification", not data.get("regression"))
    if isinstance(network, Network) and network.classes and kind in (None, "table"):
        data["classes"] = network.classes  # the order of classes is the network's
    if isinstance(network, Network) and len(network._info["names"]) + (network._info["means"] is not None):
        data["like"] = network._model  # columns are matched by name, and missing numbers become the network's means
    dataset, kind = _dataset(inputs, targets, kind, {**data, "seed": _seed(seed)})
    if normalize is None:
        normalize = kind not in ("classes", "pairs") and not isinstance(network, Network)
    options["normalize"] = flag("normalize", normalize)
    if not isinstance(network, Network):
        info = dataset.info()
        any_size = kind == "pairs" or data.get("patch", 0) > 0
        network = Network(str(network), info["shape"][0], *((0, 0) if any_size else info["shape"][1:]),
                          outputs=0 if kind == "pairs" else info["outputs"], seed=seed)
    any_best, last = False, None

    def report(told):
        nonlocal any_best, last
        last = Epoch(**told)
        any_best = any_best or last.best
        if progress is not None:
            progress(last)

    found = Network._of(_core.train(network._model, dataset, options, real("validation", validation), report))
    if last and last.diverged:
        if not any_best:
            raise Error("training diverged in its first epoch, as the loss or a weight is no longer finite: take a smaller "
                        "rate, or normalise the inputs")
        warnings.warn(last.ended, Warning, stacklevel=2)
    return found


# ---- Support vector machines ----

class SVM(Model):
    """A support vector machine: SVM.train() makes one, SVM.load() reads a model of LIBSVM or gconv."""

    _file = "svm.model"

    def __init__(self, model: Any) -> None:
        """Not for users, who call SVM.train() or SVM.load()."""
        self._model, self._info, self._maps = model, model.info(), None
        self._info["inputs"] = self._info["columns"]

    @classmethod
    def train(cls, inputs: Any, targets: Any = None, *, kernel: SVMKernel = "rbf", cost: float = 0.0, gamma: float = 0.0, degree: int = 0,
              coef0: float = 0.0, scaling: str | None = None, regression: bool = False,
              tube: float | None = None, weights: Mapping[Any, float] | None = None, case_weights: Any = None,
              tolerance: float = 0.0, shrinking: bool = True, cache: int = 0, probabilities: bool = False, max_iter: int = 0,
              seed: int = 0, device: str = "cpu", kind: str | None = None, **data: Any) -> SVM:
        """Trains on arrays (rows x columns, and a target for each row), on a table (a path), or, with features=, on the
        pixels of images that masks label (two paths).

        kernel: "precomputed": the columns are the kernel values of a row with all rows, and the model's kernel is linear. cost (0: 1), gamma (0: 1 / columns), degree (0: 3), coef0, tube
            (None: 0.1), tolerance (0: 0.001), shrinking, cache (bytes; 0: 200 MB): as LIBSVM has them. weights: the cost of
            classes, {"name": 2.0}; others have 1. case_weights: a number above 0 for each case, which multiplies its cost.
            max_iter: training ends without a warning after so many steps on two cases; 0: with one, after very many.
        scaling: that of columns, "none", "symmetric" (-1 to 1), "unit" (0 to 1) or "standard" (mean 0, deviation 1); None:
            "none", but "standard" for pixels. regression: targets are numbers.
        Further options of data sets are those of gconv.train(); for pixels, most_cases is 10,000 by default."""
        options = _svm_options(kernel, cost, gamma, degree, coef0, regression, tube, weights, tolerance, shrinking, cache, seed,
                               device)
        options["probabilities"], options["max_iter"] = flag("probabilities", probabilities), _count("max_iter", max_iter)
        if case_weights is not None:
            options["case_weights"] = np.ascontiguousarray(case_weights, np.float64)
            if options["case_weights"].size == 0:
                raise ArgumentError("case_weights has no numbers: give one for each case, or None")
        return cls(_core.svm_train(options, _svm_data(inputs, targets, kind, scaling, options, data)))

    @staticmethod
    def validate(inputs: Any, targets: Any = None, *, folds: int = 5, kernel: SVMKernel = "rbf", cost: float = 0.0,
                 gamma: float = 0.0, degree: int = 0, coef0: float = 0.0, scaling: str | None = None,
                 regression: bool = False, tube: float | None = None, weights: Mapping[Any, float] | None = None,
                 tolerance: float = 0.0, shrinking: bool = True, cache: int = 0, seed: int = 0, device: str = "cpu",
                 kind: str | None = None, **data: Any) -> dict[str, Any]:
        """Cross-validation: returns a dict with cases, right, accuracy, mse, correlation. Arguments are those of train()."""
        options = _svm_options(kernel, cost, gamma, degree, coef0, regression, tube, weights, tolerance, shrinking, cache, seed,
                               device)
        options["folds"] = whole("folds", folds, 2)
        return _core.svm_validate(options, _svm_data(inputs, targets, kind, scaling, options, data))

    @classmethod
    def load(cls, path: Path) -> SVM:
        """Reads a model. Raises FormatError, which names the line that is wrong."""
        return cls(_core.svm_load(os.fspath(path)))

    def __repr__(self):
        of = f"{len(self.classes)} classes" if self.classes else "regression"
        return f"<gconv.SVM: {of}, {self.vectors} support vectors of {self.columns} columns>"

    @property
    def columns(self) -> int:
        """The number of columns of a row."""
        return self._info["columns"]

    @property
    def vectors(self) -> int:
        """The number of support vectors."""
        return self._info["vectors"]

    def _predict(self, rows, device, missing=None):
        return self._model.predict(finite_rows(model_rows(rows, self._info, missing)), str(device))

    def predict(self, rows: Any, *, device: str = "cpu", missing: str | None = None) -> Numbers:
        """Returns the class of each row: an array of integers if the names of all classes are integers, else of names; for
        regression, the predicted numbers. Columns of a DataFrame are matched by name. missing="mean": NaN are replaced by
        the means of the training; by default they raise ArgumentError."""
        numbers, values, _ = self._predict(rows, device, missing)
        return values[:, 0] if numbers is None else _labels_of(self.classes)[numbers]

    def decision(self, rows: Any, *, device: str = "cpu") -> NDArray[np.float64]:
        """Returns the decision values of the pairs of classes, (0, 1), (0, 2) ...: above 0 for the first class of a pair."""
        return self._predict(rows, device)[1]

    def probabilities(self, rows: Any, *, device: str = "cpu") -> NDArray[np.float64]:
        """Returns the probabilities, rows x classes. Raises UnsupportedError if the model has none."""
        found = self._predict(rows, device)[2]
        if found is None:
            raise UnsupportedError("the model yields no probabilities: train it with probabilities=True")
        return found

    def classify(self, x: Any, *, axes: str | None = None, device: str | None = None, missing: str | None = None) -> Any:
        """Returns the classes of an array: for rows x columns, a list with a name for each row; for a model of pixels and
        an image H x W x C, a map H x W of class numbers (class_values)."""
        if self.features:
            if self._maps is None:
                self._maps = _core.model_operation(self._model, "classes", {})
            return map_of_classes(self._maps, x, axes, device)
        is_for("axes", axes, False, "images, and this model has rows")
        if not self.classes:
            raise ArgumentError("this is a regression model, which has no classes: use predict()")
        return [self.classes[number] for number in self._predict(x, device or "cpu", missing)[0]]


def _labels_of(classes):
    """Returns the names of classes as an array, of int64 if all names are integers."""
    with contextlib.suppress(ValueError, OverflowError):
        labels = [int(name) for name in classes]
        if [str(label) for label in labels] == list(classes):
            return np.array(labels, np.int64)
    return np.array(classes)


def _svm_options(kernel, cost, gamma, degree, coef0, regression, tube, weights, tolerance, shrinking, cache, seed, device):
    if tube is not None and real("tube", tube) < 0:
        raise ArgumentError(f"tube={tube!r}: it must be at least 0")
    tube = 0.0 if tube is None else real("tube", tube) or -1.0  # for the library, 0 is the default, and below 0 is 0
    weights = {str(name): real("weights", weight) for name, weight in table("weights", weights).items()}
    found = {"type": int(flag("regression", regression)), "kernel": choose("kernel", kernel, SVM_KERNELS),
             "cost": real("cost", cost), "gamma": real("gamma", gamma), "degree": whole("degree", degree),
             "coef0": real("coef0", coef0), "tube": tube, "weights": weights, "tolerance": real("tolerance", tolerance),
             "shrinking": flag("shrinking", shrinking),
             "cache": _count("cache", cache), "seed": _seed(seed), "device": str(device)}
    is_for("weights", weights, not regression, "classes")
    used = (*SVM_PARAMETERS[kernel], *(("tube",) if regression else ()))
    unused = [name for name in ("gamma", "degree", "coef0", "tube") if found[name] and name not in used]
    if unused:
        warnings.warn(f"no effect on this kernel and kind of targets: {', '.join(unused)}", Warning, stacklevel=3)
    return found


def _svm_data(inputs, targets, kind, scaling, options, data):
    """Opens a data set. Sets options["scaling"], whose default depends on the kind of data."""
    data = {**_data_options(data), "regression": bool(options["type"]), "seed": options["seed"]}
    if kind == "pixels" or kind is None and "features" in data:
        kind = "pixels"
        data.setdefault("most_cases", _PIXELS)
        scaling = "standard" if scaling is None else scaling
    options["scaling"] = choose("scaling", "none" if scaling is None else scaling, SCALINGS)
    if options["kernel"] == SVM_KERNELS["precomputed"] and not _is_path(inputs):
        inputs = floats(inputs, "kernel values")
    return _dataset(inputs, targets, kind, data)[0]


def classify(model: Network | SVM | Path, x: Any, **options: Any) -> Any:
    """Returns the classes of rows, images or pixels. model: a Network, an SVM, or the path of one.

    Options and results are those of Network.classify() and SVM.classify()."""
    if isinstance(model, (str, bytes, os.PathLike)):
        model = SVM.load(model) if _core.svm_is_one(os.fspath(model)) else Network.load(model)
    return model.classify(x, **options)
