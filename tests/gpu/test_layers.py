# SPDX-License-Identifier: MIT
"""ONNX's cases and random layers on a GPU: tests/peers/test_onnx_conv.py with another device."""
import os
import pathlib
import subprocess
import sys
import unittest

SKIPPED = 77  # as CTest takes it
os.environ["GCONV_TEST_DEVICE"] = "cuda"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
from test_onnx_conv import GCONV, Onnx, Random  # noqa: the device must be set before

if __name__ == "__main__":
    devices = subprocess.run([GCONV, "devices"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    if not any(line.startswith("cuda:") and "cannot be used" not in line for line in devices):
        sys.exit(SKIPPED)
    unittest.main()
