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


def draw_shape(random, dimensions):
    """Sides of 1 to 5 where there are many; of fewer dimensions also larger ones."""
    most = (60, 30, 14, 6, 5, 4)[dimensions - 1] if random.integers(2) else 6
    return tuple(int(side) for side in random.integers(1, most, dimensions))


def draw(random, name, dimensions):
    """(arguments behind the array, options) of a random call."""
    mode = str(random.choice(MODES))
    options = {"mode": mode, "cval": float(random.integers(0, 5)) if "constant" in mode else 0.0}
    axis = int(random.integers(-dimensions, dimensions))
    if name in ("gaussian_filter", "uniform_filter", "prewitt", "sobel", "laplace", "gaussian_laplace",
                "gaussian_gradient_magnitude") and random.integers(2):
        options["mode"] = [str(random.choice(MODES)) for _ in range(dimensions)]
    if name in ("correlate", "convolve"):
        weights = random.normal(size=tuple(random.integers(1, (6, 6, 6, 4, 3, 3)[dimensions - 1], dimensions)))
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
        kept = warnings.catch_warnings()
        kept.__enter__()
        self.addCleanup(kept.__exit__, None, None, None)
        warnings.simplefilter("error")

    def test_random_calls_on_floats(self):
        random = np.random.default_rng(1)
        for case in range(2000 if LONG else 390):
            name = NAMES[case % len(NAMES)]
            dimensions = int(random.integers(1, 7))
            array = draw_image(random, draw_shape(random, dimensions), np.float32)
            arguments, options = draw(random, name, dimensions)
            what = f"case {case}: {name} {array.shape} {arguments} {options}"
            wanted = getattr(theirs, name)(array.astype(float), *arguments, **options)
            result = getattr(ours, name)(array, *arguments, **options)
            self.assertEqual(result.dtype, np.float32, what)
            most = max(4 ** (dimensions - 1) if name in ("sobel", "prewitt") else 1, np.abs(wanted).max())  # of what is added
            np.testing.assert_allclose(result, wanted, atol=1e-6 * most, rtol=0, err_msg=what)

    def test_random_calls_on_integers(self):
        """Each pass may be a level off, from 0 on as from 255 on. What would wrap around between passes goes to SciPy."""
        random = np.random.default_rng(2)
        warnings.simplefilter("ignore")  # of SciPy too
        for case in range(2000 if LONG else 390):
            name = NAMES[case % len(NAMES)]
            dtype = (np.uint8, np.int16, np.uint16, np.int8, bool)[random.integers(5)]
            dimensions = int(random.integers(1, 7))
            array = (draw_image(random, draw_shape(random, dimensions), np.uint8) // random.integers(1, 3)).astype(dtype)
            output = (None, np.int16, np.float32, np.uint8, bool)[random.integers(5)]
            arguments, options = draw(random, name, dimensions)
            what = f"case {case}: {name} {array.shape} {dtype.__name__} {output} {arguments} {options}"
            wanted = getattr(theirs, name)(array, *arguments, output=output, **options)
            result = getattr(ours, name)(array, *arguments, output=output, **options)
            self.assertEqual((result.dtype, result.shape), (wanted.dtype, wanted.shape), what)
            if result.dtype == np.float32:
                np.testing.assert_allclose(result, wanted, atol=3e-6 * max(1, np.abs(wanted).max()), rtol=0, err_msg=what)
                continue
            result, wanted = (one.view(np.uint8) if one.dtype == bool else one for one in (result, wanted))
            bits = 2 ** (8 * result.dtype.itemsize)
            wrong = (result.astype(np.int64) - wanted.astype(np.int64)) % bits
            self.assertLessEqual(np.minimum(wrong, bits - wrong).max(), dimensions, what)
            if dtype is not bool and min(array.shape) > 1:  # whose sums are 1 less what rounding takes, or not, all over
                self.assertLessEqual(np.count_nonzero(wrong), 3 + wrong.size // 10, what)

    def test_random_arrays_of_other_kinds(self):
        """No samples, strides, other types, results in arrays of the caller, NaN: as SciPy, or SciPy's answer."""
        random = np.random.default_rng(3)
        warnings.simplefilter("ignore")
        for case in range(3000 if LONG else 400):
            name, dimensions = NAMES[case % len(NAMES)], int(random.integers(1, 5))
            shape = draw_shape(random, dimensions)[:-1] + (int(random.integers(0, 6)),)
            kind = random.choice(["f4", "f4", "u1", ">f4", ">i2", "f8", "i4", "f2", "c8"])
            array = (random.normal(size=shape) * 20).astype(kind)
            array = (array.T, array[::-1], array)[random.integers(3)]
            if array.size and array.dtype.kind == "f" and "uniform" not in name and random.integers(3) == 0:
                array[tuple(side // 2 for side in array.shape)] = random.choice([np.nan, np.inf])
            output = (None, "float32", "what", np.zeros(array.shape, random.choice(["f4", ">f4", "i2", "?", "f8"])),
                      np.zeros((2, 2)))[random.integers(5)]
            arguments, options = draw(random, name, dimensions)
            options["cval"] = options["cval"] if random.integers(9) else np.nan
            what = f"case {case}: {name} {array.shape} {array.dtype} {type(output)} {arguments} {options}"
            results = []
            for module in (theirs, ours):
                try:
                    into = output.copy() if isinstance(output, np.ndarray) else output
                    results.append(getattr(module, name)(array, *arguments, output=into, **options))
                    self.assertTrue(into is results[-1] or not isinstance(output, np.ndarray), what)
                except Exception as error:
                    results.append(error)
            wanted, result = results
            self.assertEqual(isinstance(wanted, Exception), isinstance(result, Exception), f"{what}: {wanted} {result}")
            if isinstance(wanted, Exception):
                self.assertEqual(type(wanted), type(result), what)
            elif result.dtype.kind == "f":
                size = np.abs(wanted[np.isfinite(wanted)]).max(initial=100)
                np.testing.assert_allclose(result, wanted, atol=1e-6 * size, rtol=0, err_msg=what)
            else:
                self.assertEqual((result.dtype, result.shape), (wanted.dtype, wanted.shape), what)

    def test_short_last_axes(self):
        """Of which several are at most 4 samples together: they are no channels of one pixel."""
        array = np.arange(16, dtype=np.float32).reshape(2, 2, 2, 2)
        np.testing.assert_array_equal(ours.uniform_filter(array, 2).ravel()[:4], (0, 0.5, 1, 1.5))
        np.testing.assert_array_equal(ours.uniform_filter(array, 2), theirs.uniform_filter(array, 2))

    def test_nan_under_a_weight_of_0(self):
        """Counts in lines, as 0 times NaN, and does not in weights of several dimensions, which SciPy leaves out."""
        warnings.simplefilter("ignore", gconv.Warning)
        for shape in ((9, 11), (9, 11, 3), (7, 3, 2)):
            for worst in (np.nan, np.inf):
                array = draw_image(np.random.default_rng(4), shape, np.float32)
                array[4, 1] = worst
                array[(2,) * len(shape[:-1]) + (0,)] = worst
                for call in (lambda m: m.sobel(array, 0), lambda m: m.sobel(array), lambda m: m.laplace(array),
                             lambda m: m.correlate1d(array, (1, 0, 0, 2), 0), lambda m: m.correlate1d(array, (0, 0, 2)),
                             lambda m: m.correlate(array, np.eye(3).reshape((3, 3, 1)[:array.ndim])),
                             lambda m: m.gaussian_filter(array, 1, 1), lambda m: m.prewitt(array, 1)):
                    np.testing.assert_allclose(call(ours), call(theirs), atol=1e-5)

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

    def test_constants_between_levels(self):
        """Integers with a border of 0.5: they are filtered as floats, and 255 stays 255."""
        random = np.random.default_rng(6)
        for kind in "uint8", "int8", "uint16", "int16", "bool":
            array, weights = random.integers(0, 120, (9, 8)).astype(kind), 2.0 * random.integers(-2, 3, (3, 3))
            wanted, result = (module.correlate(array, weights, mode="constant", cval=0.5) for module in (theirs, ours))
            np.testing.assert_array_equal(result, wanted, kind)

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
        for name, arguments, options in (("gaussian_laplace", (1.5, np.int16), {}), ("gaussian_gradient_magnitude", (1.5, np.float32), {}),
                                         ("gaussian_filter", (2, 1, np.int16), {}), ("gaussian_filter", (2,), {}), ("gaussian_filter", ((3, 0, 1),), {"mode": "nearest"})):
            wanted, result = (getattr(one, name)(photo, *arguments, **options) for one in (theirs, ours))
            self.assertEqual(result.dtype, wanted.dtype)
            self.assertLess(np.count_nonzero(np.abs(result - wanted) > 1e-3), wanted.size // 1000, name)

    def test_what_wraps_around_between_passes_is_scipys(self):
        """Where a sum is off by its last bit, a result would be off by any number of levels."""
        photo = draw_image(np.random.default_rng(12), (20, 30, 3), np.uint8)
        for call in (lambda m: m.gaussian_filter(photo, 1, 2), lambda m: m.gaussian_laplace(photo, 1), lambda m: m.gaussian_gradient_magnitude(photo, 1)):
            with self.assertWarnsRegex(gconv.Warning, "wrap around"):
                gconv._original._told.clear()
                result = call(ours)
            np.testing.assert_array_equal(result, call(theirs))

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
        weights = random.normal(size=(2, 3))  # whose axes go with rising axes of the array, in whatever order those are named
        np.testing.assert_array_equal(ours.correlate(floats, weights, axes=(2, 0)), ours.correlate(floats, weights, axes=(0, 2)))
        np.testing.assert_array_equal(ours.convolve(floats, weights, axes=(-1, 1), origin=(1, 0)),
                                      ours.convolve(floats, weights, axes=(1, 2), origin=(0, 1)))
        wanted = np.stack([theirs.correlate(floats[:, y], weights) for y in range(20)], 1)
        np.testing.assert_allclose(ours.correlate(floats, weights, axes=(2, 0)), wanted, atol=1e-5)
        np.testing.assert_array_equal(ours.correlate(floats, 2, axes=()), floats * 2)
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
