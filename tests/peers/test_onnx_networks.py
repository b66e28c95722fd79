#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ONNX models as networks, against ONNX Runtime, and ONNX's own cases: each result is equal, or the model is refused by name.

$GCONV_TEST_MODELS is how many models of each kind are drawn, 6 by default; $GCONV_TEST_ALL_CASES=1 takes all of ONNX's node
cases. Without the modules onnx and onnxruntime, nothing is tested.
"""
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    print("skipped: without the Python modules onnx and onnxruntime")
    sys.exit(77)

GCONV = os.environ["GCONV"]
DEVICE = os.environ.get("GCONV_TEST_DEVICE", "cpu")
MODELS = int(os.environ.get("GCONV_TEST_MODELS", "6"))
OPSETS = [7, 9, 10, 11, 12, 13, 14, 17, 18, 19, 21, 22]
onnxruntime.set_default_logger_severity(4)


class Model:
    """A chain that is put together node by node; `at` is what the last one makes."""

    def __init__(self, random, opset, shape):
        self.random, self.opset, self.shape = random, opset, shape
        self.nodes, self.tensors, self.at = [], [], "x"

    def tensor(self, array):
        name = f"t{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def floats(self, *shape):
        return self.tensor((self.random.normal(size=shape) * 0.4).astype("f4"))

    def add(self, op, *inputs, swapped=False, **attributes):
        given = {key: value for key, value in attributes.items() if value is not None}
        names = [self.at, *inputs]
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, names[::-1] if swapped else names, [out], f"{op}_{len(self.nodes)}", **given))
        self.at = out

    def conv(self, k, c, size=3, biases=True, **attributes):
        self.add("Conv", self.floats(k, c, size, size), *([self.floats(k)] if biases else []), **attributes)

    def make(self, kind=TensorProto.FLOAT):
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", kind, self.shape)],
                                  [helper.make_tensor_value_info(self.at, kind, None)], self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


# ---- Kinds of models: each fills one of random numbers ----

def convolutions(m, r):
    groups = int(r.choice([1, 2]))
    for layer in range(2):
        same = r.choice([None, "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
        pads = [int(p) for p in r.integers(0, 3, 4)] if same in (None, "NOTSET") and r.random() < 0.7 else None
        dilations = [int(d) for d in r.integers(1, 3, 2)] if same is None else None
        m.conv(4, 4 // groups, int(r.choice([1, 2, 3])), bool(r.random() < 0.5), group=groups, auto_pad=same, pads=pads, dilations=dilations,
               strides=[int(s) for s in r.integers(1, 3, 2)] if r.random() < 0.5 else None)
        m.add(r.choice(["Relu", "Sigmoid", "Tanh", "LeakyRelu"]))


def added(m, r):
    """Add of constants of every shape that could be a bias, behind Conv."""
    m.conv(4, 4, biases=bool(r.random() < 0.2), pads=[1, 1, 1, 1])
    shape = [[], [1], [4], [4, 1, 1], [1, 4, 1, 1], [1, 1, 1, 4], [1, 4], [4, 1], [4, 4], [1, 1, 4, 1], [2, 4, 1, 1], [1, 1, 4, 1, 1], [1, 1, 1]][int(r.integers(13))]
    m.add("Add", m.floats(*shape), swapped=bool(r.random() < 0.5))


def softmax(m, r):
    m.conv(4, 4, pads=[1, 1, 1, 1])
    if r.random() < 0.4:
        m.add("GlobalAveragePool")
        m.conv(4, 4, 1)
    if r.random() < 0.4:
        m.add("Flatten", axis=None if r.random() < 0.5 else 1)
    m.add("Softmax", axis=[None, None, 0, 1, 2, 3, -1, -2, -3][int(r.integers(9))])


def dense(m, r):
    m.conv(2, 4, strides=[2, 2])
    way = r.choice(["flatten", "reshape", "mean", "none"])
    size = (m.shape[2] - 3) // 2 + 1 if isinstance(m.shape[2], int) else 2
    features = 2 * size * ((m.shape[3] - 3) // 2 + 1 if isinstance(m.shape[3], int) else 2)
    if way == "flatten":
        m.add("Flatten", axis=[None, 1, 0, 2, -3, 3][int(r.integers(6))])
    elif way == "reshape":
        shape = [[0, -1], [-1, features], [1, -1], [2, -1], [0, 0], [-1, 2], [0, 2, -1], [-1], [3, features], [0, features]][int(r.integers(10))]
        m.add("Reshape", m.tensor(np.array(shape)), allowzero=1 if m.opset >= 14 and r.random() < 0.3 else None)
    elif way == "mean":
        features = 2
        axes, keep = [[2, 3], [3, 2], [-1, -2], [2], [1], [1, 2, 3]][int(r.integers(6))], [None, 0, 1][int(r.integers(3))]
        if m.opset < 18:
            m.add("ReduceMean", axes=axes, keepdims=keep)
        else:
            m.add("ReduceMean", m.tensor(np.array(axes)), keepdims=keep)
        if keep != 0:
            axes = [[2, 3], [-1, -2], [3], [3, -2], None][int(r.integers(5))]
            if m.opset < 13 or axes is None:
                m.add("Squeeze", axes=axes)
            else:
                m.add("Squeeze", m.tensor(np.array(axes)))
    if r.random() < 0.6:
        turned = int(r.random() < 0.5)
        shape = [[3], [1, 3], [1], [], [2, 3], [3, 1]][int(r.integers(6))]
        m.add("Gemm", m.floats(3, features) if turned else m.floats(features, 3), *([m.floats(*shape)] if r.random() < 0.8 or m.opset < 11 else []),
              transB=turned or None, alpha=[None, 1.0, 0.5][int(r.integers(3))], beta=[None, 1.0, 2.0][int(r.integers(3))],
              transA=[None, None, 0, 1][int(r.integers(4))])
    else:
        m.add("MatMul", m.floats(features, 3))
        m.add("Add", m.floats(*[[3], [1, 3], [1], [3, 1], [1, 1, 3]][int(r.integers(5))]))
    if r.random() < 0.5:
        m.add("Softmax", axis=[None, 1, -1, 0][int(r.integers(4))])


def normalised(m, r):
    if r.random() < 0.85:
        m.conv(4, 4, biases=bool(r.random() < 0.5), pads=[1, 1, 1, 1])
    if r.random() < 0.2:
        m.add("Relu")
    parts = [m.floats(4), m.floats(4), m.floats(4), m.tensor(r.uniform(0.5, 2, 4).astype("f4"))]
    m.add("BatchNormalization", *parts, epsilon=[None, 0.01, 1e-3][int(r.integers(3))], momentum=[None, 0.5][int(r.integers(2))],
          training_mode=[None, 0, 1][int(r.integers(3))] if m.opset >= 14 else None, spatial=[None, 1, 0][int(r.integers(3))] if m.opset < 9 else None)
    m.add(r.choice(["Relu", "Identity", "Dropout"]))


def padded(m, r):
    mode = r.choice(["constant", "reflect", "edge", "wrap"])
    pads = [0, 0, *r.integers(0, 3, 2).tolist(), 0, 0, *r.integers(0, 3, 2).tolist()]
    if r.random() < 0.2:
        pads[int(r.integers(8))] = int(r.choice([-1, 1]))
    mode = None if mode == "constant" and r.random() < 0.5 else mode
    if m.opset < 11:
        m.add("Pad", mode=mode, pads=pads, value=[None, 0.5][int(r.integers(2))])
    else:
        m.add("Pad", m.tensor(np.array(pads)), *([m.tensor(np.float32(0.25))] if r.random() < 0.5 else []), mode=mode)
    m.conv(4, 4, auto_pad=[None, None, "VALID", "SAME_UPPER"][int(r.integers(4))], pads=None)


def residuals(m, r):
    m.conv(int(r.choice([4, 4, 1])), 4, int(r.choice([1, 3])), pads=[[1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]][int(r.integers(3))])
    if r.random() < 0.3:
        m.add("GlobalAveragePool")
    m.add("Add", "x" if r.random() < 0.8 else m.at, swapped=bool(r.random() < 0.5))
    m.add("Identity")


def tables(m, r):
    m.shape = [[None, 6], [2, 6], [None, None], None][int(r.integers(4))]
    m.add(*(["MatMul", m.floats(6, 5)] if r.random() < 0.5 else ["Gemm", m.floats(6, 5), m.floats(5)]))
    m.add(r.choice(["Relu", "Sigmoid"]))
    m.add("Gemm", m.floats(5, 3), m.floats(3))
    m.add("Softmax", axis=[None, 1, -1, 0][int(r.integers(4))])


KINDS = [convolutions, added, softmax, dense, normalised, padded, residuals, tables]
SHAPES = [["n", 4, "h", "w"], [None, 4, 7, 9], [2, 4, 9, 7], [None, None, None, None], None, [1, 4, 4, 4], [1, 4, 5, 5]]
INPUTS = [(2, 4, 9, 7), (1, 4, 7, 9), (2, 4, 5, 5), (1, 4, 4, 4), (1, 4, 5, 5), (3, 4, 1, 1), (2, 4, 1, 4)]


class Comparison(unittest.TestCase):
    """What came of all models: equal, refused, wrong."""

    def setUp(self):
        self.counts = {"equal": 0, "refused": 0, "refused at run": 0, "of no meaning": 0}
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tearDown(self):
        print(self.id(), self.counts)

    def run_gconv(self, *words):
        return subprocess.run([GCONV, *map(str, words)], cwd=self.folder, capture_output=True, text=True, check=False)

    def convert(self, raw, what):
        """True if the model is taken; a refusal must say why."""
        (self.folder / "m.onnx").write_bytes(raw)
        done = self.run_gconv("bank", "convert", "m.onnx", "-o", "n.safetensors")
        if done.returncode == 0:
            return True
        self.assertIn(done.returncode, (1, 2), (what, done.stderr))
        self.assertIn("m.onnx: ", done.stderr)
        self.counts["refused"] += 1
        return False

    def compare(self, x, expected, what, tolerance=1e-5):
        np.save(self.folder / "x.npy", x)
        done = self.run_gconv("-i", "x.npy", "-f", "n.safetensors", "-o", "y.npy", "-d", DEVICE, "--layout", "nchw")
        if done.returncode != 0:
            self.assertIn("gconv: ", done.stderr)
            self.counts["refused at run"] += 1
            return
        got = np.load(self.folder / "y.npy")
        with self.subTest(what=what, x=x.shape):
            self.assertEqual([d for d in got.shape if d > 1], [d for d in expected.shape if d > 1])
            np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=tolerance, atol=tolerance)
            self.counts["equal"] += 1

    def check(self, model, inputs, what):
        raw = model.SerializeToString()
        if not self.convert(raw, what):
            return
        try:
            session = onnxruntime.InferenceSession(raw, providers=["CPUExecutionProvider"])
        except Exception:  # it is no valid model
            self.counts["of no meaning"] += 1
            return
        for x in inputs:
            try:
                expected = session.run(None, {"x": x})[0]
            except Exception:  # sizes that the model does not take
                continue
            self.compare(x if x.ndim == 4 else x[:, :, None, None], expected, what)


class Drawn(Comparison):
    def test_models_of_all_kinds(self):
        for kind, number in itertools.product(KINDS, range(MODELS)):
            random = np.random.default_rng([KINDS.index(kind), number])
            shape = SHAPES[int(random.integers(len(SHAPES)))]
            model = Model(random, int(random.choice(OPSETS)), shape)
            try:
                kind(model, random)
                made = model.make()
            except TypeError:  # a kind that needs sizes, of a shape that has none
                continue
            shapes = INPUTS if model.nodes[0].op_type not in ("MatMul", "Gemm") else [(2, 6), (1, 6)]
            inputs = [random.normal(size=size).astype("f4") for size in shapes]
            self.check(made, inputs, f"{kind.__name__} {number}, opset {model.opset}, {model.shape}: {onnx.printer.to_text(made.graph)[:1500]}")
        self.assertGreater(self.counts["equal"], 3 * MODELS)
        self.assertGreater(self.counts["refused"], 3 * MODELS)


class Cases(Comparison):
    """ONNX's own: what are inputs besides the first become initialisers."""

    READ = {"Conv", "Pad", "Gemm", "MatMul", "Add", "BatchNormalization", "Relu", "LeakyRelu", "Sigmoid", "Tanh", "Softmax", "GlobalAveragePool",
            "ReduceMean", "Flatten", "Reshape", "Squeeze", "Dropout", "Identity"}

    def check_case(self, model, inputs, outputs, name):
        known = {t.name for t in model.graph.initializer}
        given = [i.name for i in model.graph.input if i.name not in known]
        for key, array in zip(given[1:], inputs[1:]):
            if isinstance(array, np.ndarray):
                model.graph.initializer.append(numpy_helper.from_array(array, key))
        if not self.convert(model.SerializeToString(), name):
            return
        x = inputs[0]
        if x.ndim in (2, 4):
            self.compare(x.astype("f4").reshape(x.shape + (1,) * (4 - x.ndim)), outputs[0], name, 1e-3 if x.dtype == np.float16 else 1e-4)

    @staticmethod
    def load(path, kind):
        message = TensorProto() if kind.HasField("tensor_type") else None
        if message is None:
            return None
        message.ParseFromString(path.read_bytes())
        return numpy_helper.to_array(message)

    def test_models_of_the_wheel(self):
        data = pathlib.Path(onnx.__file__).parent / "backend/test/data"
        for path in sorted(data.glob("*/*/model.onnx")):
            if path.parts[-3] == "light":
                continue
            if path.parts[-3] == "node" and os.environ.get("GCONV_TEST_ALL_CASES") != "1":
                continue
            model, sets = onnx.load(path), sorted(path.parent.glob("test_data_set_*"))
            if not sets:
                continue
            known = {t.name for t in model.graph.initializer}
            kinds = [i.type for i in model.graph.input if i.name not in known]
            inputs = [self.load(sets[0] / f"input_{i}.pb", kind) for i, kind in enumerate(kinds) if (sets[0] / f"input_{i}.pb").exists()]
            outputs = [self.load(sets[0] / f"output_{i}.pb", o.type) for i, o in enumerate(model.graph.output)]
            self.check_case(model, inputs, outputs, path.parent.name)

    def test_node_cases(self):
        from onnx.backend.test.case.node import collect_testcases
        every = os.environ.get("GCONV_TEST_ALL_CASES") == "1"
        for case in collect_testcases(None):
            nodes = case.model.graph.node
            if not case.data_sets or not all(n.op_type in self.READ for n in nodes) or (not every and hash_of(case.name) % 8):
                continue
            inputs, outputs = case.data_sets[0]
            self.check_case(case.model, list(inputs), list(outputs), case.name)


def hash_of(text):
    return sum(text.encode())


if __name__ == "__main__":
    unittest.main()
