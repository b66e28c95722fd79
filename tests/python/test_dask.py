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


def blur(block):
    import gconv as package
    return package.filter(block, "gaussian:size=9,sigma=2")


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
