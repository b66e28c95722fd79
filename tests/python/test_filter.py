# SPDX-License-Identifier: MIT
"""gconv.filter() and gconv.Plan: numbers against scipy in float64, layouts, types, outputs."""
import copy
import itertools
import os
import pathlib
import pickle
import tempfile
import tracemalloc
import unittest
import warnings

from helper import LONG, TYPES, draw_image, draw_kernel, gconv, np, round_to

import scipy.ndimage as ndimage

BORDERS = {"zero": ("constant", 0), "constant": ("constant", None), "replicate": ("nearest", 0), "symmetric": ("reflect", 0),
           "reflect101": ("mirror", 0), "wrap": ("wrap", 0)}


def expected(image, kernel, border, value, flip):
    """One plane, in float64."""
    mode, cval = BORDERS[border]
    white = {"uint8": 255, "uint16": 65535}.get(image.dtype.name, 1)
    function = ndimage.convolve if flip else ndimage.correlate
    return function(image.astype(np.float64), kernel.astype(np.float64), mode=mode, cval=value * white if cval is None else 0)


class Numbers(unittest.TestCase):
    def check(self, result, wanted, image, what):
        self.assertEqual(result.dtype, image.dtype, what)
        self.assertEqual(result.shape, wanted.shape, what)
        if image.dtype == np.float32:
            np.testing.assert_allclose(result, wanted, atol=1e-6, rtol=0, err_msg=what)
        else:
            wrong = np.abs(result.astype(np.int64) - round_to(image.dtype, wanted))
            self.assertLessEqual(wrong.max(), 1, what)  # 1: a half that float32 does not see
            self.assertLess(np.count_nonzero(wrong), 1 + wrong.size // (1000 if image.dtype == np.uint8 else 20), what)

    def test_numbers_that_are_converted_go_by_strips(self):
        random = np.random.default_rng(11)
        before = gconv._arrays._WHOLE
        self.addCleanup(setattr, gconv._arrays, "_WHOLE", before)
        for dtype in (np.int16, np.float64, np.int32, np.float16):
            for shape, axes in (((901, 700), None), ((300, 700, 3), None), ((5, 400, 300), "CHW"), ((2, 3, 300, 400), None)):
                image = (random.normal(size=shape) * 100).astype(dtype)
                for kernel, options in (("gaussian:sigma=2", {}), (np.ones((5, 4)) / 20, {"border": "reflect101"}), ("sobel", {"range": "abs"})):
                    results = []
                    for gconv._arrays._WHOLE in (before, 1 << 60):  # strips, all at once
                        results.append(gconv.filter(image, kernel, axes=axes, **options))
                    self.assertEqual((results[0].dtype, results[0].shape), (image.dtype, results[1].shape))
                    level = 1 if image.dtype.kind == "i" else (1e-3 if dtype == np.float16 else 2e-6) * np.abs(results[1]).max()
                    np.testing.assert_allclose(*results, rtol=0, atol=level)
        gconv._arrays._WHOLE = before
        image = random.integers(-999, 999, (3000, 3000), np.int16)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        gconv.filter(image, "gaussian:sigma=2")
        self.assertLess(tracemalloc.get_traced_memory()[1], 2 * image.nbytes)
        from gconv import cv, ndimage
        image = np.zeros((3000, 3000), np.int16)
        for call, most in ((lambda: cv.GaussianBlur(image, (5, 5), 1), 1.5), (lambda: ndimage.gaussian_filter(image, 1), 2.5)):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            call()
            self.assertLess(tracemalloc.get_traced_memory()[1] - before, most * image.nbytes)  # 1 and 2 of which are results

    def test_random_calls_agree_with_scipy(self):
        random = np.random.default_rng(1)
        for case in range(2000 if LONG else 300):
            dtype = TYPES[case % 3]
            border = list(BORDERS)[random.integers(len(BORDERS))]
            flip = bool(random.integers(2))
            kernel = draw_kernel(random, *random.integers(1, 8, 2))
            image = draw_image(random, tuple(random.integers(1, 40, 2)), dtype)
            value = float(random.integers(0, 256)) / 255
            what = f"case {case}: {image.shape} {dtype.__name__}, {kernel.shape}, {border}, flip {flip}"
            result = gconv.filter(image, kernel, border=border, border_value=value * (border == "constant"), flip=flip)
            self.check(result, expected(image, kernel, border, value, flip), image, what)

    def test_channels_are_filtered_one_by_one_in_any_layout(self):
        random = np.random.default_rng(2)
        kernel = draw_kernel(random, 3, 5)
        for dtype in TYPES:
            for channels in (1, 2, 3, 4, 5, 7):
                image = draw_image(random, (2, channels, 9, 11), dtype)  # N, C, H, W
                wanted = np.stack([np.stack([gconv.filter(plane, kernel) for plane in one]) for one in image])
                for axes in ("NCHW", "NHWC", "CNHW", "HWNC", "WHCN"):
                    order = ["NCHW".index(letter) for letter in axes]
                    moved = image.transpose(order)
                    for given in (moved, np.ascontiguousarray(moved), np.asfortranarray(moved)):
                        result = gconv.filter(given, kernel, axes=axes)
                        np.testing.assert_array_equal(result, wanted.transpose(order), f"{dtype} {channels} {axes}")
                np.testing.assert_array_equal(gconv.filter(image[0], kernel, axes="CHW"), wanted[0])
                np.testing.assert_array_equal(gconv.filter(image[0].transpose(1, 2, 0), kernel), wanted[0].transpose(1, 2, 0))
                np.testing.assert_array_equal(gconv.filter(image[:, 0], kernel, axes="NHW"), wanted[:, 0])

    def test_rows_with_gaps_that_run_backwards_or_are_repeated(self):
        random = np.random.default_rng(3)
        kernel = draw_kernel(random, 3, 3)
        for dtype in TYPES:
            whole = draw_image(random, (40, 60, 3), dtype)
            for part in (whole[5:20, 3:30], whole[::2], whole[:, ::2], whole[::-1], whole[:, ::-1], whole[..., ::-1],
                         whole[..., :2], np.broadcast_to(whole[:1], (7, 60, 3)), whole[::3, ::3, 1:2], whole[3:4, 5:6]):
                np.testing.assert_array_equal(gconv.filter(part, kernel), gconv.filter(part.copy(), kernel))
        raw = np.zeros(4 * 50 + 1, np.uint8)
        split = raw[1:].view(np.float32).reshape(5, 10)  # begins inside a word
        np.testing.assert_array_equal(gconv.filter(split, kernel), np.zeros((5, 10), np.float32))

    def test_stride_dilation_and_padding(self):
        random = np.random.default_rng(4)
        image, kernel = draw_image(random, (20, 30), np.float32), draw_kernel(random, 3, 5)
        wanted = ndimage.correlate(image.astype(float), kernel.astype(float), mode="constant")
        np.testing.assert_allclose(gconv.filter(image, kernel, stride=(2, 3)), wanted[::2, ::3], atol=1e-6)
        np.testing.assert_allclose(gconv.filter(image, kernel, padding="valid"), wanted[1:-1, 2:-2], atol=1e-6)
        np.testing.assert_allclose(gconv.filter(image, kernel, padding=(1, 2)), wanted, atol=1e-6)
        np.testing.assert_allclose(gconv.filter(image, kernel, padding=(0, 1, 0, 2)), wanted[1:, 2:], atol=1e-6)
        self.assertEqual(gconv.filter(image, kernel, padding="full").shape, (22, 34))
        spread = np.zeros((5, 9), np.float32)
        spread[::2, ::2] = kernel
        np.testing.assert_array_equal(gconv.filter(image, kernel, dilation=2), gconv.filter(image, spread))

    def test_several_filters(self):
        random = np.random.default_rng(5)
        image = draw_image(random, (20, 30, 3), np.float32)
        x, y = gconv.filter(image, ["sobel_x", "sobel_y"])
        np.testing.assert_array_equal(x, gconv.filter(image, "sobel_x"))
        np.testing.assert_allclose(gconv.filter(image, "sobel"), np.hypot(x, y), rtol=1e-5)
        both = gconv.filter(image, "sobel", combine="none")
        np.testing.assert_array_equal(both[1], y)
        stack = gconv.filter(image, ["sobel_x", "sobel_y"], combine="stack")
        np.testing.assert_array_equal(stack, np.concatenate([x, y], axis=2))
        stack = gconv.filter(image[..., 0], ["sobel_x", "sobel_y"], combine="stack")
        np.testing.assert_array_equal(stack, np.stack([x[..., 0], y[..., 0]], axis=2))
        planes = np.stack([np.asarray(one) for one in gconv.read_filters("sobel")])
        np.testing.assert_array_equal(gconv.filter(image, planes)[0], x)

    def test_a_filter_that_changes_is_seen(self):
        image = draw_image(np.random.default_rng(10), (9, 12), np.float32)
        kernel = np.ones((3, 3), np.float32)
        before = gconv.filter(image, kernel)
        kernel[0, 0] = 5
        np.testing.assert_allclose(gconv.filter(image, kernel) - before, 4 * np.pad(image, 1)[:-2, :-2], atol=1e-5)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "k.txt")
            for number in (2, 3):
                with open(path, "w") as file:
                    file.write(f"{number}\n")
                for kernel in (path, pathlib.Path(path), [path]):
                    np.testing.assert_array_equal(gconv.filter(image, kernel), image * number)
        swapped = np.array([[2, 1]], ">f4")  # the same bytes as another filter's
        same_bytes = swapped.view("<f4")
        np.testing.assert_array_equal(gconv.filter(image, swapped), gconv.filter(image, np.array([[2, 1]], np.float32)))
        np.testing.assert_array_equal(gconv.filter(image, same_bytes), gconv.filter(image, same_bytes.tolist()))
        both = gconv.read_filters("sobel")
        self.assertEqual(type(gconv.filter(image, gconv.Filters(both, gradient=False))), tuple)
        self.assertEqual(type(gconv.filter(image, both)), np.ndarray)

    def test_types_of_results(self):
        random = np.random.default_rng(6)
        image, kernel = draw_image(random, (9, 12, 3), np.uint8), draw_kernel(random, 3, 3)
        result = gconv.filter(image, kernel, dtype="float32")
        self.assertEqual(result.dtype, np.float32)
        np.testing.assert_allclose(result, gconv.filter(image.astype(np.float32), kernel) / 255, atol=1e-6)
        self.assertEqual(gconv.filter(image, kernel, dtype=np.uint16).dtype, np.uint16)
        gray = gconv.filter(image, "identity", gray=True)
        self.assertEqual(gray.shape, (9, 12, 1))
        light = gconv.filter(image, "gaussian:sigma=1", linear=True, border="replicate")
        self.assertEqual(light.shape, image.shape)
        plan = gconv.Plan("gaussian", (*image.shape[:2], 4), alpha="drop")
        self.assertEqual(plan.info["output_shape"], (1, 3, *image.shape[:2]))
        with self.assertRaisesRegex(gconv.ArgumentError, "alpha is the last channel"):
            gconv.Plan("gaussian", image.shape, alpha="drop")
        alpha = gconv.filter(np.dstack([image, image[..., 0]]), "gaussian", alpha="keep")
        np.testing.assert_array_equal(alpha[..., 3], image[..., 0])
        stretched = gconv.filter(image, "sobel_x", range="minmax")
        self.assertEqual((stretched.min(), stretched.max()), (0, 255))
        floats = gconv.filter(image, "sobel_x", dtype="float32", scale=255)
        wrapped = gconv.filter(image, "sobel_x", range="wrap")
        np.testing.assert_array_equal(wrapped, floats.astype(np.int32).astype(np.uint8))

    def test_int16_holds_exact_sums_with_their_signs(self):
        """Against integers of 64 bits, on shapes of any remainder of vectors: in one step, in two, by halves and thirds, and
        beyond what int16 holds."""
        random = np.random.default_rng(12)
        sobel, line = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]), np.array([1, 4, 6, 4, 1])
        kernels = [(sobel, 1), (sobel, 8), (np.outer(line, (-1, -2, 0, 2, 1)), 1), (np.outer(line, line), 1),
                   (np.array([[2, 0, 2], [0, -8, 0], [2, 0, 2]]), 1), (np.array([[127, 2], [127, 1]]), 1),
                   (np.array([[-127, -2], [-127, -1]]), 1), (np.array([[-127, -2], [-127, -1]]), 2), (sobel, 3)]
        for shape in ((1, 1), (1, 200), (3, 64), (9, 65, 3), (5, 127, 2), (4, 43, 4), (40, 1027)):
            image = random.choice(np.array((0, 1, 254, 255), np.uint8), shape)
            for (taps, divisor), algorithm in itertools.product(kernels, ("auto", "direct", "sparse")):
                kernel = gconv.Filter(taps, divisor=divisor)
                sums = ndimage.correlate(image.astype(np.int64), taps.reshape(taps.shape + (1,) * (image.ndim - 2)), mode="nearest")
                for range, values in (("clamp", sums), ("abs", np.abs(sums))):
                    wanted = np.clip(np.rint(values / divisor), -32768, 32767).astype(np.int16)
                    out = np.full(wanted.shape, -77, np.int16)
                    options = {"border": "replicate", "dtype": "int16", "range": range, "algorithm": algorithm}
                    self.assertIs(gconv.filter(image, kernel, out=out, **options), out)
                    np.testing.assert_array_equal(out, wanted, f"{shape} {taps} / {divisor} {options}")

    def test_int16_of_other_types_has_their_levels(self):
        values = np.array([[0, 3, 40000, 65535]])
        for dtype, wanted in ((np.uint16, (-3, -32768, -25535, 32767)), (np.int32, (-3, -32768, -25535, 32767)),
                              (np.float32, (-3, -32768, -25535, 32767)), (np.int16, None)):
            result = gconv.filter(values.astype(dtype), [[1, -1]], dtype="int16", padding=(0, 0, 0, 1))
            if wanted:
                np.testing.assert_array_equal(result, [wanted])
        self.assertEqual(gconv.filter(np.array([[5]], np.uint8), [[2]], offset=-0.2, dtype="int16"), -41)
        self.assertEqual(gconv.Plan("sobel_x", (9, 9), result="int16")(np.eye(9, dtype=np.uint8)).dtype, np.int16)
        for options in ({"linear": True}, {"range": "minmax"}, {"range": "wrap"}, {"range": "signed"},
                        {"alpha": "premultiply"}):
            with self.assertRaisesRegex(gconv.UnsupportedError, "results of i16"):
                gconv.filter(np.zeros((5, 5, 4), np.uint8), "gaussian", dtype="int16", **options)
        with self.assertRaisesRegex(gconv.UnsupportedError, "which are results alone"):
            gconv.Plan("sobel_x", (9, 9), "int16")

    def test_mixed_channels(self):
        random = np.random.default_rng(17)
        image = draw_image(random, (40, 50, 3), np.uint8)
        matrix = [[3, 1, 0], [1, -2, 1], [0, 1, 3]]
        mixed = image.astype(int) @ np.array(matrix).T
        wanted = gconv.filter((mixed % 256).astype(np.uint8), "identity", range="wrap")
        np.testing.assert_array_equal(gconv.filter(image, "identity", mix=matrix, range="wrap"), wanted)
        wanted = gconv.filter(np.clip(mixed, 0, 255).astype(np.uint8), "sobel_x", border="wrap")
        np.testing.assert_array_equal(gconv.filter(image, "sobel_x", mix=tuple(map(tuple, matrix)), border="wrap"), wanted)
        large = draw_image(random, (900, 1000, 4), np.uint16)  # of several strips
        matrix = random.normal(size=(4, 4))
        wanted = gconv.filter(np.clip(np.rint(large @ matrix.T), 0, 65535).astype(np.uint16), "gaussian:sigma=2")
        result = gconv.filter(large, "gaussian:sigma=2", mix=matrix)
        self.assertLessEqual(np.abs(result.astype(int) - wanted).max(), 1)
        for wrong in ([[1, 2]], "mix", [[1]] * 2, [[[1]]], np.ones((5, 5)), [[float("nan")]]):
            with self.assertRaises(gconv.ArgumentError):
                gconv.filter(image, "identity", mix=wrong)
        for size in (1, 2, 4):  # no channel becomes 0 without a word
            with self.assertRaisesRegex(gconv.ArgumentError, f"mixes {size} channels, and the image has 3"):
                gconv.filter(image, "identity", mix=np.eye(size))
            with self.assertRaisesRegex(gconv.ArgumentError, f"mixes {size} channels"):
                gconv.Plan("identity", image.shape, mix=np.eye(size))
        for options in ({"gray": True}, {"linear": True}, {"dtype": "float32"}, {"alpha": "keep"}, {"axes": "CHW"}):
            with self.assertRaises(gconv.ArgumentError):
                gconv.filter(image if "alpha" not in options else large, "identity", mix=np.eye(3), **options)
        for options in ({"linear": True}, {"alpha": "premultiply"}, {"alpha": "filter"}):
            with self.assertRaises(gconv.ArgumentError):
                gconv.filter(large, "identity", range="wrap", **options)

    def test_other_types_are_converted(self):
        random = np.random.default_rng(7)
        kernel = draw_kernel(random, 3, 3)
        for dtype in (np.float16, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint32, np.uint64, bool):
            image = draw_image(random, (9, 12), dtype)
            floats = gconv.filter(image.astype(np.float32), kernel)
            result = gconv.filter(image, kernel)
            self.assertEqual(result.dtype, np.float32 if dtype is bool else dtype)
            wanted = floats if dtype is bool else round_to(dtype, floats).astype(dtype)
            np.testing.assert_array_equal(result, wanted, str(dtype))
            out = np.empty_like(result)
            self.assertIs(gconv.filter(image, kernel, out=out), out)
            np.testing.assert_array_equal(out, result)
        with self.assertWarnsRegex(gconv.Warning, "hardly any apart"):
            gconv.filter(random.normal(1e6, 1e-3, (90, 120)), kernel)
        for numbers, words in ((np.linspace(0, 1e-50, 81), "too small"), (np.linspace(0, 1e300, 81), "too large"),
                               (np.full(81, 2 ** 24 + 1), "beyond 2.24")):
            for call in (lambda x: gconv.filter(x[0, 0], kernel), lambda x: gconv.conv2d(x, np.ones((1, 1, 3, 3), np.float32))):
                with self.assertWarnsRegex(gconv.Warning, words), np.errstate(over="ignore"):
                    call(numbers.reshape(1, 1, 9, 9))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for high, spread in (1e6, 1e3), (0.1, 0):
                gconv.filter(random.normal(high, spread, (90, 120)), kernel)
        huge = np.full((3, 3), np.iinfo(np.int64).max)
        self.assertGreater(gconv.filter(huge, "identity").min(), 2 ** 62)  # saturated, not wrapped around
        self.assertEqual(gconv.filter(np.full((2, 2), np.iinfo(np.int32).min, np.int32), [[2]]).max(), np.iinfo(np.int32).min)


class Outputs(unittest.TestCase):
    def setUp(self):
        random = np.random.default_rng(8)
        self.image, self.kernel = draw_image(random, (20, 30, 3), np.uint8), draw_kernel(random, 3, 3)
        self.wanted = gconv.filter(self.image, self.kernel)

    def test_out_is_written_where_it_lies(self):
        whole = np.full((30, 40, 3), 7, np.uint8)
        for out in (np.empty_like(self.image), whole[2:22, 3:33], np.empty((20, 30, 4), np.uint8)[..., :3],
                    np.empty((3, 20, 30), np.uint8).transpose(1, 2, 0), np.empty((20, 30, 3), np.uint8)[:, ::-1]):
            self.assertIs(gconv.filter(self.image, self.kernel, out=out), out)
            np.testing.assert_array_equal(out, self.wanted)
        self.assertTrue((whole[:2] == 7).all() and (whole[:, 33:] == 7).all())

    def test_out_that_does_not_fit_is_refused(self):
        read_only = np.empty_like(self.image)
        read_only.flags.writeable = False
        for out, text in ((read_only, "read-only"), (np.empty((20, 30), np.uint8), "shape"),
                          (np.empty(self.image.shape, np.uint16), "type"), (self.image, "overlap"),
                          (self.image[:, ::-1], "overlap"), ([1], "array"), (np.empty((0, 30, 3), np.uint8), "no samples"),
                          (np.empty(self.image.shape, ">u2"), "big-endian"), (np.empty(self.image.shape, object), "type")):
            with self.assertRaisesRegex(gconv.ArgumentError, text):
                gconv.filter(self.image, self.kernel, out=out)
        buffer = np.zeros((21, 30, 3), np.uint8)
        with self.assertRaisesRegex(gconv.ArgumentError, "overlap"):
            gconv.filter(buffer[:-1], self.kernel, out=buffer[1:])

    def test_outputs_that_overlap_are_refused(self):
        whole = np.empty((21, 30, 3), np.uint8)
        wide = self.image.astype(np.float64)
        for image, outs in ((self.image, (whole[1:], whole[1:])), (self.image, (whole[1:], whole[:-1])), (wide, (wide.copy(),) * 2)):
            with self.assertRaisesRegex(gconv.ArgumentError, "memory of its own"):
                gconv.filter(image, ["sobel_x", "sobel_y"], out=outs)

    def test_tuple_of_outputs(self):
        outs = tuple(np.empty_like(self.image) for _ in range(2))
        results = gconv.filter(self.image, ["sobel_x", "sobel_y"], out=outs)
        self.assertIs(results[1], outs[1])
        for wrong in (outs[:1], outs[0]):
            with self.assertRaisesRegex(gconv.ArgumentError, "tuple"):
                gconv.filter(self.image, ["sobel_x", "sobel_y"], out=wrong)


class Plans(unittest.TestCase):
    def test_plan_does_what_filter_does(self):
        random = np.random.default_rng(9)
        for shape, axes in (((9, 12), None), ((9, 12, 3), None), ((5, 9, 12), "CHW"), ((2, 3, 9, 12), "NCHW")):
            for dtype in TYPES:
                plan = gconv.Plan("gaussian:sigma=1", shape, dtype, axes=axes, border="wrap")
                for _ in range(3):
                    image = draw_image(random, shape, dtype)
                    wanted = gconv.filter(image, "gaussian:sigma=1", axes=axes, border="wrap")
                    np.testing.assert_array_equal(plan(image), wanted)
                    np.testing.assert_array_equal(plan(image[::-1]), gconv.filter(image[::-1], "gaussian:sigma=1", axes=axes,
                                                                                  border="wrap"))
                self.assertEqual(plan.info["device"], "cpu")
                self.assertIn("algorithm", plan.explain())

    def test_plan_refuses_what_it_was_not_made_for(self):
        plan = gconv.Plan([[1, 2], [3, 4]], (9, 12), "uint8")
        for wrong in (np.zeros((9, 13), np.uint8), np.zeros((9, 12), np.uint16), np.zeros((9, 12, 1), np.uint8)):
            with self.assertRaisesRegex(gconv.ArgumentError, "the plan is for"):
                plan(wrong)
        for wrong in ([[1, 2], [3, 4]], None, "photo.jpg"):
            with self.assertRaisesRegex(gconv.ArgumentError, "no array"):
                plan(wrong)
        with self.assertRaises(TypeError):
            gconv.Plan("gaussian", (9, 12), bordr="wrap")
        for shape, axes in (((9,), None), ((9, 0), None), ((9, 12), "HWC"), ((9, 12), "CH"), ((9, 12, 3), "HWH"), ((9, 12, 3), "HWX"),
                            (9, None), (None, None), ((9.5, 12), None), ((2 ** 40, 12), None)):
            with self.assertRaises(gconv.ArgumentError, msg=f"{shape} {axes}"):
                gconv.Plan("gaussian", shape, axes=axes)


class Copies(unittest.TestCase):
    """What goes to other processes, and is copied."""

    def test_filters_and_plans_are_pickled(self):
        image = draw_image(np.random.default_rng(11), (9, 12), np.float32)
        one = gconv.Filter([[1, 2], [3, 4]], name="mine", anchor=(0, 1), divisor=3, offset=1)
        for send in (lambda thing: pickle.loads(pickle.dumps(thing)), copy.deepcopy, copy.copy):
            found = send(one)
            self.assertEqual((found, found.name), (one, one.name))
            both = send(gconv.read_filters("sobel"))
            self.assertTrue(both.gradient)
            self.assertEqual(both, gconv.read_filters("sobel"))
            plan = gconv.Plan(one, (9, 12), "float32", border="wrap", stride=(1, 2), result="uint8")
            np.testing.assert_array_equal(send(plan)(image), plan(image))
        self.assertIn("mine: (9, 12) of float32 on cpu", repr(plan))

    def test_places_that_are_no_taps(self):
        """They let no NaN through, in filters that were read, copied and pickled; a -0 of the caller is a tap of 0."""
        image = np.random.default_rng(3).random((9, 9), np.float32)
        image[4, 4] = np.nan
        identity = gconv.read_filters("identity:size=5")[0]
        line = np.full((3, 3), -0.0)
        line[1, 1] = 1
        for kernel, count in (("identity:size=5", 1), (identity, 1), (pickle.loads(pickle.dumps(identity)), 1), (line, 9), (gconv.Filter(line), 9),
                              (gconv.Filter(line, marked=True), 1), (gconv.Filter(-1 * identity.taps), 25)):
            self.assertEqual(np.isnan(gconv.filter(image, kernel)).sum(), count)
        self.assertNotEqual(gconv.Filter(line), gconv.Filter(line, marked=True))


if __name__ == "__main__":
    unittest.main()
