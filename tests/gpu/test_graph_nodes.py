# SPDX-License-Identifier: MIT
"""The tests of kinds of nodes (tests/graph), computed by a GPU."""
import os
import pathlib
import sys
import unittest

os.environ["GCONV_GRAPH_DEVICE"] = "cuda"
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "graph"))
from test_devices import SKIPPED, has_gpu  # noqa: E402
import test_fuse  # noqa: E402
from test_nodes import Nodes  # noqa: E402, F401
from test_onnx_cases import Graphs, Kinds  # noqa: E402, F401


class Tails(test_fuse.Fuse):
    test_groups_without_reshaping = test_tiles = None  # what the CPU alone does


if __name__ == "__main__":
    sys.exit(SKIPPED) if not has_gpu() else unittest.main()
