# SPDX-License-Identifier: MIT
"""gconv.filter() mapped over chunks by Dask, on processes of a LocalCluster."""
import os
import sys
import unittest

from helper import SKIPPED, draw_image, gconv, np

try:
    import dask.array
    import distributed
except ImportError:
    print("skipped: Dask with its distributed scheduler is not installed")
    raise SystemExit(SKIPPED)
import gconv.dask


def blur(block):
    import gconv as package
    return package.filter(block, "gaussian:size=9,sigma=2")


class Chunks(unittest.TestCase):
    """gconv.filter of an array of Dask is one that computes what the whole array would be."""

    def test_filter_of_dask(self):
        random = np.random.default_rng(2)
        for shape, axes, chunks in (((90, 120), None, (40, 50)), ((50, 60, 3), None, (30, 20, 2)), ((3, 40, 50), "CHW", (1, 30, 20)),
                                    ((2, 3, 40, 50), None, (1, 3, 25, 20))):
            for dtype in (np.uint8, np.float32, np.int16, bool):
                image = draw_image(random, shape, dtype)
                for kernel, options in (("gaussian:size=9,sigma=2", {}), ("sobel", {"border": "reflect101"}),
                                        (random.normal(size=(4, 7)), {"border": "wrap", "flip": True}),
                                        (["sobel_x", "sobel_y"], {"border": "symmetric", "dilation": 2}),
                                        ("gaussian", {"dtype": "float32", "border": "constant", "border_value": 0.5})):
                    wanted = gconv.filter(image, kernel, axes=axes, **options)
                    found = gconv.filter(dask.array.from_array(image, chunks=chunks), kernel, axes=axes, **options)
                    for one, lazy in zip(*(each if isinstance(each, tuple) else (each,) for each in (wanted, found))):
                        self.assertIsInstance(lazy, dask.array.Array)
                        self.assertEqual((lazy.dtype, lazy.shape), (one.dtype, one.shape))
                        level = 1 if one.dtype.kind in "iu" else 2e-6 * max(1, np.abs(one).max())  # other chunks, other algorithms
                        np.testing.assert_allclose(lazy.compute().astype(float), one.astype(float), atol=level)
        lazy = dask.array.from_array(image, chunks=chunks)
        for wrong in ({"stride": 2}, {"range": "minmax"}, {"combine": "stack"}, {"padding": "valid"}, {"gray": True},
                      {"weights": np.ones((40, 50))}):
            with self.assertRaises(gconv.UnsupportedError):
                gconv.filter(lazy, "gaussian", **wrong)
        self.assertEqual(gconv.dask.reach("gaussian:size=9"), (4, 4))

    def test_missing_samples_are_left_out(self):
        image = draw_image(np.random.default_rng(4), (40, 60), np.float32)
        image[5:9, 20:30] = np.nan
        for array, options in ((image, {"nan": "skip"}), (image, {"nan": "fill", "least_weight": 0.1}),
                               (image, {"preserve_nan": True}),
                               (draw_image(np.random.default_rng(5), (40, 60), np.uint8) // 64, {"nodata": 0})):
            found = gconv.filter(dask.array.from_array(array, chunks=(20, 25)), "gaussian:size=9", **options).compute()
            wanted = gconv.filter(array, "gaussian:size=9", **options)
            np.testing.assert_allclose(found.astype(float), wanted.astype(float), atol=1 if array.dtype == np.uint8 else 2e-6)

    def test_names_of_xarray_stay(self):
        try:
            import xarray
        except ImportError:
            self.skipTest("xarray is not installed")
        image = draw_image(np.random.default_rng(3), (30, 40), np.float32)
        array = xarray.DataArray(image, dims=("y", "x"), coords={"x": np.arange(40) / 2}, attrs={"unit": "m"})
        for one in (array, array.chunk({"y": 10})):
            found = gconv.filter(one, "gaussian")
            self.assertEqual((found.dims, found.attrs), (array.dims, array.attrs))
            np.testing.assert_array_equal(found.x, array.x)
            np.testing.assert_allclose(found.data, gconv.filter(image, "gaussian"), atol=1e-6)


class Clusters(unittest.TestCase):
    def test_chunks_with_overlap_are_the_whole(self):
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # of the workers
        image = draw_image(np.random.default_rng(1), (200, 300), np.uint8)
        chunks = dask.array.from_array(image, chunks=(64, 100))
        with distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster, \
                distributed.Client(cluster):
            result = dask.array.map_overlap(blur, chunks, depth=4, boundary=0, dtype=np.uint8).compute()
        np.testing.assert_array_equal(result, blur(image))


if __name__ == "__main__":
    unittest.main()
