# SPDX-License-Identifier: MIT
"""What includes jpeglib.h compiles with the headers of every libjpeg-turbo: Debian's are of version 62 (JPEG_LIB_VERSION), those
of Ubuntu of version 80."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["GCONV_BUILD"])


def commands():
    """The compiler's words for each source file that includes jpeglib.h, without what comes out."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if entry["file"].endswith(".c") and "<jpeglib.h>" in pathlib.Path(entry["file"]).read_text():
            words = shlex.split(entry["command"])
            at = words.index("-o")
            yield entry["file"], entry["directory"], [word for word in words[:at] + words[at + 2:] if word != "-c"]


class JpegVersions(unittest.TestCase):
    def headers(self, words, directory):
        """The headers of libjpeg that the compiler finds."""
        listed = subprocess.run([*words, "-M"], cwd=directory, capture_output=True, text=True, check=True).stdout
        return {path.name: path for path in map(pathlib.Path, re.findall(r"\S+/(?:jconfig|jpeglib|jmorecfg|jerror)\.h", listed))}

    def test_versions(self):
        found = list(commands())
        self.assertTrue(found)
        for file, directory, words in found:
            headers = self.headers(words, directory)
            self.assertIn("jconfig.h", headers)
            first_option = next(i for i, word in enumerate(words) if word.startswith("-"))
            for version in 62, 70, 80:
                with self.subTest(file=file, version=version), tempfile.TemporaryDirectory() as folder:
                    for name, path in headers.items():
                        text, count = re.subn(r"(#\s*define\s+JPEG_LIB_VERSION)\s+\d+", rf"\1 {version}", path.read_text())
                        self.assertEqual(count, int(name == "jconfig.h"), name)
                        (pathlib.Path(folder) / name).write_text(text)
                    done = subprocess.run([*words[:first_option], f"-I{folder}", *words[first_option:], "-fsyntax-only", "-Werror"], cwd=directory,
                                          capture_output=True, text=True)
                    self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
