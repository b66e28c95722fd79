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
        words = [folder / "model.onnx", *files, "-d", DEVICE, *(["-e"] if explain else []), *options, "-o", *out]
        failed, said = ask([str(w) for w in words])
        if DEVICE != "cpu" and failed and "take cpu" in said:
            raise unittest.SkipTest(said)
        if failed or explain:
            return said
        return [read(line, path) for line, path in zip(said.splitlines()[-outputs:], out)]


def ask(words):
    """Whether the program failed, and what it said. On a GPU one program serves all, as to open a GPU takes long."""
    if DEVICE == "cpu":
        done = subprocess.run([PROGRAM, "-r", *words], capture_output=True, text=True)
        return done.returncode != 0, done.stderr.strip() if done.returncode != 0 else done.stdout
    global server
    if server is None or server.poll() is not None:
        server = subprocess.Popen([PROGRAM, "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print("\t".join(words), file=server.stdin, flush=True)
    said = ""
    for line in server.stdout:
        if line == "done\n":
            return False, said
        if line.startswith("failed: "):
            return True, line.removeprefix("failed: ").strip()
        said += line
    raise AssertionError(f"{PROGRAM} ended with {server.wait()} at {words}")


server = None


def read(line, path):
    """line: "PATH: float32 of 1 x 2"."""
    kind, _, shape = line.removeprefix(f"{path}: ").partition(" of ")
    sizes = [] if shape == "a scalar" else [int(n) for n in shape.split(" x ")]
    return np.frombuffer(path.read_bytes(), kind).reshape(sizes)
