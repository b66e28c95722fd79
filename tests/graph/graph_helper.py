# SPDX-License-Identifier: MIT
"""Runs small ONNX models with the program graph_case, for tests of kinds of nodes."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from onnx_helper import TYPES, attribute, field, node, tensor, value  # noqa: E402

PROGRAM = os.environ.get("GCONV_GRAPH_CASE", "graph_case")
DEVICE = os.environ.get("GCONV_GRAPH_DEVICE", "cpu")


def graph(nodes, inputs, outputs=("y",), constants=None, opset=21, shapes=None):
    """A model of these nodes. inputs: {name: array}; shapes: what the model says of them, if it is not what they have."""
    said = {name: np.shape(array) for name, array in inputs.items()} | (shapes or {})
    parts = [field(1, n) for n in nodes] + [field(5, tensor(name, array)) for name, array in (constants or {}).items()]
    parts += [field(11, value(name, said[name], TYPES[str(np.asarray(array).dtype)])) for name, array in inputs.items()]
    parts += [field(12, value(name, None)) for name in outputs]
    return field(1, 8) + field(7, b"".join(parts)) + field(8, field(1, "") + field(2, opset))


def run(model, inputs, outputs=1, explain=False, options=()):
    """The outputs of the model, as arrays; or what the program says, if it refuses the model or if `explain`."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "model.onnx").write_bytes(model)
        files = []
        for number, array in enumerate(inputs):
            files.append(folder / f"{number}.pb")
            files[-1].write_bytes(tensor("x", np.asarray(array)))
        out = [folder / f"out{i}" for i in range(outputs)]
        words = [PROGRAM, "-r", folder / "model.onnx", *files, "-d", DEVICE, *(["-e"] if explain else []), *options, "-o", *out]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
        if DEVICE != "cpu" and "take cpu" in done.stderr:
            raise unittest.SkipTest(done.stderr)
        if done.returncode != 0:
            return done.stderr.strip()
        if explain:
            return done.stdout
        return [read(line, path) for line, path in zip(done.stdout.splitlines()[-outputs:], out)]


def read(line, path):
    """line: "PATH: float32 of 1 x 2"."""
    kind, _, shape = line.removeprefix(f"{path}: ").partition(" of ")
    sizes = [] if shape == "a scalar" else [int(n) for n in shape.split(" x ")]
    return np.frombuffer(path.read_bytes(), kind).reshape(sizes)
