# SPDX-License-Identifier: MIT
"""What is wrong raises an exception that says so, and never crashes."""
import array
import inspect
import os
import pathlib
import tempfile
import unittest
import warnings

from helper import gconv, np


class Capsule:
    """An object of DLPack whose capsule another has taken already."""

    def __init__(self, of):
        self.capsule = of.__dlpack__()
        self.of = np.from_dlpack(self)

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


class BadArrays(unittest.TestCase):
    def refuse(self, text, image, kernel="gaussian", error=gconv.ArgumentError, **options):
        with self.assertRaisesRegex(error, text):
            gconv.filter(image, kernel, **options)

    def test_shapes(self):
        for shape in ((0, 5), (5, 0), (5, 5, 0), (0, 3, 5, 5)):
            self.refuse("no samples", np.zeros(shape, np.uint8))
            self.refuse("no samples", np.zeros(shape, np.float64))
        for shape in ((), (5,), (2, 2, 2, 2, 2), (1,) * 9):
            self.refuse("dimensions", np.zeros(shape, np.uint8))
            self.refuse("dimensions", np.zeros(shape, np.float64))

    def test_wrong_kinds_of_values_are_named(self):
        """What is no number, no pair, no dict and so on is refused by its argument's name; nothing runs for ever."""
        photo = np.zeros((20, 24, 3), np.uint8)
        rows, labels = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
        import gconv.cv as cv
        import gconv.ndimage as ndimage
        for wrong in (-1, "nothing", object(), (1, 2, 3), 1j):
            for name, call in (("metadata", lambda: gconv.encode(photo, "png", metadata=wrong)), ("weights", lambda: gconv.SVM.train(rows, labels, weights=wrong)),
                               ("weights", lambda: gconv.train("dense 2 softmax", rows, labels, weights=wrong)), ("ksize", lambda: cv.GaussianBlur(photo, wrong, 1)),
                               ("ksize", lambda: cv.blur(photo, wrong)), ("anchor", lambda: cv.blur(photo, (3, 3), anchor=wrong)),
                               ("kernel", lambda: gconv.volume(photo, wrong if wrong != "nothing" else [])),
                               ("scale", lambda: cv.Sobel(photo, cv.CV_32F, 1, 0, scale=wrong if wrong != -1 else None))):
                with self.subTest(name, wrong=wrong), self.assertRaisesRegex((gconv.ArgumentError, TypeError), name):
                    call()
        with self.assertRaises((ValueError, MemoryError, OverflowError, gconv.UnsupportedError)):
            ndimage.gaussian_filter(photo[..., 0].astype(np.float32), 1, order=10 ** 30)

    def test_truth_values_are_no_words(self):
        """flip="no" is no True: each argument that is True or False refuses other things by its name."""
        photo, rows, labels = np.zeros((9, 9, 3), np.uint8), np.arange(20.0).reshape(10, 2), np.arange(10) % 2
        data, tensor = gconv.encode(photo, "png"), np.ones((1, 1, 4, 4), np.float32)
        count = 0
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.png")
            gconv.write(path, photo)
            for function, *given in ((gconv.filter, photo, "gaussian"), (gconv.conv2d, tensor, tensor), (gconv.read, path), (gconv.decode, data),
                                     (gconv.encode, photo, "png"), (gconv.write, path, photo), (gconv.fit, photo, photo, 3), (gconv.Filter, [[1]]),
                                     (gconv.volume, np.ones((4, 4, 4)), "box:size=3"), (gconv.deconvolve, photo, "gaussian"),
                                     (gconv.run, path, "gaussian", os.path.join(folder, "b.png")), (gconv.SVM.train, rows, labels),
                                     (gconv.SVM.validate, rows, labels), (gconv.train, "dense 2 softmax", rows, labels)):
                names = [one.name for one in inspect.signature(function).parameters.values() if str(one.annotation).startswith("bool")]
                for name in names:
                    for wrong in ("no", 2, np.nan, [], {}):
                        with self.subTest(function.__name__, name=name, wrong=wrong), self.assertRaisesRegex(gconv.ArgumentError, f"^{name}=.*True or False"):
                            function(*given, **{name: wrong})
                    count += 1
            self.assertGreater(count, 25)
            for yes in (True, 1, np.True_, np.int64(1)):
                self.assertEqual(len(gconv.read(path, info=yes)), 2)

    def test_what_has_no_effect(self):
        """An argument that the others leave unused is refused, or told of, as by the program."""
        photo, volume, tensor = np.zeros((9, 9, 3), np.uint8), np.ones((4, 4, 4), np.float32), np.ones((1, 1, 4, 4), np.float32)
        rows, labels = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
        path = os.path.join(os.environ["GCONV_SOURCE_FOLDER"], "images", "coffee.jpg")
        for text, call, given in (
                ("border_value", lambda **k: gconv.filter(photo, "gaussian", **k), {"border_value": 1}),
                ("border_value", lambda **k: gconv.conv2d(tensor, tensor, **k), {"border_value": 1}),
                ("border_value", lambda **k: gconv.fit(photo, photo, 3, **k), {"border_value": 1}),
                ("slope", lambda **k: gconv.conv2d(tensor, tensor, **k), {"slope": 1, "activation": "relu"}),
                ("iterations", lambda **k: gconv.deconvolve(photo, "gaussian", **k), {"iterations": 3, "method": "wiener"}),
                ("noise", lambda **k: gconv.deconvolve(photo, "gaussian", **k), {"noise": 0.1}),
                ("spacing", lambda **k: gconv.volume(volume, "box:size=3", **k), {"spacing": (1, np.nan, 1)}),
                ("quality= is for JPEG or WebP", lambda **k: gconv.encode(photo, "png", **k), {"quality": 50}),
                ("png_level", lambda **k: gconv.write("no.jpg", photo, **k), {"png_level": 5}),
                ("lossless", lambda **k: gconv.run(path, "gaussian", "a.jpg", **k), {"lossless": True}),
                ("compression", lambda **k: gconv.encode(photo, "png", **k), {"compression": "zstd"}),
                ("present", lambda **k: gconv.run("no.png", "gaussian", "a.png", **k), {"present": "classes"}),
                ("alpha", lambda **k: gconv.encode(photo, "png", **k), {"alpha": True}),
                ("'Comment'", lambda **k: gconv.encode(photo, "png", **k), {"metadata": {"Comment": b"x"}}),
                ("pixels_per_metre", lambda **k: gconv.encode(photo, "png", **k), {"pixels_per_metre": -1}),
                ("pixels_per_metre", lambda **k: gconv.encode(photo, "png", **k), {"metadata": {"pixels_per_metre": (1, np.inf)}}),
                ("weights", lambda **k: gconv.SVM.train(rows, labels, **k), {"weights": {"1": 2.0}, "regression": True}),
                ("case_weights", lambda **k: gconv.SVM.train(rows, labels, **k), {"case_weights": []}),
                ("tube", lambda **k: gconv.SVM.train(rows, labels, **k), {"tube": -1, "regression": True})):
            with self.subTest(text, **given), self.assertRaisesRegex(gconv.ArgumentError, text):
                call(**given)
        for name, given in (("gamma", {"gamma": 1, "kernel": "linear"}), ("degree", {"degree": 4}), ("coef0", {"coef0": 1}), ("tube", {"tube": 1})):
            with self.assertWarnsRegex(gconv.Warning, f"no effect.*: {name}$"):
                gconv.SVM.train(rows, labels, **given)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gconv.SVM.train(rows, labels, gamma=1, degree=2, coef0=1, kernel="polynomial")

    def test_types(self):
        for dtype in (object, complex, "U3", "S4", "M8[s]", [("a", "u1"), ("b", "f4")]):
            self.refuse("type", np.zeros((5, 5), dtype))
        for dtype in (">u2", ">f4"):
            self.refuse("big-endian", np.zeros((5, 5), dtype))
        masked = np.ma.masked_array(np.zeros((5, 5), "f4"), np.eye(5) > 0)
        for image in (masked, masked.astype("f8")):  # what lies under a mask is no number
            self.refuse("5 elements of the array are masked", image)
        self.refuse("", None)
        self.refuse("", "photo.jpg")
        self.refuse("dimensions", array.array("f", [1, 2, 3]))
        self.refuse("dimensions", b"abc")

    def test_what_numpy_makes_an_array_of(self):
        wanted = gconv.filter(np.array([[1, 2], [3, 4]]), "gaussian")
        np.testing.assert_array_equal(gconv.filter([[1, 2], [3, 4]], "gaussian"), wanted)
        view = memoryview(bytes(range(12))).cast("B", (3, 4))
        self.assertEqual(gconv.filter(view, "gaussian").dtype, np.uint8)

    def test_capsule_that_was_taken(self):
        with self.assertRaises(Exception):
            gconv.filter(Capsule(np.zeros((5, 5), np.float32)), "gaussian")

    def test_read_only_input_is_taken(self):
        image = np.zeros((5, 5), np.uint8)
        image.flags.writeable = False
        gconv.filter(image, "gaussian")
        gconv.filter(np.frombuffer(bytes(25), np.uint8).reshape(5, 5), "gaussian")


class BadOptions(unittest.TestCase):
    def test_each_option_says_what_it_takes(self):
        image = np.zeros((5, 5), np.uint8)
        for text, options in (
                ("two ways to reflect", {"border": "reflect"}), ("did you mean \"reflect101\"", {"border": "reflect10"}), ("border=3", {"border": 3}),
                ("border=array", {"border": np.array(["reflect", "wrap"])}),
                ("padding", {"padding": "some"}), ("padding", {"padding": -1}), ("padding", {"padding": (1, 2, 3)}),
                ("stride", {"stride": 0}), ("stride", {"stride": "a"}), ("dilation", {"dilation": (1, 2, 3)}),
                ("axes", {"axes": "XY"}), ("axes", {"axes": "HH"}), ("axes", {"axes": 5}), ("names 3", {"axes": "HWC"}),
                ("dtype", {"dtype": "int9"}), ("combine", {"combine": "mean"}), ("range", {"range": "all"}),
                ("alpha", {"alpha": "keep"}), ("device", {"device": 3}), ("device", {"device": "gpu9"}),
                ("algorithm", {"algorithm": "fast"}), ("border", {"border": ["zero"]}), ("stride", {"stride": 2 ** 40}),
                ("stride", {"stride": 1.5}), ("stride", {"stride": (1, 1.5)}), ("padding", {"padding": 2 ** 31}), ("padding", {"padding": None}),
                ("padding", {"padding": []}), ("dilation", {"dilation": {}}), ("scale", {"scale": "a"}), ("offset", {"offset": None}),
                ("border_value", {"border_value": "white"}), ("finite", {"scale": np.nan}), ("finite", {"offset": np.inf}),
                ("device", {"device": "\udce9"}), ("algorithm", {"algorithm": "\udce9"}), ("axes", {"axes": "\udce9"}),
                ("dtype", {"dtype": []}), ("dtype", {"dtype": "float64"})):
            with self.assertRaises((gconv.Error,), msg=str(options)) as raised:
                gconv.filter(image, "gaussian", **options)
            self.assertIn(text, str(raised.exception))
        with self.assertRaises(TypeError):
            gconv.filter(image, "gaussian", bordr="zero")
        for count in (-1, 2 ** 40, 1.5, "a", None):
            with self.assertRaisesRegex(gconv.ArgumentError, "threads"):
                gconv.set_threads(count)
        for dtype in ("u2", np.uint16, np.dtype(np.uint16), ">u2", "uint16"):
            self.assertEqual(gconv.filter(image, "gaussian", dtype=dtype).dtype, np.uint16)
        for stride in (2, np.int64(2), np.array(2), [2, 2], np.array([2, 2])):
            self.assertEqual(gconv.filter(image, "gaussian", stride=stride).shape, (3, 3))

    def test_kernels(self):
        image = np.zeros((5, 5), np.uint8)
        for kernel in ("no_such_filter", "", [], [[]], [1, 2, 3], [[1, 2], [3]], [[np.nan]], np.zeros((1, 2, 3, 4)), None,
                       [["a"]], [[1j]], np.zeros((0, 3)), np.zeros((2, 0, 3)), 5, {}, {1}, b"sobel", "a\0b", np.zeros((2, 2), "M8[s]")):
            with self.assertRaises(ValueError, msg=repr(kernel)):
                gconv.filter(image, kernel)

    def test_built_in_kernels_are_not_taken_from_files(self):
        with tempfile.TemporaryDirectory() as folder:
            before = os.getcwd()
            os.chdir(folder)
            try:
                for name in ("log", "sobel_x"):
                    pathlib.Path(name).write_text("1 2\n")
                    self.assertEqual(gconv.read_filters(name)[0].taps.shape, (1, 2))  # a file of this name comes first
                    self.assertNotEqual(getattr(gconv.kernels, name)().taps.shape, (1, 2))
            finally:
                os.chdir(before)

    def test_exceptions_are_those_of_python_too(self):
        for error, also in ((gconv.ArgumentError, ValueError), (gconv.FormatError, ValueError), (gconv.FileError, OSError),
                            (gconv.ExistsError, FileExistsError), (gconv.LimitError, ValueError),
                            (gconv.NoMemoryError, MemoryError), (gconv.UnsupportedError, NotImplementedError),
                            (gconv.DeviceError, RuntimeError)):
            self.assertTrue(issubclass(error, also) and issubclass(error, gconv.Error))
        with self.assertRaises(gconv.UnsupportedError):
            gconv.filter(np.zeros((5, 5), np.uint8), "gaussian", device="cuda:63")
        for error, path, call in (
                (FileNotFoundError, "/no/such.png", gconv.read), (FileNotFoundError, "/no/such.model", gconv.SVM.load),
                (FileNotFoundError, "/no/such.png", lambda path: gconv.write(path, np.zeros((5, 5), np.uint8))),
                (NotADirectoryError, "/etc/passwd/a.png", gconv.read), (IsADirectoryError, "/etc", gconv.read),
                (IsADirectoryError, "/etc", lambda path: gconv.write(path, np.zeros((5, 5), np.uint8), format="png")),
                (FileNotFoundError, "", gconv.read)):
            with self.subTest(path=path), self.assertRaises(error) as raised:
                call(path)
            self.assertIsInstance(raised.exception, gconv.FileError)
            self.assertEqual((raised.exception.filename, str(raised.exception)[:len(path)]), (path, path))
            self.assertGreater(raised.exception.errno, 0)

    def test_filters_never_change(self):
        one = gconv.Filter([[1, 2], [3, 4]], name="mine", divisor=2)
        with self.assertRaises(AttributeError):
            one.name = "other"
        with self.assertRaises(ValueError):
            one.taps[0, 0] = 5
        self.assertEqual(one, gconv.Filter([[1, 2], [3, 4]], name="same", divisor=2))
        np.testing.assert_array_equal(np.asarray(one), [[0.5, 1], [1.5, 2]])
        self.assertIn("mine", one.to_text())
        for wrong in ({"anchor": (2, 0)}, {"taps": [1]}, {"taps": [[np.inf]]}, {"taps": [[1j]]}, {"taps": [["a"]]},
                      {"anchor": (0.5, 0)}, {"anchor": (0,)}, {"divisor": "a"}, {"offset": None}):
            with self.assertRaises(gconv.ArgumentError):
                gconv.Filter(**{"taps": [[1, 2], [3, 4]], **wrong})


if __name__ == "__main__":
    unittest.main()
