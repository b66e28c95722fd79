# SPDX-License-Identifier: MIT
"""The headers as HTML (ninja doc): Doxygen warns of nothing, and each function of C has a comment."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
SETTINGS = pathlib.Path(os.environ["GCONV_BUILD"]) / "Doxyfile"
if not SETTINGS.exists():
    print("skipped: the build found no doxygen")
    sys.exit(SKIPPED)


class Documentation(unittest.TestCase):
    def run_doxygen(self, *settings):
        """What Doxygen complains of, with further settings; and the names of the pages."""
        with tempfile.TemporaryDirectory() as folder:
            text = "\n".join([SETTINGS.read_text(), f"OUTPUT_DIRECTORY = {folder}", *settings])
            done = subprocess.run(["doxygen", "-"], input=text, capture_output=True, text=True, check=True)
            return done.stderr.splitlines(), [page.name for page in pathlib.Path(folder, "html").glob("*.html")]

    def test_no_warning(self):
        complaints, pages = self.run_doxygen()
        self.assertEqual(complaints, [])
        self.assertIn("gconv__embed_8h.html", pages)
        self.assertIn("structgconv__control.html", pages)

    def test_each_function_has_a_comment(self):
        complaints, _ = self.run_doxygen("EXTRACT_ALL = NO")
        self.assertGreater(len(complaints), 50)  # fields whose names tell all
        self.assertEqual([line for line in complaints if "(function)" in line and "gconv.hpp" not in line], [])


if __name__ == "__main__":
    unittest.main()
