# SPDX-License-Identifier: MIT
"""gconv.Network of ONNX models: images, arrays of any shape, several inputs and outputs."""
import copy
import pathlib
import pickle
import sys
import tempfile
import threading
import unittest

from helper import gconv, np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from onnx_helper import attribute, field, node, tensor, value  # noqa: E402

RANDOM = np.random.default_rng(3)
W = RANDOM.normal(size=(3, 3, 1, 1)).astype(np.float32)
X = RANDOM.random((2, 3, 5, 7), dtype=np.float32)
MIXED = np.einsum("kc,nchw->nkhw", W[:, :, 0, 0], X)
TYPES = {"float32": 1, "uint8": 2, "int64": 7, "bool": 9}


def model(nodes, inputs, outputs, constants=None, opset=17):
    """inputs, outputs: {name: (type, shape)}."""
    parts = [field(1, n) for n in nodes] + [field(5, tensor(name, array)) for name, array in (constants or {}).items()]
    for number, values in ((11, inputs), (12, outputs)):
        parts += [field(number, value(name, shape, TYPES[kind])) for name, (kind, shape) in values.items()]
    return field(1, 8) + field(7, b"".join(parts)) + field(8, field(1, "") + field(2, opset))


ANY = ("n", 3, "h", "w")
TWO = model([node("Conv", ["x", "w"], "a"), node("Sub", ["x", "a"], "rest"), node("ReduceMax", ["a"], "m", axes=[1])],
            {"x": ("float32", ANY)}, {"rest": ("float32", ANY), "m": ("float32", ("n", 1, "h", "w"))}, {"w": W})
SCALED = model([node("Conv", ["x", "w"], "a"), node("Mul", ["a", "s"], "y")],
               {"x": ("float32", ANY), "s": ("float32", (1,))}, {"y": ("float32", ANY)}, {"w": W})
LEVELS = model([node("Cast", ["x"], "f", to=1), node("Transpose", ["f"], "t", perm=[0, 3, 1, 2]), node("Conv", ["t", "w"], "y")],
               {"x": ("uint8", ("n", "h", "w", 3))}, {"y": ("float32", None)}, {"w": W})
SCORES = model([node("Conv", ["x", "w"], "a"), node("PRelu", ["a", "p"], "b"), node("GlobalMaxPool", ["b"], "g"), node("Flatten", ["g"], "scores"),
                node("ArgMax", ["scores"], "best", axis=1, keepdims=0)],
               {"x": ("float32", (1, 3, "h", "w"))}, {"scores": ("float32", ("n", 3)), "best": ("int64", ("n",))}, {"w": W, "p": np.float32([2])})
SHAPED = model([node("Reshape", ["x", "s"], "y")], {"x": ("float32", ("a", "b")), "s": ("int64", (2,))}, {"y": ("float32", None)})
CHAIN = model([node("Conv", ["photo", "w"], "a"), node("Relu", ["a"], "made")], {"photo": ("float32", ANY)}, {"made": ("float32", ANY)}, {"w": W})
UNUSED = model([node("Sub", ["one", "x"], "y")], {"training": ("bool", ()), "x": ("float32", (1, 3, "h", "w"))}, {"y": ("float32", None)},
               {"one": np.float32(1)})


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def network(self, contents, name="m.onnx"):
        (self.folder / name).write_bytes(contents)
        return gconv.Network(self.folder / name)

    def same(self, made, wanted, kind=np.float32):
        self.assertEqual((made.shape, made.dtype), (wanted.shape, np.dtype(kind)))
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-5)

    def test_several_outputs(self):
        net = self.network(TWO)
        self.assertEqual([tuple(one) for one in net.inputs], [("x", "float32", (None, 3, None, None))])
        self.assertEqual([one.name for one in net.outputs], ["rest", "m"])
        rest, most = net(X)
        self.same(rest, X - MIXED)
        self.same(most, MIXED.max(1, keepdims=True))
        self.same(net(X, output="m"), most)
        self.same(net(X, output=["m", "rest"])[1], rest)
        self.same(net(X[0])[1], most[0])
        self.same(net({"x": X})[0], rest)
        self.same(net(X.transpose(0, 2, 3, 1), axes="NHWC", output="rest"), rest.transpose(0, 2, 3, 1))
        outs = np.full_like(rest, 7), np.full_like(most, 7)
        self.assertIs(net(X, out=outs)[0], outs[0])
        self.same(outs[0], rest)
        self.same(outs[1], most)
        for words, wrong in (("the outputs of this network are 'rest', 'm'", {"output": "n"}), ("out must be a tuple", {"out": outs[:1]})):
            with self.assertRaisesRegex(gconv.ArgumentError, words):
                net(X, **wrong)

    def test_several_inputs(self):
        net, s = self.network(SCALED), np.float32([0.5])
        for given in ({"s": s, "x": X}, [X, s], {"x": X.astype(float), "s": [0.5]}):
            self.same(net(given), MIXED / 2)
        for words, wrong in (("takes 2 inputs, 'x', 's'", X), ("'s' of the model is missing", {"x": X}), ("'q' is no input", {"x": X, "q": s}),
                             ("takes float32, and this array has uint8", [X.astype(np.uint8), s]), ("numbers of 1 ", [X, np.float32([1, 2])])):
            with self.assertRaisesRegex(gconv.Error, words):
                net(wrong)
        with self.assertRaisesRegex(gconv.UnsupportedError, "takes the device cpu|take the device cpu|no CUDA|CUDA|cannot be used"):
            net([X, s], device="cuda")

    def test_arrays_of_the_caller(self):
        """Runs read and write them in place. None may change an input, or write to a result of an earlier call."""
        nodes = [node("Conv", ["x", "w"], "c"), node("Mul", ["c", "s"], "y"), node("Identity", ["y"], "z")]
        network = self.network(model(nodes, {"x": ("float32", ANY), "s": ("float32", (1,))}, {name: ("float32", ANY) for name in "cyz"}, {"w": W}))
        kept = []
        for turn in range(3):
            x, s = RANDOM.random((1, 3, 200, 200), dtype=np.float32), np.float32([turn + 1])
            shifted = np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)  # not aligned
            for array in x.copy(), shifted:
                kept.append((network({"x": array, "s": s}, output=["c", "y", "z", "c"]), np.einsum("kc,nchw->nkhw", W[:, :, 0, 0], x), s))
                np.testing.assert_array_equal(array, x)
        for (c, y, z, again), mixed, s in kept:
            for made, wanted in (c, mixed), (again, mixed), (y, mixed * s), (z, mixed * s):
                self.same(made, wanted)

    def test_levels_with_channels_last(self):
        net, levels = self.network(LEVELS), (X * 255).astype(np.uint8)
        wanted = np.einsum("kc,nchw->nkhw", W[:, :, 0, 0], levels.astype(np.float32))
        self.same(net(levels.transpose(0, 2, 3, 1)), wanted)
        self.same(net(levels[0].transpose(1, 2, 0)), wanted[0])
        np.testing.assert_allclose(net(X * 0 + np.float32(0.2), axes="NCHW"), net(np.full((2, 5, 7, 3), 51, np.uint8)), rtol=1e-5)
        with self.assertRaisesRegex(gconv.ArgumentError, "takes uint8, and this array has float32"):
            net(X.transpose(0, 2, 3, 1))

    def test_numbers_and_classes(self):
        net = self.network(SCORES)
        scores, best = net(X)  # of a model for one image, as many as there are
        wanted = np.where(MIXED < 0, 2 * MIXED, MIXED).max((2, 3))
        self.same(scores, wanted)
        self.same(best, wanted.argmax(1), np.int64)
        self.same(net(X[1], output="scores"), wanted[1])

    def test_outputs_that_are_no_images(self):
        """Five axes, no axes, a shape that the file does not say, and constants that fit one size alone."""
        row = RANDOM.random(7, dtype=np.float32)
        nodes = [node("Add", ["x", "row"], "a"), node("Reshape", ["a", "five"], "y"), node("ReduceSum", ["a"], "sum", keepdims=0)]
        net = self.network(model(nodes, {"x": ("float32", ("n", 3, "h", "w"))}, {"y": ("float32", None), "sum": ("float32", None)},
                                 {"row": row, "five": np.array([1, 3, 1, -1, 7])}))
        y, total = net(X[:1])
        self.same(y, (X[:1] + row)[:, :, None])
        self.same(total, (X[:1] + row).sum())
        self.same(net(X[:1], output="sum"), total)

    def test_functions_of_the_model(self):
        """A function calls another one, with attributes of its own, of the call and by default, and names within are its own."""
        leak = field(1, "Leak") + field(4, "A") + field(5, "B") + field(11, attribute("alpha", 0.5))
        leak += field(7, field(1, "A") + field(2, "T") + field(4, "LeakyRelu") + field(5, field(1, "alpha") + field(21, "alpha") + field(20, 1)))
        leak += field(7, node("Identity", ["T"], "B")) + field(9, field(1, "") + field(2, 17)) + field(10, "own")
        both = field(1, "Both") + field(4, "A") + field(5, "P") + field(5, "Q") + field(7, node("Leak", ["A"], "T", domain="own"))
        both += field(7, node("Neg", ["T"], "P")) + field(7, node("Leak", ["A"], "Q", domain="own", alpha=0.25)) + field(10, "own")
        nodes = [node("Conv", ["x", "w"], "T"), node("Both", ["T"], "p", domain="own", further=["q"]), node("Sub", ["p", "q"], "y")]
        plain = model(nodes, {"x": ("float32", ANY)}, {"y": ("float32", ANY)}, {"w": W})
        net = self.network(plain + field(25, leak) + field(25, both))
        self.same(net(X), np.where(MIXED < 0, -0.5 * MIXED - 0.25 * MIXED, -2 * MIXED))
        endless = field(1, "Leak") + field(4, "A") + field(5, "B") + field(7, node("Leak", ["A"], "B", domain="own")) + field(10, "own")
        for words, function in (("of opset 13 in a model of opset 17", leak.replace(field(2, 17), field(2, 13))), ("calls itself", endless)):
            with self.assertRaisesRegex(gconv.Error, words):
                self.network(plain + field(25, function) + field(25, both))

    def test_shapes_that_depend_on_elements(self):
        net, x = self.network(SHAPED), np.arange(12, dtype=np.float32).reshape(3, 4)
        for shape in ((2, 6), (12, 1), (2, 6), (-1, 4)):
            self.same(net([x, np.array(shape)]), x.reshape(shape))
        with self.assertRaisesRegex(gconv.Error, "whole number"):
            net([x, np.array([5, -1])])

    def test_chain_has_the_names_of_its_file(self):
        net = self.network(CHAIN)
        self.assertEqual((net.inputs[0].name, net.outputs[0].name, net.outputs[0].shape), ("photo", "made", (None, 3, None, None)))
        self.same(net({"photo": X}), np.maximum(MIXED, 0))
        made = gconv.Network("conv 4 3x3", 3, outputs=4)
        self.assertEqual((made.inputs[0].shape, made.outputs[0].shape), ((None, 3, None, None), (None, 4, None, None)))

    def test_outputs_have_the_shapes_of_results(self):
        """For every kind of layers; a network of one size says all axes."""
        for layers in ("conv 5 3x3", "conv 5 3x3/2 valid", "conv 4 3x3, mean", "conv 4 3x3, residual", "conv 4 3x3, maxpool 2x2",
                       "conv 4 3x3, avgpool 3x3/2", "upconv 6 2x2/2", "conv 8 3x3 relu, conv 12 3x3, shuffle 2", "conv 4 3x3, add",
                       "conv 8 3x3, concat", "conv 6 3x3, prelu", "conv 6 3x3, batchnorm relu", "conv 4 3x3, upconv 6 2x2/2, maxpool 2x2, concat"):
            for size in ((0, 0), (12, 20)):
                net = gconv.Network(layers, 4, *size)
                made = net(np.ones((2, 4, *(size if any(size) else (16, 24))), np.float32))
                wanted = made.shape[1:] if any(size) or made.shape[2:] == (1, 1) else (made.shape[1], None, None)
                self.assertEqual(net.outputs, (("output", "float32", (None, *wanted)),), layers)

    def test_chain_of_rows_whose_shape_the_file_does_not_say(self):
        for last in (node("Flatten", ["m"], "y"), node("Squeeze", ["m"], "y", axes=[2, 3])):
            net = self.network(model([node("GlobalAveragePool", ["x"], "m"), last], {"x": ("float32", ANY)}, {"y": ("float32", None)}, opset=12))
            self.assertEqual(net.layers, ({"kind": "mean"},))
            self.same(net(X), X.mean((2, 3)))
            self.same(net(X[0]), X[0].mean((1, 2)))

    def test_no_input(self):
        net = self.network(model([node("Neg", ["one"], "y")], {}, {"y": ("float32", (3, 3, 1, 1))}, {"one": W}))
        self.assertEqual(net.inputs, ())
        self.same(net({}), -W)

    def test_unused_input(self):
        net = self.network(UNUSED)
        self.assertEqual([one.name for one in net.inputs], ["x"])
        self.same(net(X), 1 - X)

    def test_copies(self):
        net = self.network(TWO)
        sent = pickle.dumps(net)
        (self.folder / "m.onnx").unlink()
        self.same(pickle.loads(sent)(X)[0], net(X)[0])
        pickle.dumps(pickle.loads(sent))
        self.assertIs(copy.deepcopy(net), net)
        self.network(SCALED)  # in place of the file that was read
        with self.assertRaisesRegex(gconv.ArgumentError, "has changed"):
            pickle.dumps(net)

    def test_threads(self):
        net, s, wrong = self.network(SCALED), np.float32([2]), []

        def work(number):
            for i in range(20):
                x = X[:, :, :, : 3 + (number + i) % 5]
                if not np.array_equal(net([x, s]), np.ascontiguousarray(wanted[:, :, :, : x.shape[3]])):
                    wrong.append(number)

        wanted = net([X, s])
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_files(self):
        self.network(TWO)
        np.save(self.folder / "x.npy", X)
        net = gconv.Network(self.folder / "m.onnx")
        gconv.run(self.folder / "x.npy", net, self.folder / "out", format="npy")
        self.same(np.load(self.folder / "out/x_m.npy"), net(X)[1])
        gconv.run(self.folder / "x.npy", net, self.folder / "one.npy", output_name="m")
        self.same(np.load(self.folder / "one.npy"), net(X)[1])
        with self.assertRaisesRegex(gconv.FileError, "give the channels"):
            gconv.Network("conv 8 3x3 relu")


if __name__ == "__main__":
    unittest.main()
