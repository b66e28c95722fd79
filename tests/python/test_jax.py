# SPDX-License-Identifier: MIT
"""Arrays of JAX in memory of the host."""
import unittest

from helper import SKIPPED, draw_image, gconv, np

try:
    import jax
except ImportError:
    print("skipped: JAX is not installed")
    raise SystemExit(SKIPPED)


class Arrays(unittest.TestCase):
    def test_results_are_arrays_of_jax(self):
        random = np.random.default_rng(1)
        for dtype in (np.uint8, np.uint16, np.float32, np.float16, np.int32):
            image = draw_image(random, (9, 12, 3), dtype)
            result = gconv.filter(jax.numpy.asarray(image), "sharpen")
            self.assertIsInstance(result, jax.Array)
            self.assertEqual(result.dtype, dtype)
            np.testing.assert_array_equal(np.asarray(result), gconv.filter(image, "sharpen"))
        x, weight = random.random((2, 3, 9, 9)).astype(np.float32), random.random((4, 3, 3, 3)).astype(np.float32)
        result = gconv.conv2d(jax.numpy.asarray(x), jax.numpy.asarray(weight))
        self.assertIsInstance(result, jax.Array)
        np.testing.assert_array_equal(np.asarray(result), gconv.conv2d(x, weight))

    def test_out_of_jax_is_refused(self):
        image = jax.numpy.zeros((5, 5))
        with self.assertRaises(gconv.ArgumentError):
            gconv.filter(image, "sharpen", out=jax.numpy.zeros((5, 5)))


if __name__ == "__main__":
    unittest.main()
