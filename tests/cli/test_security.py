#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SECURITY.md: its table of limits has every limit of the code, with its value, and its lists what the code has."""
import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ["GCONV_SOURCE_FOLDER"])
PAGE = (SOURCE / "SECURITY.md").read_text()
ROOMS = "base image filter bank graph operation conv layer feature data train svm fit names batch".split()

# Constants of such names that refuse no input: sizes of our own buffers and lists, and what is merely looked at, or left out.
NO_LIMITS = {
    "src/base/status.c": {"MOST_KINDS"}, "src/base/sink.c": {"MOST_TRIES"}, "src/base/source.c": {"MOST_NEXT"}, "src/image/png.c": {"MOST_CHUNK"}, "src/image/reader.c": {"MOST_SNIFFED"}, "src/image/tiff_reading.h": {"GCONV_TIFF_MOST_PLANES"},
    "src/image/exr_write.c": {"MOST_CHUNKS"}, "src/image/png_encode.c": {"MOST_MEMORY"}, "src/image/png_deflate.c": {"MOST_MATCHES", "MOST_TOKENS"}, "src/image/png_write.c": {"MOST_BYTES"}, "src/image/png_metadata.c": {"MOST_BYTES"},
    "src/filter/vips.c": {"MAX_DIGITS"}, "src/filter/analysis.c": {"MAX_ANALYSED", "MAX_SWEEPS"}, "src/filter/opencv.c": {"MOST_BYTES"},
    "src/operation/pick.h": {"GCONV_MOST_CANDIDATES"}, "src/conv/problem.c": {"LARGEST_BLOCK"}, "src/conv/plan_execute.c": {"MOST_REACH"},
    "src/conv/losses.c": {"MOST_COMPUTED"}, "src/batch/worth.c": {"MOST_HEADERS"}, "src/batch/cost.c": {"MOST_WRITERS"},
    "src/data/field.c": {"MOST_EXACT_DIGITS"}, "src/data/match.c": {"MOST_SHOWN"}, "src/image/image.c": {"MOST_BYTES"}, "src/base/npy_header.c": {"MOST_DIGITS"},
    "src/layer/graph_step.c": {"MOST_RESULTS", "LARGEST_MULTIPLE"}, "src/graph/plan.c": {"MOST_FOLDED", "MOST_FOLDED_TOGETHER"}, "src/graph/tile_reach.c": {"MOST_STRIDE"}, "src/graph/rolling.c": {"MOST_ROWS", "MOST_WASTE"}, "src/graph/kind_product.c": {"MOST_PANELS"},
    "src/bank/onnx_node.c": {"MOST_TEXT"}, "src/graph/call.c": {"MOST_KNOWN"}, "src/graph/image.c": {"MOST_CHANNELS"}, "src/graph/kind_resize.c": {"MOST_TIMES"}, "src/layer/passes.c": {"MOST_BYTES"}, "src/image/npy.c": {"MOST_COLOURS"}, "src/bank/network_json.c": {"MOST_KINDS"}, "src/bank/network_state_modules.c": {"MOST_DIGITS"}, "src/conv/plan.c": {"MOST_HALF_LEVELS"}, "src/names/search.h": {"GCONV_MOST_KINDS"}, "src/fit/solve.c": {"MOST_STEPS", "LARGEST_CONDITION"}, "src/batch/devices.c": {"MOST_GPUS"}, "src/batch/strips.c": {"MOST_SLOTS"}, "src/batch/cost.h": {"GCONV_MOST_WINDOWS"},
}


def without_comments(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)


class Security(unittest.TestCase):
    rows = re.findall(r"(?m)^\| `(\w+)` \| ([^|]+) \| [^|]+ \| (\S+) \|$", PAGE)

    def test_values(self):
        self.assertGreater(len(self.rows), 25)
        for name, value, path in self.rows:
            text = without_comments(SOURCE / path)
            found = re.search(rf"\b{name}(?: = | \(UINT64_C\()([^,;}}\n]+)", text)
            self.assertTrue(found, f"{name} is not in {path}")
            self.assertEqual(found[1].replace("UINT64_C", "").strip("() \n").replace(") ", " "), value.strip(), f"{name} in {path}")

    def test_all_limits_are_listed(self):
        listed = {(path, name) for name, _, path in self.rows}
        for room in ROOMS:
            for path in sorted((SOURCE / "src" / room).glob("*.[ch]")):
                name = str(path.relative_to(SOURCE))
                for constant in re.findall(r"\b((?:\w+_)?(?:MAX|MOST|LARGEST)_\w+) = ", without_comments(path)):
                    self.assertTrue((name, constant) in listed or constant in NO_LIMITS.get(name, ()),
                                    f"{constant} of {name} is neither in the table of SECURITY.md nor among those that refuse no input")

    def test_variables_are_listed(self):
        read = set()
        for path in [*(SOURCE / "src").rglob("*.c"), *(SOURCE / "kernels").rglob("*.c")]:
            read.update(re.findall(r'getenv\("(GCONV_\w+)"\)', path.read_text()))
        self.assertEqual(read - set(re.findall(r"GCONV_[A-Z_]+", PAGE)), set())


if __name__ == "__main__":
    unittest.main()
