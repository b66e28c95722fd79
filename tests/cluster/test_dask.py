# SPDX-License-Identifier: MIT
"""docs/cluster/dask_folder.py on a cluster of workers that Dask starts on this machine."""
import sys
import unittest

from cluster_helper import FILTER, OPTIONS, SOURCE, ClusterTest

try:
    import dask.distributed  # noqa: F401
except ImportError:
    print("skipped: Dask's distributed is not installed (python3-distributed)")
    sys.exit(77)


class Dask(ClusterTest):
    def test_folder(self):
        self.prepare(24)
        words = [sys.executable, SOURCE / "docs" / "cluster" / "dask_folder.py", "--parts", "6", "photos", "results", FILTER]
        self.run_file(*words, *OPTIONS)
        self.check_results(6)
        self.assertIn("which is all", self.run_file(*words, *OPTIONS))

    def test_part_that_fails(self):
        self.prepare(4)
        program = SOURCE / "docs" / "cluster" / "dask_folder.py"
        self.run_file(sys.executable, program, "--parts", "2", "photos", "results", "no_filter", status=1,
                      expected="part 2 of 2: gconv ended with 2: .*no_filter")


if __name__ == "__main__":
    unittest.main()
