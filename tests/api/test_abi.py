# SPDX-License-Identifier: MIT
"""Programs that are compiled go on with later libraries of the same number (docs/compatibility.md): abidiff, of libabigail,
compares what the headers declared at the last release, or at the revision $GCONV_ABI_BASE, with what they declare now."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
SOURCE = pathlib.Path(__file__).resolve().parents[2]
# Fields may be added where `reserved` was, and functions; an enumeration may get values at its end.
HARMLESS = re.compile(r"reserved|uint64_t\[\d\]|data member insertion|enumerator insertion")
HARM = re.compile(r"\[D\]|(?<!array )type size changed|(?<!and )offset changed|type name changed|deletion|removed|from value|parameter \d+ .*added")

if not shutil.which("abidiff"):
    print("skipped: abidiff of libabigail (abigail-tools) is not installed")
    sys.exit(SKIPPED)


def git(*arguments):
    return subprocess.run(["git", "-C", str(SOURCE), *arguments], capture_output=True, text=True).stdout


class Interface(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory(prefix="gconv-")
        self.addCleanup(self.work.cleanup)
        self.now = {path.name: path.read_text() for path in (SOURCE / "src").glob("gconv*.h")}

    def compile(self, name, headers):
        """A library with every function that headers declare; none does anything."""
        folder = pathlib.Path(self.work.name) / name
        folder.mkdir()
        for header, text in headers.items():
            (folder / header).write_text(text)
        text = re.sub(r"/\*.*?\*/", "", "".join(headers[header] for header in sorted(headers)), flags=re.DOTALL)
        functions = re.findall(r"^(?!typedef\b)(\w[\w *]*?\bgconv_\w+\([^()]*\))(?: GCONV_PRINTF\([^)]*\))?;", text, re.MULTILINE)
        self.assertGreater(len(functions), 100)
        program = [f'#include "{header}"' for header in sorted(headers)] + [f"{one} {{ __builtin_trap(); }}" for one in functions]
        library = folder / "libgconv.so"
        subprocess.run(["cc", "-std=c11", "-g", "-shared", "-fPIC", "-w", "-I", folder, "-x", "c", "-", "-o", library],
                       input="\n".join(program), text=True, check=True)
        return library

    def find_harm(self, before, after):
        report = subprocess.run(["abidiff", before, after], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
        self.assertEqual(report.returncode & 3, 0, report.stderr)
        return [line for line in report.stdout.splitlines() if HARM.search(line) and not HARMLESS.search(line)
                and not line.startswith(("Functions changes", "Variables changes"))]

    def change(self, header, pattern, replacement):
        text, count = re.subn(pattern, replacement, self.now[header], count=1, flags=re.DOTALL)
        self.assertEqual(count, 1, pattern)
        return {**self.now, header: text}

    def test_what_is_told_apart(self):
        before = self.compile("now", self.now)
        options = r"(\n} gconv_read_options;)"
        room = r"uint64_t reserved\[4\];" + options
        harmless = {"nothing": self.now,
                    "a field in the room for it": self.change("gconv_image.h", room, r"double later; uint64_t reserved[3];\1"),
                    "a function": self.change("gconv_status.h", r"(const char \*gconv_version)", r"int gconv_later(int);\n\1")}
        harmful = {"a field": self.change("gconv_image.h", options, r"double later;\1"),
                   "an order": self.change("gconv_image.h", r"bool again;(.*?)bool strip;", r"bool strip;\1bool again;"),
                   "a type": self.change("gconv_image.h", r"uint64_t max_bytes;", "double max_bytes;"),
                   "a value": self.change("gconv_filter.h", r"GCONV_BORDER_REPLICATE,", "GCONV_BORDER_NEW, GCONV_BORDER_REPLICATE,"),
                   "an argument": self.change("gconv_plan.h", r"void gconv_plan_free\(gconv_plan \*plan\)", "void gconv_plan_free(gconv_plan *plan, int how)"),
                   "no function": self.change("gconv_status.h", r"const char \*gconv_version\(void\);", "")}
        for name, headers in {**harmless, **harmful}.items():
            with self.subTest(name):
                self.assertEqual(bool(self.find_harm(before, self.compile(name, headers))), name in harmful)

    def test_since_the_release(self):
        tags = git("tag", "--list", "v*", "--sort=-version:refname").split()
        base = os.environ.get("GCONV_ABI_BASE") or (tags[0] if tags else None)
        if not base:
            self.skipTest("no version was released yet")
        number = r"set\(GCONV_ABI (\d+)\)"
        if re.search(number, git("show", f"{base}:CMakeLists.txt"))[1] != re.search(number, (SOURCE / "CMakeLists.txt").read_text())[1]:
            self.skipTest(f"the interface has another number than at {base}")
        paths = [path for path in git("ls-tree", "--name-only", base, "src/").split() if re.fullmatch(r"src/gconv\w*\.h", path)]
        headers = {pathlib.Path(path).name: git("show", f"{base}:{path}") for path in paths}
        self.assertEqual(self.find_harm(self.compile("base", headers), self.compile("now", self.now)), [],
                         f"programs that were compiled for {base} would go wrong: raise GCONV_ABI in CMakeLists.txt")


if __name__ == "__main__":
    unittest.main()
