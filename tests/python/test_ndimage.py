# SPDX-License-Identifier: MIT
"""gconv.ndimage against scipy.ndimage, by random calls."""
import unittest
import warnings

from helper import LONG, draw_image, gconv, np

import scipy.ndimage as theirs
import gconv.ndimage as ours

MODES = ("reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap")
NAMES = ("correlate", "convolve", "correlate1d", "convolve1d", "gaussian_filter", "gaussian_filter1d", "uniform_filter",
         "uniform_filter1d", "prewitt", "sobel", "laplace", "gaussian_laplace", "gaussian_gradient_magnitude")


def draw(random, name, dimensions):
    """(arguments behind the array, options) of a random call."""
    mode = str(random.choice(MODES))
    options = {"mode": mode, "cval": float(random.integers(0, 5)) if "constant" in mode else 0.0}
    axis = int(random.integers(-dimensions, dimensions))
    if name in ("gaussian_filter", "uniform_filter", "prewitt", "sobel", "laplace", "gaussian_laplace",
                "gaussian_gradient_magnitude") and random.integers(2):
        options["mode"] = [str(random.choice(MODES)) for _ in range(dimensions)]
    if name in ("correlate", "convolve"):
        weights = random.normal(size=tuple(random.integers(1, 6, dimensions)))
        origin = [int(random.integers(-((size - 1) // 2), (size - 1) // 2 + 1)) for size in weights.shape]
        return (weights / np.abs(weights).sum(),), {**options, "origin": origin}
    if name in ("correlate1d", "convolve1d"):
        weights = random.normal(size=int(random.integers(1, 8)))
        reach = (weights.size - 1) // 2
        return (weights / np.abs(weights).sum(),), {**options, "axis": axis, "origin": int(random.integers(-reach, reach + 1))}
    if name == "gaussian_filter":
        sigma = float(random.uniform(0.4, 3)) if random.integers(2) else [float(v) for v in random.uniform(0, 3, dimensions)]
        return (sigma,), {**options, "order": int(random.integers(0, 3)), "truncate": float(random.uniform(2, 5))}
    if name == "gaussian_filter1d":
        more = {"radius": int(random.integers(1, 9))} if random.integers(2) else {}
        return (float(random.uniform(0.4, 3)),), {**options, "axis": axis, "order": int(random.integers(0, 4)), **more}
    if name in ("gaussian_laplace", "gaussian_gradient_magnitude"):
        return (float(random.uniform(0.5, 3)),), options
    if name.startswith("uniform"):
        size = int(random.integers(1, 9))
        reach = (size - 1) // 2
        return (size,), {**options, "origin": int(random.integers(-reach, reach + 1)), **({"axis": axis} if "1d" in name else {})}
    return (), {**options, **({"axis": axis} if name != "laplace" else {})}


class Calls(unittest.TestCase):
    def setUp(self):
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("error")

    def test_random_calls_on_floats(self):
        random = np.random.default_rng(1)
        for case in range(2000 if LONG else 390):
            name = NAMES[case % len(NAMES)]
            dimensions = int(random.integers(1, 4))
            array = draw_image(random, tuple(random.integers(1, (60, 30, 14)[dimensions - 1], dimensions)), np.float32)
            arguments, options = draw(random, name, dimensions)
            what = f"case {case}: {name} {array.shape} {arguments} {options}"
            wanted = getattr(theirs, name)(array.astype(float), *arguments, **options)
            result = getattr(ours, name)(array, *arguments, **options)
            self.assertEqual(result.dtype, np.float32, what)
            np.testing.assert_allclose(result, wanted, atol=1e-6 * max(1, np.abs(wanted).max()), rtol=0, err_msg=what)

    def test_random_calls_on_integers(self):
        random = np.random.default_rng(2)
        for case in range(1000 if LONG else 195):
            name = NAMES[case % len(NAMES)]
            if name == "gaussian_gradient_magnitude":  # whose squares SciPy lets run over
                continue
            dtype = (np.uint8, np.int16, np.uint16, np.int8, bool)[random.integers(5)]
            dimensions = int(random.integers(1, 4))
            shape = tuple(random.integers(1, (60, 30, 14)[dimensions - 1], dimensions))
            array = (draw_image(random, shape, np.uint8) // 2).astype(dtype)
            output = (None, np.int16, np.float32)[random.integers(3)]
            output = np.int16 if dtype is bool and output is None else output
            arguments, options = draw(random, name, dimensions)
            what = f"case {case}: {name} {array.shape} {dtype.__name__} {output} {arguments} {options}"
            wanted = getattr(theirs, name)(array, *arguments, output=output, **options)
            result = getattr(ours, name)(array, *arguments, output=output, **options)
            self.assertEqual((result.dtype, result.shape), (wanted.dtype, wanted.shape), what)
            if result.dtype == np.float32:
                np.testing.assert_allclose(result, wanted, atol=2e-6 * max(1, np.abs(wanted).max()), rtol=0, err_msg=what)
                continue
            bits = 2 ** (8 * result.dtype.itemsize)
            wrong = (result.astype(np.int64) - wanted.astype(np.int64)) % bits  # negative ones wrap around in both
            self.assertLessEqual(np.minimum(wrong, bits - wrong).max(), dimensions, what)
            if dtype is not bool:  # whose sums are 1 less what rounding takes, or not, all over
                self.assertLessEqual(np.count_nonzero(wrong), 2 + wrong.size // 10, what)

    def test_borders_of_arrays_smaller_than_the_weights(self):
        """In three dimensions, where planes are added: borders repeat the array several times."""
        random = np.random.default_rng(8)
        for shape in ((1, 4, 12), (2, 3, 5), (3, 1, 1), (1, 1, 1), (4, 2, 9)):
            for mode in MODES:
                array, weights = draw_image(random, shape, np.float32), random.normal(size=(5, 5, 3)) / 20
                for name in ("correlate", "convolve"):
                    wanted, result = (getattr(one, name)(array.astype(dtype), weights, mode=mode, cval=2, origin=(1, -2, 1))
                                      for one, dtype in ((theirs, float), (ours, np.float32)))
                    np.testing.assert_allclose(result, wanted, atol=2e-6, err_msg=f"{name} {shape} {mode}")

    def test_signs_and_colours(self):
        """What wraps around is SciPy's, level by level, where weights are integers: of images of many strips, with colours."""
        random = np.random.default_rng(9)
        photo = draw_image(random, (700, 1201, 3), np.uint8)
        small = photo[:40, :50]
        wide, signed = small.astype(np.uint16) * 257, (small.astype(np.int16) - 128) * 200
        calls = {"sobel": [(0,), (1,), (-1,)], "prewitt": [(0,), (1,), (2,)], "laplace": [()], "uniform_filter": [(3,), ((9, 5, 1),)],
                 "correlate1d": [((-1, 3, 2, -5), 0), ((1, 1, -7), 1)], "convolve": [(np.arange(-4, 5).reshape(3, 3, 1),)]}
        for name, calls_of_it in calls.items():
            for arguments in calls_of_it:
                for array in (photo, small, small[..., 1], np.ascontiguousarray(small[..., 0]), small.astype(np.int8), wide, signed):
                    if array.ndim == 2 and (name == "convolve" or 2 in arguments or (9, 5, 1) in arguments):
                        continue
                    for output in (None, np.int16, np.uint8, np.float32) if array is small else (None,):
                        for mode in ("reflect", "wrap", "constant") if array is small and output is None else ("mirror",):
                            what = f"{name} {arguments} {array.dtype} {array.shape} {output} {mode}"
                            before = array.copy()
                            wanted = getattr(theirs, name)(array, *arguments, output=output, mode=mode)
                            result = getattr(ours, name)(array, *arguments, output=output, mode=mode)
                            self.assertEqual(result.dtype, wanted.dtype, what)
                            np.testing.assert_array_equal(array, before, what)
                            if wanted.dtype == np.float32 or name == "uniform_filter" and array.dtype != np.uint8:
                                bits = 2 ** 16 if wanted.dtype.kind != "f" else np.inf
                                wrong = np.abs(result.astype(float) - wanted)
                                self.assertLessEqual(np.minimum(wrong, bits - wrong).max(), 3 if bits < np.inf else 1e-3, what)
                                self.assertLess(np.count_nonzero(wrong > 1e-3), wrong.size // 100, what)
                            else:
                                np.testing.assert_array_equal(result, wanted, what)

    def test_derivatives_of_gaussians_on_levels(self):
        """Which are cut at each pass, so that a level more or less may become many: most are the same."""
        photo = draw_image(np.random.default_rng(10), (300, 401, 3), np.uint8)
        for name, arguments, options in (("gaussian_laplace", (1.5,), {}), ("gaussian_gradient_magnitude", (1.5,), {}),
                                         ("gaussian_filter", (2, 1), {}), ("gaussian_filter", (2,), {}), ("gaussian_filter", ((3, 0, 1),), {"mode": "nearest"})):
            wanted, result = (getattr(one, name)(photo, *arguments, **options) for one in (theirs, ours))
            self.assertEqual(result.dtype, np.uint8)
            self.assertLess(np.count_nonzero(result != wanted), wanted.size // 1000, name)

    def test_nothing_to_do_is_a_copy(self):
        array = draw_image(np.random.default_rng(11), (9, 7), np.float32)
        before = array.copy()
        for call in (lambda m: m.gaussian_filter(array, 0), lambda m: m.uniform_filter(array, 1), lambda m: m.gaussian_laplace(array, 0),
                     lambda m: m.gaussian_filter(array, 0, output=np.uint8), lambda m: m.correlate(array, 1, axes=()) if m is ours else array):
            result = call(ours)
            self.assertFalse(np.may_share_memory(result, array))
            np.testing.assert_array_equal(result, call(theirs))
            np.testing.assert_array_equal(array, before)

    def test_levels(self):
        """Means of unsigned integers are levels without floats between: flat images keep each level, others are SciPy's, less one at most a pass."""
        flat = np.repeat(np.arange(256, dtype=np.uint8), 40).reshape(256, 5, 8)
        for each in flat:
            np.testing.assert_array_equal(ours.gaussian_filter(each, 1.5), each)
        wide = np.arange(65536, dtype=np.uint16).repeat(9).reshape(-1, 3, 3)
        np.testing.assert_array_equal(ours.uniform_filter(wide, 3, axes=(1, 2)), wide)
        random = np.random.default_rng(7)
        for channels in range(1, 7):
            for dtype in (np.uint8, np.uint16):
                image = draw_image(random, (23, 31, channels), np.uint8).astype(dtype) * (np.iinfo(dtype).max // 255)
                kernel = random.random((3, 5, 1)) / 8
                for name, argument, passes in (("gaussian_filter", (1.2, 0.7, 0), 2), ("uniform_filter", (3, 1, 5), 2), ("correlate", kernel, 1)):
                    for mode in ("reflect", "mirror", "nearest", "wrap", "constant"):
                        result, wanted = (getattr(one, name)(image, argument, mode=mode) for one in (ours, theirs))
                        self.assertEqual(result.dtype, dtype)
                        wrong = np.abs(result.astype(int) - wanted.astype(int))
                        self.assertLessEqual(wrong.max(), passes, f"{name} {channels} {dtype.__name__} {mode}")
                        self.assertLess(np.count_nonzero(wrong), 3 + wrong.size // 10, f"{name} {channels} {dtype.__name__} {mode}")

    def test_output_axes_and_what_is_exact(self):
        random = np.random.default_rng(3)
        array = draw_image(random, (20, 30), np.uint8)
        output = np.empty((20, 30), np.int16)
        self.assertIs(ours.sobel(array, 0, output), output)
        np.testing.assert_array_equal(output, theirs.sobel(array, 0, np.int16))
        same = array.copy()
        ours.uniform_filter(same, 3, same)
        np.testing.assert_array_equal(same, theirs.uniform_filter(array, 3))
        for size in range(2, 12):  # whose means are often integers, that are cut
            np.testing.assert_array_equal(ours.uniform_filter(array, size), theirs.uniform_filter(array, size))
        floats = draw_image(random, (6, 20, 30), np.float32)
        wanted = np.stack([theirs.gaussian_filter(plane, 1.5) for plane in floats])
        np.testing.assert_allclose(ours.gaussian_filter(floats, 1.5, axes=(1, 2)), wanted, atol=1e-6)
        wanted = np.stack([theirs.correlate(plane, [[1, 2], [3, 4]]) for plane in floats])
        np.testing.assert_allclose(ours.correlate(floats, [[1, 2], [3, 4]], axes=(1, 2)), wanted, atol=1e-5)
        many = draw_image(random, (3, 4, 5, 6, 7), np.float32)
        np.testing.assert_allclose(ours.gaussian_filter(many, 1), theirs.gaussian_filter(many, 1), atol=1e-6)
        for shape in ((4, 1, 5), (1, 1), (1,)):
            one = draw_image(random, shape, np.float32)
            np.testing.assert_allclose(ours.gaussian_filter(one, 3), theirs.gaussian_filter(one, 3), atol=1e-6)


class Originals(unittest.TestCase):
    def test_what_is_not_taken_goes_to_scipy_with_one_warning(self):
        array = np.random.default_rng(4).random((9, 9))
        with self.assertWarnsRegex(gconv.Warning, "float64"):
            np.testing.assert_array_equal(ours.sobel(array), theirs.sobel(array))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ours.sobel(array)

    def test_wide_types_in_float32_where_that_is_asked_for(self):
        self.addCleanup(setattr, ours, "wide", "scipy")
        ours.wide = "float32"
        array = np.random.default_rng(5).random((9, 9))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = ours.gaussian_filter(array, 2)
        self.assertEqual(result.dtype, np.float64)
        np.testing.assert_allclose(result, theirs.gaussian_filter(array, 2), atol=1e-6)

    def test_what_is_wrong_raises_as_scipy_does(self):
        array = np.zeros((5, 5), np.float32)
        for call in (lambda m: m.sobel(array, 7), lambda m: m.correlate(array, [1, 2]), lambda m: m.correlate1d(array, [[1]]),
                     lambda m: m.gaussian_filter(array, [1, 2, 3]),
                     lambda m: m.correlate1d(array, [1, 2, 3], origin=5), lambda m: m.sobel(array, mode="what"),
                     lambda m: m.sobel(array, output=np.zeros((4, 4)))):
            with self.assertRaises(Exception) as raised:
                call(theirs)
            with self.assertRaises(type(raised.exception)), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call(ours)


if __name__ == "__main__":
    unittest.main()
