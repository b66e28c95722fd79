# SPDX-License-Identifier: MIT
"""Estimators with the interface of scikit-learn, for its pipelines, searches and scores.

SVC and SVR are support vector machines, MLPClassifier and MLPRegressor networks of dense layers; PixelClassifier labels the
pixels of images. Parameters that scikit-learn also has have the same names, meanings and defaults. Predicted labels have
the type of the training labels. Sparse matrices become dense. The model itself, to save or to inspect, is machine_,
network_ or model_.
"""
from __future__ import annotations

import os
import tempfile
import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import (_check_sample_weight, check_consistent_length, check_is_fitted, check_random_state,
                                      validate_data)

from ._arguments import flag, real, whole
from ._arrays import host
from ._errors import ArgumentError, UnsupportedError
from ._files import read, write
from ._learning import SVM, SVM_PARAMETERS, train
from ._types import NDArray

__all__ = ["MLPClassifier", "MLPRegressor", "PixelClassifier", "SVC", "SVR"]

_KERNELS = {"rbf": "rbf", "linear": "linear", "poly": "polynomial", "sigmoid": "sigmoid", "precomputed": "precomputed"}
_ACTIVATIONS = {"identity": "", "logistic": " sigmoid", "tanh": " tanh", "relu": " relu"}
_SOLVERS = {"adam": "adam", "sgd": "momentum"}


def _choose(name, value, values):
    if value not in values:
        raise ValueError(f"{name}={value!r}: there are {', '.join(values)}")
    return values[value]


def _dense(X):
    return X if isinstance(X, np.ndarray) else X.toarray()


def _seed(state):
    return int(state) if isinstance(state, Integral) else int(check_random_state(state).randint(2 ** 31 - 1))


class _Estimator(BaseEstimator):
    """What all estimators share: checks of rows and targets, weights of classes."""

    def _cases(self, X, y):
        """Checks the cases of fit(). Returns rows and targets; a classifier's targets are indices into classes_."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], y_numeric=is_regressor(self))
        if is_regressor(self):
            return _dense(X), y.astype(np.float64, copy=False)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"{type(self).__name__} tells classes apart, and y has one class only: {self.classes_[0]!r}")
        return _dense(X), numbers

    def _rows(self, X):
        """Checks the rows of predict()."""
        check_is_fitted(self)
        return _dense(validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False))

    def _class_weights(self, numbers):
        """Returns class_weight by the index of a class in classes_, which is its name in the library."""
        if self.class_weight is None:
            return {}
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[numbers])
        return {number: weight for number, weight in enumerate(weights.tolist())}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


# ---- Support vector machines ----

class _Machine(_Estimator):
    def _table(self, X):
        """Returns what cases are compared by: their columns or, of a kernel that is a function, its values with the cases of fit()."""
        if not callable(self.kernel):
            return X
        found = self.kernel(X, self._basis)
        check_consistent_length(found, X)
        return found

    def _cases(self, X, y):
        if issparse(X) and self.kernel == "precomputed":
            raise TypeError("Sparse precomputed kernels are not supported.")
        self._basis = X if callable(self.kernel) else None
        return super()._cases(self._table(X), y)

    def _rows(self, X):
        check_is_fitted(self)
        return super()._rows(self._table(X))[:, self._columns]

    def _fit(self, X, targets, sample_weight, **options):
        kernel = "precomputed" if callable(self.kernel) else _choose("kernel", self.kernel, _KERNELS)
        square = kernel == "precomputed"
        if self.max_iter != -1 and self.max_iter < 1:
            raise ValueError(f"max_iter={self.max_iter!r}: it is from 1 on, or -1 for no limit of yours")
        if self.gamma == "scale":
            variance = X.var(dtype=np.float64)
            gamma = 1 / (X.shape[1] * variance) if variance != 0 else 1.0
        else:
            gamma = 1 / X.shape[1] if self.gamma == "auto" else self.gamma
        if not isinstance(gamma, Real) or gamma <= 0:
            raise ValueError(f"gamma={self.gamma!r}: it is 'scale', 'auto' or a number above 0")
        if self.C <= 0 or self.tol <= 0:
            raise ValueError(f"C={self.C!r}, tol={self.tol!r}: both are above 0")
        weights, kept = None, np.arange(len(X))
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
            kept = np.flatnonzero(weights > 0)
            self._check_weighed(targets, targets[kept])
            X, targets, weights = X[kept][:, kept if square else slice(None)], targets[kept], weights[kept]
        self._columns = kept if square else slice(None)
        degree = whole("degree", self.degree, kernel == "polynomial")  # of 0, the library takes 3
        numbers = {"gamma": gamma, "degree": degree, "coef0": real("coef0", self.coef0)}
        used = {name: numbers[name] for name in SVM_PARAMETERS[kernel]}
        self.machine_ = SVM.train(X, targets, kernel=kernel, cost=min(self.C, 1e100), tolerance=self.tol,
                                  shrinking=self.shrinking, cache=int(self.cache_size * 2 ** 20), device=self.device,
                                  max_iter=max(self.max_iter, 0), case_weights=weights, **used, **options)
        found, counts, coefficients, rho, steps = self.machine_._model.parts()
        if 0 < self.max_iter <= steps.max():
            warnings.warn(f"Solver terminated early (max_iter={self.max_iter}).  Consider pre-processing your data with StandardScaler "
                          f"or MinMaxScaler.", ConvergenceWarning, stacklevel=3)
        self.n_iter_ = int(steps[0]) if is_regressor(self) else steps.astype(np.int32)
        self.support_, self.support_vectors_ = kept[found], np.empty((0, 0)) if square else X[found]
        self.n_support_ = counts if len(counts) else np.array([len(found)])
        sign = -1 if len(counts) == 2 else 1  # of two classes, scikit-learn's values are above 0 for the second
        self.dual_coef_, self.intercept_ = sign * coefficients, -sign * rho
        return self

    def _check_weighed(self, targets, kept):
        """Checks that cases with weights above 0 are left, of each class."""
        if len(kept) == 0:
            raise ValueError("Invalid input - all samples have zero or negative weights.")
        if isinstance(self, ClassifierMixin) and len(np.unique(kept)) < len(self.classes_):
            left = self.classes_[np.unique(kept)]
            raise ValueError("Invalid input - all samples with positive weights belong to the same class." if len(left) == 1 else
                             f"only the classes {left.tolist()} have samples with positive weights, of {self.classes_.tolist()}")

    @property
    def coef_(self) -> NDArray[np.float64]:
        """The weights of the columns, for each pair of classes, of a linear kernel."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        ends, vectors, pairs = np.cumsum([0, *self.n_support_]), self.support_vectors_, []
        parts = [slice(*pair) for pair in zip(ends, ends[1:])]
        for i, first in enumerate(parts):
            for j, second in enumerate(parts[i + 1:], i):  # row j of the coefficients is of the pair with class j + 1
                pairs.append(self.dual_coef_[j, first] @ vectors[first] + self.dual_coef_[i, second] @ vectors[second])
        found = np.array(pairs) if pairs else self.dual_coef_ @ vectors
        found.flags.writeable = False
        return found

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


class SVC(ClassifierMixin, _Machine):
    """A support vector machine for classification, like sklearn.svm.SVC, on the CPU or a GPU (device). The CPU trains
    precomputed kernels, kernels that are functions of two lists of cases, and "sigmoid"."""

    def __init__(self, *, C: float = 1.0, kernel: Any = "rbf", degree: int = 3, gamma: str | float = "scale",
                 coef0: float = 0.0, shrinking: bool = True, probability: bool = False, tol: float = 1e-3,
                 cache_size: float = 200, class_weight: Any = None, max_iter: int = -1, decision_function_shape: str = "ovr",
                 break_ties: bool = False, random_state: Any = None, device: str = "cpu") -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVC:
        """Trains on rows, and a label for each. C of a row is multiplied by its sample_weight; rows of 0 are left out."""
        _choose("decision_function_shape", self.decision_function_shape, {"ovr": 0, "ovo": 1})
        flag("break_ties", self.break_ties)
        X, numbers = self._cases(X, y)
        return self._fit(X, numbers, sample_weight, classification=True, probabilities=self.probability, seed=_seed(self.random_state),
                         weights=self._class_weights(numbers))

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each row. With break_ties, decision_function() decides between classes with equal votes."""
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        rows = self._rows(X)
        if self.break_ties and len(self.classes_) > 2:
            return self.classes_[self.decision_function(X).argmax(axis=1)]
        if not self.probability:
            return self.classes_[self.machine_.predict(rows, device=self.device)]
        pairs = np.triu_indices(len(self.classes_), 1)  # scikit-learn counts votes, where the machine takes its probabilities
        won = np.where(self.machine_.decision(rows, device=self.device) > 0, *pairs)
        return self.classes_[(won[:, :, None] == np.arange(len(self.classes_))).sum(axis=1).argmax(axis=1)]

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """For two classes, a value for each row: above 0 for classes_[1]. Else a value for each class ("ovr"), largest for
        the predicted class; or a value for each pair of classes ("ovo"), above 0 for the first."""
        rows = self._rows(X)
        values = self.machine_.decision(rows, device=self.device)
        if len(self.classes_) == 2:
            return -values[:, 0]
        return values if self.decision_function_shape == "ovo" else _ovr_decision_function(values < 0, -values, len(self.classes_))

    @available_if(lambda self: self.probability)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probabilities of classes_, rows x classes; with probability=True."""
        rows = self._rows(X)
        try:
            return self.machine_.probabilities(rows, device=self.device)
        except UnsupportedError as error:
            if "no probabilities" not in str(error):
                raise
            raise NotFittedError("predict_proba is not available when fitted with probability=False") from error

    @available_if(lambda self: self.probability)
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """The logarithms of predict_proba()."""
        return np.log(self.predict_proba(X))


class SVR(RegressorMixin, _Machine):
    """A support vector machine for regression, like sklearn.svm.SVR, on the CPU or a GPU (device)."""

    def __init__(self, *, kernel: Any = "rbf", degree: int = 3, gamma: str | float = "scale", coef0: float = 0.0,
                 tol: float = 1e-3, C: float = 1.0, epsilon: float = 0.1, shrinking: bool = True, cache_size: float = 200,
                 max_iter: int = -1, device: str = "cpu") -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVR:
        """Trains on rows, and a number for each. C of a row is multiplied by its sample_weight; rows of 0 are left out."""
        X, targets = self._cases(X, y)
        return self._fit(X, targets, sample_weight, regression=True, tube=real("epsilon", self.epsilon))

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The number of each row."""
        rows = self._rows(X)
        return self.machine_.predict(rows, device=self.device)


# ---- Networks ----

class _Perceptron(_Estimator):
    def __init__(self, hidden_layer_sizes: Any = (100,), activation: str = "relu", *, solver: str = "adam",
                 batch_size: Any = "auto", learning_rate_init: float = 0.001, momentum: float = 0.9, max_iter: int = 200,
                 early_stopping: bool = False, validation_fraction: float = 0.1, n_iter_no_change: int = 10,
                 weight_decay: float = 0.0, random_state: Any = None, device: str = "cpu") -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.solver = solver
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.momentum = momentum
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.weight_decay = weight_decay
        self.random_state = random_state
        self.device = device

    def _fit(self, X, targets, last, **options):
        solver = _choose("solver", self.solver, _SOLVERS)
        sizes = [self.hidden_layer_sizes] if isinstance(self.hidden_layer_sizes, Integral) else self.hidden_layer_sizes
        stops, momentum = flag("early_stopping", self.early_stopping), real("momentum", self.momentum)
        share = real("validation_fraction", self.validation_fraction)
        patience = whole("n_iter_no_change", self.n_iter_no_change, 1)
        batch = min(200, len(X)) if self.batch_size == "auto" else whole("batch_size", self.batch_size, 1)
        if not real("learning_rate_init", self.learning_rate_init) > 0:
            raise ValueError(f"learning_rate_init={self.learning_rate_init!r}: it is above 0")
        hidden = [f"dense {size}{_choose('activation', self.activation, _ACTIVATIONS)}" for size in sizes]
        self.loss_curve_ = []
        self.network_ = train(", ".join([*hidden, last]), X, targets, epochs=whole("max_iter", self.max_iter, 1),
                              batch=batch, rate=self.learning_rate_init, optimizer=solver, weight_decay=self.weight_decay,
                              momentum=momentum if solver == "momentum" else 0.0, seed=_seed(self.random_state),
                              validation=share if stops else 0.0, patience=patience if stops else 0, device=self.device,
                              progress=lambda epoch: self.loss_curve_.append(epoch.loss), **options)
        self.n_iter_ = len(self.loss_curve_)
        return self

    def _outputs(self, X):
        rows = self._rows(X)
        return self.network_(rows, device=self.device)


class MLPClassifier(ClassifierMixin, _Perceptron):
    """A network of dense layers for classification, like sklearn.neural_network.MLPClassifier, on the CPU or a GPU.

    The network itself normalises columns. weight_decay replaces alpha: it is AdamW's. early_stopping keeps the best
    weights."""

    def __init__(self, hidden_layer_sizes: Any = (100,), activation: str = "relu", *, solver: str = "adam",
                 batch_size: Any = "auto", learning_rate_init: float = 0.001, momentum: float = 0.9, max_iter: int = 200,
                 early_stopping: bool = False, validation_fraction: float = 0.1, n_iter_no_change: int = 10,
                 weight_decay: float = 0.0, class_weight: Any = None, random_state: Any = None, device: str = "cpu") -> None:
        super().__init__(hidden_layer_sizes, activation, solver=solver, batch_size=batch_size,
                         learning_rate_init=learning_rate_init, momentum=momentum, max_iter=max_iter,
                         early_stopping=early_stopping, validation_fraction=validation_fraction,
                         n_iter_no_change=n_iter_no_change, weight_decay=weight_decay, random_state=random_state,
                         device=device)
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any) -> MLPClassifier:
        """Trains on rows, and a label for each."""
        X, numbers = self._cases(X, y)
        return self._fit(X, numbers, f"dense {len(self.classes_)} softmax", weights=self._class_weights(numbers))

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """The probabilities of classes_, rows x classes."""
        return self._outputs(X)

    def predict_log_proba(self, X: Any) -> NDArray[np.float32]:
        """The logarithms of predict_proba()."""
        return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each row."""
        outputs = self._outputs(X)
        return self.classes_[outputs.argmax(axis=1)]


class MLPRegressor(RegressorMixin, _Perceptron):
    """A network of dense layers for regression, like sklearn.neural_network.MLPRegressor, on the CPU or a GPU.

    The network itself normalises columns, and weight_decay replaces alpha, as in MLPClassifier."""

    def fit(self, X: Any, y: Any) -> MLPRegressor:
        """Trains on rows, and a number for each."""
        X, targets = self._cases(X, y)
        return self._fit(X, targets, "dense 1", regression=True)

    def predict(self, X: Any) -> NDArray[np.float32]:
        """The number of each row."""
        return self._outputs(X)[:, 0]


# ---- Pixels ----

def _list_of(given):
    """Returns a list for a list of images, or for one image."""
    return [given] if isinstance(given, (str, bytes, os.PathLike)) or hasattr(given, "dtype") else list(given)


def _mask_of(mask):
    """Returns a path, or an array of any integer type as uint8 or uint16, H x W."""
    if isinstance(mask, (str, bytes, os.PathLike)):
        return mask
    mask = host(mask)
    mask = mask[..., 0] if mask.ndim == 3 and mask.shape[2] == 1 else mask
    if mask.dtype.kind not in "bui":
        return mask
    if mask.size and not 0 <= mask.min() <= mask.max() <= 65535:
        raise ArgumentError(f"a mask has numbers from {mask.min()} to {mask.max()}: they are from 0, which is unlabelled, to 65535")
    return mask.astype(np.uint16) if mask.dtype != np.uint8 else mask


def _put(folder, images):
    """Writes images, or links to their files, into a folder. Their names are numbers, which pair images and masks."""
    os.mkdir(folder)
    for number, image in enumerate(images):
        path = os.path.join(folder, f"{number:06d}")
        if isinstance(image, (str, bytes, os.PathLike)):
            image = os.path.abspath(os.fsdecode(image))
            os.symlink(image, path + os.path.splitext(image)[1])
        else:
            write(path + ".npy", host(image))


class PixelClassifier(ClassifierMixin, BaseEstimator):
    """Labels the pixels of images by features of their surroundings, like `gconv svm` and `gconv train` with --features.

    features: kinds with their sigmas, or a set (docs/pixels.md). network: the text of the layers to train, such as "dense
    64 relu, dense 3 softmax", for max_iter epochs; None: a support vector machine with C and gamma (0: 1 / number of
    features). max_pixels: the number of labelled pixels to train on, as many of each class; 0: 10,000 for a machine, all
    for a network. class_weight: {number of the mask: weight}. random_state: 0: the same result each time; None: another."""

    def __init__(self, features: str = "default", *, network: str | None = None, C: float = 1.0, gamma: float = 0.0,
                 max_iter: int = 100, max_pixels: int = 0, class_weight: Any = None, random_state: Any = 0,
                 device: str = "cpu") -> None:
        self.features = features
        self.network = network
        self.C = C
        self.gamma = gamma
        self.max_iter = max_iter
        self.max_pixels = max_pixels
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> PixelClassifier:
        """Trains on an image (an array H x W or H x W x C, or a path) and its mask (H x W integers, 0 is unlabelled, or a
        path); or on lists of images and masks."""
        if self.class_weight is not None and not isinstance(self.class_weight, dict):
            raise ArgumentError(f"class_weight={self.class_weight!r}: give {{number of the mask: weight}}; as many pixels of "
                                f"each class are learned where max_pixels does not take all")
        images, masks = _list_of(X), [_mask_of(mask) for mask in _list_of(y)]
        if len(images) != len(masks) or not images:
            raise ArgumentError(f"{len(images)} images and {len(masks)} masks: give a mask for each image")
        options = {"kind": "pixels", "features": self.features, "weights": self.class_weight, "seed": _seed(self.random_state),
                   "device": self.device, "most_cases": self.max_pixels or None}
        with tempfile.TemporaryDirectory(prefix="gconv-") as folder:
            inputs, targets = os.path.join(folder, "images"), os.path.join(folder, "masks")
            _put(inputs, images)
            _put(targets, masks)
            if self.network is None:
                self.model_ = SVM.train(inputs, targets, cost=self.C, gamma=self.gamma, **options)
            else:
                self.model_ = train(self.network, inputs, targets, epochs=self.max_iter, **options)
        self.classes_ = np.array(self.model_.class_values)
        return self

    def predict(self, X: Any) -> Any:
        """Returns a map H x W for an image (an array or a path), of numbers of classes_ for each pixel, or a list of
        maps."""
        check_is_fitted(self)
        maps = [self.model_.classify(image if hasattr(image, "dtype") else read(image)) for image in _list_of(X)]
        return maps if isinstance(X, (list, tuple)) else maps[0]

    def score(self, X: Any, y: Any) -> float:
        """Returns the share of labelled pixels that are predicted correctly."""
        masks = [mask if hasattr(mask, "dtype") else read(mask) for mask in map(_mask_of, _list_of(y))]
        right = [(found == mask)[mask != 0] for found, mask in zip(self.predict(_list_of(X)), masks)]
        if not any(map(len, right)):
            raise ArgumentError("the masks label no pixel: all their numbers are 0")
        return float(np.concatenate(right).mean())
