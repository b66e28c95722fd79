# SPDX-License-Identifier: MIT
"""Widgets for napari: filters with a live preview, classification of pixels by painting, and networks (napari.yaml)."""
from __future__ import annotations

import pathlib

import napari.layers
import numpy as np
from magicgui import magic_factory

from . import _core
from ._filter import BORDERS, filter as _filter
from ._learning import SVM
from ._network import Network

FILTERS = [name for name, *_ in _core.builtins()]


def _pixels(layer):
    """Returns the pixels of a layer, and the letters of their axes. All axes before the height are merged into frames."""
    data = np.asarray(layer.data)
    return (data.reshape(-1, *data.shape[-3:]), "NHWC") if layer.rgb else (data.reshape(-1, *data.shape[-2:]), "NHW")


def _show(viewer, source, what, data, add):
    """Puts pixels into the layer of the result, or into a new layer that lies on its source."""
    name = f"{what} of {source.name}"
    if name not in viewer.layers:
        return add(data, name=name, scale=source.scale[-data.ndim:], translate=source.translate[-data.ndim:])
    layer = viewer.layers[name]
    layer.data = data
    if isinstance(layer, napari.layers.Image) and not layer.rgb:
        layer.reset_contrast_limits()
    return layer


@magic_factory(auto_call=True, kernel={"choices": FILTERS}, border={"choices": list(BORDERS)},
               parameters={"tooltip": "as gconv filters lists them: size=9,sigma=2"})
def preview(viewer: napari.Viewer, image: napari.layers.Image, kernel: str = "gaussian", parameters: str = "",
            border: str = "replicate") -> None:
    """Filters a layer again after each change. Derivatives keep their signs; two of them yield their magnitude."""
    if image is None:
        return
    data, axes = _pixels(image)
    dtype = "float32" if axes == "NHW" and data.dtype.kind in "ub" else None
    try:
        result = _filter(data, f"{kernel}:{parameters}" if parameters else kernel, axes=axes, border=border, dtype=dtype)
    except ValueError as error:  # such as parameters that the user is still typing
        viewer.status = str(error)
        return
    _show(viewer, image, "filter", result.reshape(image.data.shape), viewer.add_image)


@magic_factory(call_button="Learn and classify", features={"tooltip": "as gconv svm --features lists them"})
def classes(viewer: napari.Viewer, image: napari.layers.Image, painted: napari.layers.Labels, features: str = "default",
            cost: float = 1.0) -> None:
    """Trains on the painted pixels of all frames, and labels all pixels."""
    if image is None or painted is None:
        return
    data, axes = _pixels(image)
    masks = np.asarray(painted.data).reshape(-1, *data.shape[1:3])
    frames = [number for number in range(len(masks)) if masks[number].any()]
    if not frames or len(np.unique(masks[masks != 0])) < 2:
        viewer.status = "paint some pixels of two classes at least, with the numbers 1 and 2"
        return
    machine = SVM.train(list(data[frames]), list(masks[frames].astype(np.uint16)), kind="pixels", features=features, cost=cost)
    found = np.stack([machine.classify(frame) for frame in data])
    _show(viewer, image, "classes", found.reshape(painted.data.shape).astype(np.int32), viewer.add_labels)


@magic_factory(call_button="Run", file={"filter": "*.safetensors *.onnx"})
def network(viewer: napari.Viewer, image: napari.layers.Image, file: pathlib.Path) -> None:
    """Runs a network. The result is a map of classes if it has classes, else an image for each of its outputs. Results
    for whole images, such as their classes, are no layer: the status line lists that of each frame."""
    if image is None or not file.is_file():
        return
    model = Network(file)
    data, axes = _pixels(image)
    planes = np.moveaxis(data, -1, 1) if axes == "NHWC" else data[:, None]
    result = np.asarray(model(planes))
    if result.ndim == 2 or result.shape[2:] == (1, 1) != planes.shape[2:]:
        found = result.reshape(len(planes), -1)
        names = model.classes or range(1, found.shape[1] + 1)
        told = [names[number] for number in found.argmax(axis=1)] if found.shape[1] > 1 else found[:, 0]
        viewer.status = ("classes" if found.shape[1] > 1 else "numbers") + " of the images: " + ", ".join(map(str, told))
        return None
    if model.channels == result.shape[1] == 3:
        return _show(viewer, image, "network", np.clip(np.moveaxis(result, 1, -1), 0, 1), viewer.add_image)
    result = result.argmax(axis=1) if len(model.classes or ()) > 1 else result
    add = viewer.add_labels if result.dtype.kind == "i" else viewer.add_image
    _show(viewer, image, "network", result.squeeze(), add)
