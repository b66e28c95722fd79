# SPDX-License-Identifier: MIT
"""Fitted filters, trained networks, support vector machines."""
import os
import pathlib
import pickle
import subprocess
import tempfile
import unittest
import warnings

from helper import draw_image, draw_kernel, gconv, np


class Networks(unittest.TestCase):
    def test_networks_of_arrays(self):
        random = np.random.default_rng(8)
        image = draw_image(random, (30, 41), np.float32)
        bank = random.normal(size=(5, 1, 7, 7)).astype(np.float32)
        net = gconv.Network.of(bank)
        y = gconv.conv2d(image[None, None], bank, padding=3)
        np.testing.assert_array_equal(net(image[None, None]), y)
        labels = y[0].argmax(axis=0) + 1
        self.assertGreater(len(np.unique(labels)), 3)
        with tempfile.TemporaryDirectory() as folder:
            gconv.write(f"{folder}/a.npy", image)
            gconv.run(f"{folder}/a.npy", net, f"{folder}/out/", present="classes", format="npy")
            np.testing.assert_array_equal(np.load(f"{folder}/out/a.npy").squeeze(), labels)
        biases, second = random.normal(size=5), random.normal(size=(2, 5, 3, 3))
        both = gconv.Network.of([(bank, biases), (second, None)], "relu, none")
        np.testing.assert_allclose(both(image[None, None]), gconv.conv2d(
            gconv.conv2d(image[None, None], bank, biases, padding=3, activation="relu"), second, padding=1), rtol=1e-3, atol=1e-3)
        for wrong in (bank[0], np.zeros((0, 1, 3, 3)), np.array([["x"]]), [(bank, bank)], []):
            with self.assertRaises(ValueError):
                gconv.Network.of(wrong)
        with self.assertRaises(gconv.Error):
            gconv.Network.of([(bank, None), (bank, None)], "relu, none")


class ImagesInMemory(unittest.TestCase):
    """Images that are arrays make the models of images that are files."""

    def test_of_each_kind(self):
        random = np.random.default_rng(5)
        images = [draw_image(random, (16, 16, 3), np.uint8) for _ in range(6)]
        wanted = [gconv.filter(image, "gaussian") for image in images]
        masks = [random.integers(0, 3, (16, 16)) for _ in images]
        labels = ["cat", "cat", "cat", "dog", "dog", "dog"]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            for name in ("in", "wanted", "masks", "classes/cat", "classes/dog"):
                (path / name).mkdir(parents=True)
            for number, image in enumerate(images):
                gconv.write(path / "in" / f"{number}.png", image)
                gconv.write(path / "wanted" / f"{number}.png", wanted[number])
                gconv.write(path / "masks" / f"{number}.png", masks[number].astype(np.uint8))
                gconv.write(path / "classes" / labels[number] / f"{number}.png", image)
            for net, of_files, of_arrays, kind in (
                    ("conv 3 3x3", (path / "in", path / "wanted"), (images, wanted), "pairs"),
                    ("conv 4 3x3 relu, mean, dense 2 softmax", (path / "classes", None), (images, labels), "classes"),
                    ("conv 4 3x3 relu, mean, dense 2 softmax", (path / "classes", None), (np.stack(images), labels), "classes"),
                    ("dense 4 tanh, dense 2 softmax", (path / "in", path / "masks"), (images, masks), "pixels")):
                with self.subTest(kind), warnings.catch_warnings():
                    warnings.simplefilter("ignore", gconv.Warning)
                    options = {"kind": kind, "epochs": 2, "seed": 3, **({"features": "gaussian 1"} if kind == "pixels" else {})}
                    one, other = gconv.train(net, *of_files, **options), gconv.train(net, *of_arrays, **options)
                    one.save(path / "one.safetensors")
                    other.save(path / "other.safetensors")
                    self.assertEqual((path / "one.safetensors").read_bytes(), (path / "other.safetensors").read_bytes())
            one = gconv.SVM.train(path / "in/0.png", path / "masks/0.png", features="gaussian 1")
            other = gconv.SVM.train(images[0], masks[0], features="gaussian 1")
            np.testing.assert_array_equal(one.classify(images[1]), other.classify(images[1]))
        for inputs, targets, kind in ((images, masks[:5], "pixels"), (images, None, "classes"), ([], [], "pairs"), (images, wanted, "windows"),
                                      (images, [mask - 1 for mask in masks], "pixels"), (images, wanted, "pixels"),
                                      (images, labels[:5], "classes"), ([images[0][:, ::2], *images[1:]], labels, "classes")):
            with self.subTest(kind), self.assertRaises(gconv.Error):
                gconv.train("conv 2 3x3 relu, mean, dense 2 softmax", inputs, targets, kind=kind, epochs=1)


class Fits(unittest.TestCase):
    def test_the_filter_is_found(self):
        random = np.random.default_rng(1)
        kernel = draw_kernel(random, 3, 5)
        for dtype in (np.float32, np.float64):
            before = draw_image(random, (240, 70, 3), dtype)
            after = gconv.filter(before, kernel)
            found = gconv.fit(before, after, (3, 5))
            np.testing.assert_allclose(found.taps, kernel, atol=1e-5)
            np.testing.assert_allclose(found.filter.taps, kernel, atol=1e-5)
            self.assertGreater(found.fitted["r2"], 0.999)
        several = gconv.fit([before[:120], before[120:]], [gconv.filter(before[:120], kernel), gconv.filter(before[120:], kernel)],
                            (3, 5), border="zero", held_out=0.25)
        np.testing.assert_allclose(several.taps, kernel, atol=1e-4)
        self.assertGreater(several.held["samples"], 0)
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder) / name for name in ("a.npy", "b.npy")]
            gconv.write(paths[0], before.astype(np.float32))
            gconv.write(paths[1], after.astype(np.float32))
            np.testing.assert_allclose(gconv.fit(*paths, (3, 5)).taps, kernel, atol=1e-5)

    def test_what_is_wrong(self):
        image = np.random.default_rng(2).random((20, 20)).astype(np.float32)
        for arguments in ((image, image[:10], 3), (image, image, 0), ([image], [image, image], 3), ([], [], 3),
                          (image, image, 30), (image, image, "a"), (image[0], image[0], 1)):
            with self.assertRaises(gconv.Error):
                gconv.fit(*arguments)
        with self.assertRaises(gconv.UnsupportedError):
            gconv.fit(np.zeros((20, 20), np.float32), image, 3)

    def test_what_is_wrong_is_told_of_the_right_image(self):
        image = np.random.default_rng(2).random((20, 20)).astype(np.float32)
        holed = image.copy()
        holed[4, 5] = np.nan
        for before, after, text in ((image, image[:10], "the image before is 20 x 20.*the image after is 20 x 10"),
                                    (holed, image, "^the image before: the sample at x 5, y 4"),
                                    (image, holed, "^the image after: the sample at x 5, y 4"),
                                    ([image, image], [image, holed], "^pair 1: the image after: the sample"),
                                    (np.stack([image] * 3), image, r"^before has the shape \(3, 20, 20\)"),
                                    (image, image[0], r"^after has the shape \(20,\)")):
            with self.assertRaisesRegex(gconv.Error, text):
                gconv.fit(before, after, 3)


def spirals(random, count):
    """Two arms, and the arm of each point."""
    arm, t = random.integers(0, 2, count), random.random(count)
    angle = 4 * t + np.pi * arm
    return np.column_stack([t * np.cos(angle), t * np.sin(angle)]).astype(np.float32), arm


class Training(unittest.TestCase):
    def test_a_network_of_arrays(self):
        random = np.random.default_rng(3)
        rows, arms = spirals(random, 400)
        epochs = []
        net = gconv.train("dense 16 tanh, dense 2 softmax", rows, arms, epochs=60, rate=0.01, validation=0.2, seed=1,
                          progress=epochs.append)
        self.assertEqual([epoch.number for epoch in epochs], list(range(1, len(epochs) + 1)))
        self.assertLess(epochs[-1].loss, epochs[0].loss)
        self.assertIsNotNone(epochs[-1].ended)
        self.assertEqual(net.classes, ("0", "1"))
        test, wanted = spirals(random, 200)
        found = gconv.classify(net, test[:, :, None, None])
        self.assertEqual(gconv.classify(net, test), found)
        self.assertEqual(gconv.classify(net, test.tolist()), found)
        self.assertGreater(np.mean([name == str(arm) for name, arm in zip(found, wanted)]), 0.9)
        again = gconv.train("dense 16 tanh, dense 2 softmax", rows, arms, epochs=60, rate=0.01, validation=0.2, seed=1)
        np.testing.assert_array_equal(again.weights(0)[0], net.weights(0)[0])

    def test_rows_are_normalised_as_the_program_does(self):
        rows, arms = spirals(np.random.default_rng(11), 100)
        rows = rows * [100, 0.01] + [5000, 3]
        layers, words = "dense 8 tanh, dense 2 softmax", ["--epochs", "5", "--seed", "3"]
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/t.npy", np.column_stack([rows, arms]).astype(np.float32))
            for normalize in (None, True, False):
                path = f"{folder}/{normalize}.safetensors"
                gconv.train(layers, rows, arms, epochs=5, seed=3, normalize=normalize).save(path)
                said = [] if normalize is None else ["--normalize", "yes" if normalize else "no"]
                subprocess.run([os.environ["GCONV"], "train", "--table", f"{folder}/t.npy", "--net", layers, "-o", f"{folder}/own.safetensors",
                                *words, *said, "-q"], check=True)
                own = gconv.Network.load(f"{folder}/own.safetensors")
                found = gconv.Network.load(path)
                for layer in range(2):
                    np.testing.assert_array_equal(found.weights(layer)[0], own.weights(layer)[0])
                np.testing.assert_array_equal(found(rows[:, :, None, None]), own(rows[:, :, None, None]))

    def test_networks_of_images_in_pairs_take_any_size(self):
        random = np.random.default_rng(12)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("before", "after"):
                (pathlib.Path(folder) / name).mkdir()
            for k in range(3):
                image = draw_image(random, (24, 24), np.uint8)
                gconv.write(f"{folder}/before/{k}.png", image)
                gconv.write(f"{folder}/after/{k}.png", gconv.filter(image, "gaussian"))
            net = gconv.train("conv 1 3x3", f"{folder}/before", f"{folder}/after", epochs=2, patch=8)
            self.assertEqual(net.size, (0, 0))
            self.assertEqual(net(image).shape, (24, 24))
            self.assertEqual(gconv.train("conv 1 3x3", f"{folder}/before", f"{folder}/after", epochs=1)(image[:9]).shape, (9, 24))

    def test_whole_numbers_that_float32_does_not_have_are_classes(self):
        rows, arms = spirals(np.random.default_rng(13), 100)
        for base in (2 ** 24, 2 ** 40):
            model = gconv.SVM.train(rows, arms + base)
            self.assertEqual(set(model.classes), {str(base), str(base + 1)})

    def test_the_seed_draws_the_order_of_cases(self):
        rows, arms = spirals(np.random.default_rng(9), 100)
        start = gconv.Network("dense 4 tanh, dense 2 softmax", 2, 1, 1, outputs=2, seed=3)
        nets = [gconv.train(start, rows, arms, epochs=3, seed=seed).weights(0)[0] for seed in (1, 1, 2)]
        np.testing.assert_array_equal(nets[0], nets[1])
        self.assertFalse(np.array_equal(nets[0], nets[2]))

    def test_a_network_of_pixels(self):
        random = np.random.default_rng(4)
        image = np.zeros((40, 40, 3), np.uint8)
        image[:, 20:] = 200
        image += random.integers(0, 20, image.shape).astype(np.uint8)
        mask = np.zeros((40, 40), np.uint8)
        mask[5:35, 3:17], mask[5:35, 23:37] = 1, 2
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", gconv.Warning)
            folder = pathlib.Path(folder)
            gconv.write(folder / "image.png", image)
            gconv.write(folder / "mask.png", mask)
            net = gconv.train("dense 8 relu, dense 2 softmax", folder / "image.png", folder / "mask.png", kind="pixels",
                              features="gaussian 1", epochs=30)
            net.save(folder / "net.safetensors")
            found = gconv.classify(folder / "net.safetensors", image)
            model = gconv.SVM.train(folder / "image.png", folder / "mask.png", features="gaussian 1", most_cases=200)
            model.save(folder / "svm.model")
            maps = [gconv.classify(folder / "svm.model", image), pickle.loads(pickle.dumps(model)).classify(image)]
            gconv.run(folder / "image.png", model, folder / "map.png")
            gconv.run(folder / "image.png", net, folder / "net.png")
            maps.append(gconv.read(folder / "map.png"))
            np.testing.assert_array_equal(gconv.read(folder / "net.png"), found)
            subprocess.run([os.environ["GCONV"], "classify", folder / "svm.model", "-i", folder / "image.png", "-o",
                            folder / "own.npy", "-q"], check=True)
            own = gconv.read(folder / "own.npy")
        self.assertEqual(found.shape, (40, 40))
        self.assertGreater(np.mean(found[mask > 0] == mask[mask > 0]), 0.99)
        self.assertEqual((net.class_values, model.class_values, model.features), ([1, 2], [1, 2], "gaussian 1"))
        for one in maps:
            np.testing.assert_array_equal(one, own)
        batch = np.stack([image, image[::-1]])
        for classifier in (net, model):
            whole = classifier.classify(image)
            np.testing.assert_array_equal(classifier.classify(batch, axes="NHWC")[0], whole)
            np.testing.assert_array_equal(classifier.classify(batch.transpose(0, 3, 1, 2))[0], whole)

    def test_a_call_with_rows_makes_rows(self):
        rows, arms = spirals(np.random.default_rng(14), 60)
        net = gconv.train("dense 8 tanh, dense 2 softmax", rows, arms, epochs=5)
        wanted = net(rows[:, :, None, None])[:, :, 0, 0]
        for given in (rows, rows.astype(np.float64), rows.tolist(), np.asfortranarray(rows)):
            np.testing.assert_array_equal(net(given), wanted)
        bytes_ = (rows * 100).astype(np.uint8)  # numbers of a table, which have no white
        np.testing.assert_array_equal(net(bytes_), net(bytes_.astype(np.float32)))
        number = gconv.train("dense 8 tanh, dense 1", rows, rows.sum(axis=1), regression=True, epochs=5)
        self.assertEqual(number(rows).shape, (60, 1))
        with self.assertRaisesRegex(gconv.ArgumentError, "a row has 3 numbers, and the network takes 2"):
            net(np.ones((4, 3)))

    def test_training_goes_on_with_classes_in_another_order(self):
        rows, arms = spirals(np.random.default_rng(15), 200)
        names = np.array(["inner", "outer"])[arms]
        first, last = np.argsort(arms, kind="stable"), np.argsort(-arms, kind="stable")
        net = gconv.train("dense 16 tanh, dense 2 softmax", rows[first], names[first], epochs=60, rate=0.01)
        self.assertEqual(net.classes, ("inner", "outer"))
        more = gconv.train(net, rows[last], names[last], epochs=20, rate=0.01)
        self.assertEqual(more.classes, net.classes)
        self.assertGreater(np.mean(np.array(gconv.classify(more, rows)) == names), 0.9)
        with self.assertRaisesRegex(gconv.Error, "none of the classes that are known from training"):
            gconv.train(net, rows, arms, epochs=1)

    def test_training_that_diverges_is_told(self):
        rows, _ = spirals(np.random.default_rng(16), 100)
        targets = rows.sum(axis=1)
        with self.assertRaisesRegex(gconv.Error, "diverged in its first epoch"):
            gconv.train("dense 8 relu, dense 1", rows * 1e6, targets, regression=True, rate=1e6, optimizer="sgd", normalize=False)
        epochs = []
        with self.assertWarnsRegex(gconv.Warning, "training diverged.*the best weights so far are kept"):
            gconv.train("dense 8 tanh, dense 1", rows, targets, regression=True, rate=1e6, optimizer="sgd", batch=100,
                        normalize=False, progress=epochs.append)
        self.assertTrue(any(epoch.best for epoch in epochs))

    def test_numbers_that_are_not_finite_have_no_class(self):
        rows, arms = spirals(np.random.default_rng(17), 60)
        models = gconv.train("dense 2 softmax", rows, arms, epochs=2), gconv.SVM.train(rows, arms)
        for value in (np.nan, np.inf, 1e300):
            wrong = rows.astype(np.float64)
            wrong[3, 1] = value
            for model in models:
                with warnings.catch_warnings(), self.assertRaisesRegex(gconv.ArgumentError, "^row 3, column 1"):
                    warnings.simplefilter("error")
                    gconv.classify(model, wrong)
        gaps = rows.copy()
        gaps[3, 1] = np.nan
        for labels in (arms, np.array(["a", "b"])[arms]):
            with self.assertRaises(gconv.FormatError):
                gconv.SVM.train(gaps, labels)
            self.assertEqual(len(gconv.SVM.train(gaps, labels, missing="mean").classes), 2)

    def test_labels(self):
        rows, arms = spirals(np.random.default_rng(18), 60)
        self.assertEqual(gconv.SVM.train(rows, np.array([b"in", b"out"])[np.sort(arms)]).classes, ("in", "out"))
        for missing in (np.where(arms, 1.0, np.nan), np.where(arms, 1.0, np.inf), np.where(arms, 2.0 ** 25, np.nan),
                        np.array([None, "a", "b"])[arms + np.arange(60) % 2], np.array([np.nan, "a", "b"], object)[arms + np.arange(60) % 2]):
            with self.assertRaises(gconv.Error, msg=str(missing[:5])):
                gconv.SVM.train(rows, missing)
        first = np.array(["first", *np.where(arms[1:], "a", "b")])  # no header, though its label is that of no other row
        self.assertEqual(gconv.SVM.train(np.rint(rows), first).classes[0], "first")
        numbers = np.arange(2000, 2060)  # each row has its own: no classes, unless they are asked for
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with self.assertRaisesRegex(gconv.ArgumentError, "classification takes whole numbers for classes"):
                gconv.SVM.train(rows, numbers)
        self.assertEqual(len(gconv.SVM.train(rows, numbers, classification=True).classes), 60)
        self.assertEqual(len(gconv.train("dense 60 softmax", rows, numbers, epochs=1).classes), 60)
        for pair in (("1", "01"), ("a", " a")):
            with self.assertRaisesRegex(gconv.ArgumentError, "3 different texts, but name 2 classes"):
                gconv.SVM.train(rows, np.array([*pair, "c"])[np.arange(60) % 3])
        with self.assertRaisesRegex(gconv.ArgumentError, r"the shape \(60, 2\) and targets of the shape \(60, 1\)"):
            gconv.SVM.train(rows, arms[:, None])

    def test_progress_that_raises_stops(self):
        rows, arms = spirals(np.random.default_rng(5), 50)

        def stop(epoch):
            if epoch.number == 3:
                raise StopIteration

        with self.assertRaises(StopIteration):
            gconv.train("dense 2 softmax", rows, arms, progress=stop)

    def test_what_is_wrong(self):
        rows, arms = spirals(np.random.default_rng(6), 50)
        for arguments, options in ((("what", rows, arms), {}), (("dense 2 softmax", rows[0], arms), {}),
                                   (("dense 2 softmax", rows), {}), (("dense 2 softmax", rows, arms), {"loss": "what"}),
                                   (("dense 2 softmax", rows, arms), {"kind": "what", "optimizer": "sdg"}),
                                   (("dense 2 softmax", "/no/such/table.csv"), {}), (("dense 2 softmax", rows * np.nan, arms), {}),
                                   (("dense 2 softmax", rows * 1j, arms), {}), (("dense 2 softmax", rows, arms), {"epochs": -1}),
                                   (("dense 2 softmax", rows, arms), {"epochs": 1.5}), (("dense 2 softmax", rows, arms), {"seed": -1}),
                                   (("dense 2 softmax", rows, arms), {"validation": 2}), (("dense 2 softmax", rows, arms), {"validation": -1}),
                                   (("dense 2 softmax", rows, arms), {"rate": "fast"}), (("dense 2 softmax", rows, arms), {"kind": "pairs"}),
                                   (("dense 2 softmax", rows, arms), {"window": "a"}), (("dense 2 softmax", rows, arms), {"device": "gpu"}), (("dense 2 softmax", rows, arms), {"math": "fp8"})):
            with self.assertRaises(gconv.Error, msg=str(options)):
                gconv.train(*arguments, **options)
        with self.assertRaises(TypeError):
            gconv.train("dense 2 softmax", rows, arms, epoch=3)


class Frame:
    """What a DataFrame of pandas is to gconv: an array with names of columns."""

    def __init__(self, array, columns):
        self.array, self.columns = np.asarray(array), list(columns)
        self.shape, self.dtype = self.array.shape, self.array.dtype

    def __array__(self, dtype=None, copy=None):
        return self.array.astype(dtype or self.array.dtype)

    def __getitem__(self, names):
        return Frame(self.array[:, [self.columns.index(name) for name in names]], names)


class Columns(unittest.TestCase):
    """What models keep of their columns."""

    def models(self, x, y, net="dense 8 tanh, dense 2 softmax", **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield gconv.SVM.train(x, y, scaling="standard", **options)
            yield gconv.train(net, x, y, rate=0.02, epochs=150, **options)

    def test_names(self):
        random = np.random.default_rng(3)
        x = random.normal(size=(100, 2))
        y = np.where(x[:, 0] > 0, "up", "down")
        rows = np.array([[2.0, 0.1], [-2.0, -0.1]])
        for model in self.models(Frame(x, ["a", "b"]), y):
            self.assertEqual(gconv.classify(model, rows), ["up", "down"])
            self.assertEqual(gconv.classify(model, Frame(rows[:, ::-1], ["b", "a"])), ["up", "down"])
            self.assertEqual(gconv.classify(model, Frame(np.column_stack([rows[:, 1], [7, 8], rows[:, 0]]), ["b", "id", "a"])), ["up", "down"])
            with self.assertRaisesRegex(gconv.ArgumentError, "takes a, b, and there are a, c"):
                gconv.classify(model, Frame(rows, ["a", "c"]))
            self.assertEqual(gconv.classify(pickle.loads(pickle.dumps(model)), Frame(rows[:, ::-1], ["b", "a"])), ["up", "down"])

    def test_numbers_that_float32_cannot_tell_apart(self):
        times = 1700000000.0 + np.arange(40)[:, None]
        labels = [f"c{k // 20}" for k in range(40)]
        for model in self.models(times, labels):
            self.assertGreater(np.mean([a == b for a, b in zip(gconv.classify(model, times), labels)]), 0.9)
        for model in self.models(times.astype(np.int64), labels):
            self.assertGreater(np.mean([a == b for a, b in zip(gconv.classify(model, times.astype(np.int64)), labels)]), 0.9)

    def test_gaps(self):
        random = np.random.default_rng(4)
        x = 10 + random.normal(size=(100, 2))
        y = np.where(x[:, 0] > 10, "up", "down")
        x[:5, 0] = np.nan
        for model in self.models(x, y, missing="mean"):
            first = [gconv.classify(model, np.array([[np.nan, 9.0], [other, 1.0]]), missing="mean")[0] for other in (13.0, 7.0)]
            self.assertEqual(first[0], first[1])
            with self.assertRaisesRegex(gconv.ArgumentError, "row 0, column 0"):
                gconv.classify(model, np.array([[np.nan, 9.0]]))

    def test_targets_have_their_unit(self):
        random = np.random.default_rng(5)
        x = random.normal(size=(200, 2))
        y = 1e5 + 3e4 * x[:, 0] + 1e4 * x[:, 1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = gconv.train("dense 8 tanh, dense 1", x, y, regression=True, rate=0.02, epochs=100)
            again = gconv.train(net, x, y, regression=True, rate=0.001, epochs=2)
        for model in (net, again):
            self.assertLess(np.std(model(x)[:, 0] - y), 0.2 * np.std(y))

    def test_weights_of_classes(self):
        random = np.random.default_rng(6)
        x = random.normal(size=(200, 1))
        y = np.where(x[:, 0] + random.normal(size=200) > 1.5, "rare", "common")
        plain, heavy = (gconv.train("dense 2 softmax", x, y, rate=0.02, weights=weights).classify(x).count("rare") for weights in (None, {"rare": 20}))
        self.assertGreater(heavy, 2 * plain)
        with self.assertRaisesRegex(gconv.ArgumentError, "there is no class blue to weigh"):
            gconv.train("dense 2 softmax", x, y, weights={"blue": 2})


class Machines(unittest.TestCase):
    def test_classes(self):
        random = np.random.default_rng(7)
        rows, arms = spirals(random, 300)
        names = np.array(["inner, \"first\"", "outer"])[arms]
        model = gconv.SVM.train(rows, names, gamma=10.0, cost=10.0, probabilities=True)
        test, wanted = spirals(random, 200)
        self.assertGreater(np.mean(model.predict(test) == np.array(["inner, \"first\"", "outer"])[wanted]), 0.95)
        likely = model.probabilities(test)
        np.testing.assert_allclose(likely.sum(axis=1), 1, atol=1e-6)
        self.assertEqual(model.decision(test).shape, (200, 1))
        self.assertGreater(gconv.SVM.validate(rows, arms, folds=4, gamma=10.0, cost=10.0)["accuracy"], 0.9)
        model = gconv.SVM.train(rows, arms, gamma=10.0)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "svm.model"
            model.save(path)
            np.testing.assert_array_equal(gconv.classify(path, test), model.predict(test).astype(str))
        with self.assertRaises(gconv.UnsupportedError):
            model.probabilities(test)
        heavy = gconv.SVM.train(rows, arms, gamma=0.1, weights={1: 50.0})
        self.assertGreater(np.mean(heavy.predict(test) == 1), 0.1 + np.mean(gconv.SVM.train(rows, arms, gamma=0.1).predict(test) == 1))
        for labels in (arms, arms * 2.0 - 1, arms > 0, np.array(["up", "down"])[arms], np.array(["1b", "2"])[arms]):  # names as they were
            self.assertGreater(np.mean(gconv.SVM.train(rows, labels, gamma=10.0).predict(rows) == labels), 0.9)
        with self.assertRaises(gconv.ArgumentError):
            gconv.SVM.train(rows, arms, weights={"none": 2.0})

    def test_regression_and_what_is_wrong(self):
        random = np.random.default_rng(8)
        rows = random.random((200, 3)).astype(np.float32)
        model = gconv.SVM.train(rows, rows.sum(axis=1), regression=True, kernel="linear", cost=100.0, tube=0.01)
        np.testing.assert_allclose(model.predict(rows), rows.sum(axis=1), atol=0.05)
        self.assertEqual(model.classes, ())
        for wrong in (rows[:, :2], rows[0], rows[:0], rows * 1j, [["a", "b", "c"]], None):
            with self.assertRaises(gconv.ArgumentError):
                model.predict(wrong)
        with self.assertRaises(gconv.FormatError):
            gconv.SVM.train(rows, np.zeros(200))
        with self.assertRaises(gconv.FormatError) as raised:
            gconv.SVM.train(rows * np.inf, np.arange(200) % 2)
        self.assertNotIn("/", str(raised.exception))  # the user gave no file
        with self.assertRaises(gconv.ArgumentError):
            model.classify(rows)
        for call in (gconv.SVM.load, lambda path: gconv.classify(path, rows)):
            with self.assertRaises(OSError):
                call("/no/such/model")
        with self.assertRaisesRegex(gconv.ArgumentError, "both as paths"):
            gconv.SVM.validate("/no/such", rows)
        for options in ({"folds": 1}, {"folds": -1}, {"folds": 1000}, {"cost": "a"}, {"cost": -1}, {"degree": 2 ** 40}, {"kernel": "what"}):
            with self.assertRaises(gconv.ArgumentError, msg=str(options)):
                gconv.SVM.validate(rows, np.arange(200) % 2, **options)


if __name__ == "__main__":
    unittest.main()
