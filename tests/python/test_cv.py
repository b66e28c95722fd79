# SPDX-License-Identifier: MIT
"""gconv.cv against OpenCV, by random calls."""
import collections
import unittest
import warnings

from helper import LONG, draw_image, gconv, np

import cv2
import gconv.cv as ours
import gconv.ndimage
from gconv import _repeat

BORDERS = (cv2.BORDER_CONSTANT, cv2.BORDER_REPLICATE, cv2.BORDER_REFLECT, cv2.BORDER_REFLECT_101)
DEPTHS = {"uint8": (-1, cv2.CV_8U, cv2.CV_16S, cv2.CV_32F), "uint16": (-1, cv2.CV_16U, cv2.CV_32F),
          "int16": (-1, cv2.CV_16S, cv2.CV_32F), "float32": (-1, cv2.CV_32F)}


def draw(random, name):
    """(function's arguments behind src, options) of a random call."""
    depth, border = {}, {"borderType": int(random.choice(BORDERS))}
    odd = lambda most: int(random.integers(0, (most + 1) // 2)) * 2 + 1  # noqa: E731
    delta = {"delta": float(random.integers(-20, 20))} if random.integers(2) else {}
    scale = {"scale": float(random.choice((0.125, 0.5, 1, 2)))} if random.integers(2) else {}
    if name == "filter2D":
        rows, columns = random.integers(1, 8, 2)
        kernel = random.normal(size=(rows, columns)).astype(np.float32)
        kernel /= np.abs(kernel).sum()
        anchor = {"anchor": (int(random.integers(columns)), int(random.integers(rows)))} if random.integers(2) else {}
        return (kernel,), {**border, **delta, **anchor}, True
    if name == "sepFilter2D":
        lines = [random.normal(size=int(random.integers(1, 8))).astype(np.float32) for _ in range(2)]
        return tuple(line / np.abs(line).sum() for line in lines), {**border, **delta}, True
    if name == "GaussianBlur":
        size = (odd(15), odd(15)) if random.integers(2) else (0, 0)
        sigma = float(random.uniform(0.4, 4)) if size == (0, 0) or random.integers(2) else 0
        return (size, sigma), {**border, **({"sigmaY": float(random.uniform(0.5, 3))} if sigma and random.integers(2) else {})}, False
    if name in ("blur", "boxFilter"):
        size = tuple(int(v) for v in random.integers(1, 12, 2))
        more = {"normalize": bool(random.integers(2))} if name == "boxFilter" else {}
        anchor = {"anchor": tuple(int(random.integers(v)) for v in size)} if random.integers(2) else {}
        return (size,), {**border, **more, **anchor}, name == "boxFilter"
    if name == "Sobel":
        size = int(random.choice((1, 3, 5, 7)))
        orders = [(dx, dy) for dx in range(3) for dy in range(3) if dx + dy > 0 and max(dx, dy) < max(size, 3)]
        dx, dy = orders[random.integers(len(orders))]
        if size == 1:
            dx, dy = ((dx or 1), 0) if random.integers(2) else (0, (dy or 1))
        return (dx, dy), {**border, **delta, **scale, "ksize": size}, True
    if name == "Scharr":
        return ((1, 0) if random.integers(2) else (0, 1)), {**border, **delta, **scale}, True
    return (), {**border, **delta, **scale, "ksize": int(random.choice((1, 3, 5, 7)))}, True  # Laplacian


class Calls(unittest.TestCase):
    def test_random_calls(self):
        random = np.random.default_rng(1)
        names = ("filter2D", "sepFilter2D", "GaussianBlur", "blur", "boxFilter", "Sobel", "Scharr", "Laplacian")
        samples, off = collections.Counter(), collections.Counter()
        for case in range(2000 if LONG else 400):
            name = names[case % len(names)]
            dtype = (np.uint8, np.uint8, np.uint16, np.float32, np.int16)[random.integers(5)]
            channels = ((), (1,), (2,), (3,), (4,), (6,))[random.integers(6)]
            src = draw_image(random, (*random.integers(1, 50, 2), *channels), dtype)
            src = (src.astype(np.int32) - 16384).astype(np.int16) if dtype == np.int16 else src
            more, options, has_depth = draw(random, name)
            depth = (int(random.choice(DEPTHS[src.dtype.name])),) if has_depth else ()
            what = f"case {case}: {name} {src.shape} {src.dtype} {depth} {more} {options}"
            wanted = getattr(cv2, name)(src, *depth, *more, **options)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                result = getattr(ours, name)(src, *depth, *more, **options)
            self.assertEqual((result.shape, result.dtype), (wanted.shape, wanted.dtype), what)
            if result.dtype == np.float32:
                size = max(1.0, np.abs(wanted).max())
                np.testing.assert_allclose(result / size, wanted / size, atol=1e-6, rtol=0, err_msg=what)
                continue
            wrong = np.abs(result.astype(np.int64) - wanted)
            self.assertLessEqual(wrong.max(), 1, what)
            if src.dtype == np.uint8:
                samples[name] += wrong.size
                off[name] += np.count_nonzero(wrong)
        shares = {name: f"{off[name] / samples[name]:.6f}" for name in names}
        print(f"uint8: the share of samples that are off by one: {shares}")
        self.assertLessEqual(off["filter2D"], 1 + samples["filter2D"] / 10000)

    def test_int16_of_derivatives_is_opencvs(self):
        random = np.random.default_rng(11)
        for shape in ((1, 1), (7, 65), (33, 100, 3), (20, 31, 4)):
            src = random.choice(np.array((0, 1, 254, 255), np.uint8), shape)
            for call in (lambda m: m.Sobel(src, m.CV_16S, 1, 0), lambda m: m.Sobel(src, m.CV_16S, 0, 1, ksize=5, delta=-7),
                         lambda m: m.Sobel(src, m.CV_16S, 1, 1, ksize=7, scale=4), lambda m: m.Scharr(src, m.CV_16S, 0, 1, scale=0.5),
                         lambda m: m.Laplacian(src, m.CV_16S), lambda m: m.Laplacian(src, m.CV_16S, ksize=3),
                         lambda m: m.Laplacian(src, m.CV_16S, ksize=5, delta=3), lambda m: m.Sobel(src, m.CV_16S, 1, 0, ksize=9, scale=8),
                         lambda m: m.boxFilter(src, m.CV_16S, (9, 16), normalize=False)):
                result = call(ours)
                self.assertEqual(result.dtype, np.int16)
                np.testing.assert_array_equal(result, call(cv2))

    def test_nan_and_infinities(self):
        """OpenCV leaves out taps of 0, and those of derivatives in its own ways: NaN stands where OpenCV has it."""
        warnings.simplefilter("ignore", gconv.Warning)
        for worst in (np.nan, np.inf):
            src = draw_image(np.random.default_rng(5), (20, 30, 3), np.float32)
            src[9, 28, 2] = worst
            src[9, 9, 1] = src[0, 3, 0] = src[5, 29, 2] = worst
            for call in (lambda m: m.filter2D(src, -1, np.eye(3)), lambda m: m.filter2D(src, -1, np.float32([[1, 0, 2]])),
                         lambda m: m.Sobel(src, -1, 1, 0), lambda m: m.Sobel(src, -1, 1, 1, ksize=5), lambda m: m.Scharr(src, -1, 0, 1),
                         lambda m: m.Sobel(src[:, :29], -1, 1, 0), lambda m: m.Scharr(src[:, :29], -1, 1, 0), lambda m: m.Sobel(src, -1, 0, 2, ksize=5),
                         lambda m: m.Sobel(src, -1, 1, 0, ksize=7), lambda m: m.filter2D(src, -1, np.eye(12)), lambda m: m.filter2D(src, -1, np.zeros((3, 3))),
                         lambda m: m.Laplacian(src, -1, ksize=3), lambda m: m.filter2D(src, -1, np.float32([[0, 1, 0], [0, 0, -1]]), anchor=(2, 0)),
                         lambda m: m.Laplacian(src, -1), lambda m: m.GaussianBlur(src, (5, 5), 1), lambda m: m.filter2D(src, -1, np.ones((2, 3))),
                         lambda m: m.sepFilter2D(src, -1, np.float32([1, 0, 2]), np.float32([1, 0, 0]))):
                np.testing.assert_allclose(call(ours), call(cv2), atol=1e-5)

    def test_boxes_over_one_row_or_column(self):
        """OpenCV makes them one pixel high or wide, of means where the border is isolated, of Gaussians where it is none of zeros."""
        for shape in ((1, 20), (20, 1), (1, 1), (1, 9, 3)):
            src = draw_image(np.random.default_rng(6), shape, np.uint8)
            for border in (*BORDERS, *(border | cv2.BORDER_ISOLATED for border in BORDERS)):
                for call in (lambda m: m.blur(src, (3, 5), borderType=border), lambda m: m.boxFilter(src, -1, (5, 2), normalize=False, borderType=border),
                             lambda m: m.GaussianBlur(src, (5, 5), 1.5, borderType=border)):
                    self.assertLessEqual(np.abs(call(ours).astype(int) - call(cv2)).max(), 1, f"{shape} {border}")

    def test_dst(self):
        src = draw_image(np.random.default_rng(2), (20, 30, 3), np.uint8)
        dst = np.empty_like(src)
        self.assertIs(ours.blur(src, (3, 3), dst), dst)
        np.testing.assert_array_equal(dst, ours.blur(src, (3, 3)))
        same = src.copy()
        self.assertIs(ours.blur(same, (3, 3), same), same)  # in place, as OpenCV allows
        np.testing.assert_array_equal(same, dst)
        self.assertIsNot(ours.blur(src, (3, 3), np.empty((1, 2), np.uint8)), dst)

    def test_what_is_not_taken_goes_to_opencv_with_one_warning(self):
        src = np.random.default_rng(3).random((9, 9))
        with self.assertWarnsRegex(gconv.Warning, "float64"):
            np.testing.assert_array_equal(ours.Scharr(src, -1, 1, 0), cv2.Scharr(src, -1, 1, 0))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ours.Scharr(src, -1, 1, 0)
        with self.assertRaises(cv2.error), self.assertWarns(gconv.Warning):
            ours.blur(src.astype(np.float32), (3, 3), borderType=77)
        image = (src * 255).astype(np.uint8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for wrong in (lambda: ours.blur(image, (3, 3), "out"), lambda: ours.boxFilter(image, -1, (3, 3), normalize="no"), lambda: ours.GaussianBlur(image, (3, 3), "s")):
                self.assertRaises(cv2.error, wrong)
            for call in (lambda m: m.GaussianBlur(image, (3, 3), 1, sigmaY=np.nan), lambda m: m.GaussianBlur(image, (3, 3), None), lambda m: m.Sobel(image, -1, 1, None)):
                np.testing.assert_allclose(call(ours).astype(int), call(cv2).astype(int), atol=1)

    def test_calls_that_come_again(self):
        """A call goes straight to what the one before it did, and yields what it would yield by itself."""
        random, taps = np.random.default_rng(21), np.ones((3, 3), np.float32)
        calls = [lambda image, out: ours.GaussianBlur(image, (5, 5), 0, out), lambda image, out: ours.blur(image, (3, 3), out),
                 lambda image, out: ours.filter2D(image, -1, taps, out), lambda image, out: ours.filter2D(image, -1, taps, delta=3),
                 lambda image, out: ours.Sobel(image, -1, 1, 0, out), lambda image, out: ours.Laplacian(image, -1, dst=out),
                 lambda image, out: gconv.ndimage.gaussian_filter(image, 1.0, output=out),
                 lambda image, out: gconv.ndimage.sobel(image, output=out), lambda image, out: gconv.ndimage.convolve(image, taps, out)]
        gconv.clear_cache()
        for dtype in (np.uint8, np.float32, np.int16):
            for call in calls:
                for shape, holes in (((9, 14), False), ((9, 14), True), ((1, 14), False), ((9, 14), False)):
                    image = draw_image(random, shape, np.uint8).astype(dtype)
                    if holes and dtype == np.float32:
                        image[4, 5] = np.nan
                    taps = taps + np.float32(len(shape))  # the next call has others
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        again = [call(image, None), call(image, None)]
                        outside = np.zeros_like(image)
                        again.append(call(image, outside))
                        again.append(call(np.asfortranarray(image), None))
                        gconv.clear_cache()
                        wanted = call(image, None)
                    for one in again:
                        np.testing.assert_array_equal(one, wanted)
        image = draw_image(random, (9, 14), np.uint8)
        ours.blur(image, (3, 3))
        self.assertEqual(len(_repeat.kept), 1)
        np.testing.assert_array_equal(ours.blur(image, (3, 3), np.zeros_like(image)), ours.blur(image, (3, 3)))
        gconv.clear_cache()
        self.assertEqual(len(_repeat.kept), 0)

    def test_arguments_that_change_or_are_of_another_type_are_looked_at_again(self):
        gconv.clear_cache()

        class Taps:  # as a tensor of another library: known by its identity, with numbers that change
            def __array__(self, dtype=None, copy=None):
                return np.full((1, 1), self.factor, dtype)

        image, taps = draw_image(np.random.default_rng(3), (9, 14), np.uint8) // 4, Taps()
        for taps.factor in (1, 2, 3):
            np.testing.assert_array_equal(ours.filter2D(image, -1, taps), image * taps.factor)
        for factor in np.random.default_rng(3).random(9).tolist():  # an array of objects holds addresses
            ours.filter2D(image, -1, np.array([[factor]], object))
            ours.filter2D(image, -1, taps)
        self.assertEqual(len(_repeat.kept), 0)
        ours.blur(image, (3, 3), borderType=4)
        with self.assertRaises(cv2.error):
            ours.blur(image, (3, 3), borderType=4.0)
        gconv.clear_cache()

    def test_what_is_wrong(self):
        src = np.zeros((9, 9), np.uint8)
        for call in (lambda: ours.GaussianBlur(src, (4, 4), 1), lambda: ours.GaussianBlur(src, (0, 0), 0),
                     lambda: ours.Sobel(src, -1, 0, 0), lambda: ours.Sobel(src, -1, 1, 0, ksize=4),
                     lambda: ours.Scharr(src, -1, 1, 1), lambda: ours.Laplacian(src, -1, ksize=2),
                     lambda: ours.filter2D(src, -1, np.zeros((0, 3))), lambda: ours.blur(src, (0, 3)),
                     lambda: ours.filter2D(src, -1, np.ones((3, 3)), anchor=(3, 0)), lambda: ours.Sobel(src, -1, 3, 0, ksize=3)):
            with self.assertRaises(gconv.ArgumentError):
                call()


if __name__ == "__main__":
    unittest.main()
