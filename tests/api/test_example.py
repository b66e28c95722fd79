# SPDX-License-Identifier: MIT
"""The example of the documentation, compiled as C11 and as C++, does what it says; the public headers need nothing besides
themselves. What is installed may be moved, and is found there by pkg-config and by CMake."""
import glob
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

GCONV = os.environ["GCONV"]
SOURCE = os.environ["GCONV_SOURCE_FOLDER"]


class Example(unittest.TestCase):
    def check(self, program):
        photo = os.path.join(SOURCE, "images", "coffee.jpg")
        sobel = os.path.join(SOURCE, "filters", "sobel_x.txt")
        with tempfile.TemporaryDirectory() as folder:
            expected = os.path.join(folder, "expected.png")
            subprocess.run([GCONV, "-i", photo, "-f", sobel, "-o", expected], check=True)
            once, twice = (os.path.join(folder, name) for name in ("once.png", "twice.png"))
            subprocess.run([program, sobel, photo, once, photo, twice], check=True)
            content = [open(path, "rb").read() for path in (expected, once, twice)]
            self.assertGreater(len(content[0]), 1000)
            self.assertEqual(content[0], content[1])
            self.assertEqual(content[0], content[2])
            subprocess.run([GCONV, "-i", photo, "-f", "sobel", "-o", expected], check=True)  # two filters, one image
            subprocess.run([program, "sobel", photo, once, photo, twice], check=True)
            self.assertEqual(*(open(path, "rb").read() for path in (expected, twice)))
            wrong = subprocess.run([program, sobel, "missing.png", once, photo, twice], capture_output=True, text=True)
            self.assertEqual(wrong.returncode, 1)
            self.assertIn("missing.png", wrong.stderr)

    def test_c11(self):
        self.check(os.environ["GCONV_EXAMPLE_C"])

    def test_cxx(self):
        if "GCONV_EXAMPLE_CXX" not in os.environ:
            self.skipTest("no C++ compiler")
        self.check(os.environ["GCONV_EXAMPLE_CXX"])


CONSUMER = """cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C)
find_package(gconv 0.1 REQUIRED)
add_executable(consumer ${EXAMPLE})
target_link_libraries(consumer PRIVATE gconv::gconv)
"""


def public_functions():
    """What the public headers declare."""
    found = set()
    for name in glob.glob(os.path.join(SOURCE, "src", "gconv*.h")):
        with open(name) as header:
            text = re.sub(r"/\*.*?\*/", "", header.read(), flags=re.DOTALL)
        found |= set(re.findall(r"^(?!typedef\b)\w[\w *]*?\b(gconv_\w+)\(", text, re.MULTILINE))
    return found


class Installed(unittest.TestCase):
    """What is installed works wherever it stands: here it is moved elsewhere before it is used."""

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory(prefix="gconv-")
        cls.addClassCleanup(cls.work.cleanup)
        first, cls.tree = os.path.join(cls.work.name, "first"), os.path.join(cls.work.name, "moved to")
        subprocess.run([os.environ["CMAKE"], "--install", os.environ["GCONV_BUILD"], "--prefix", first], check=True,
                       stdout=subprocess.DEVNULL)
        os.rename(first, cls.tree)
        cls.lib = os.path.dirname(os.path.dirname(glob.glob(f"{cls.tree}/lib*/**/pkgconfig/gconv.pc", recursive=True)[0]))
        cls.shared = os.path.exists(os.path.join(cls.lib, "libgconv.so"))
        cls.flags = os.environ["GCONV_LINK_FLAGS"].split()

    def run_example(self, program):
        """The example filters a photo as the installed program does."""
        photo = os.path.join(SOURCE, "images", "coffee.jpg")
        expected, result = (os.path.join(self.work.name, name) for name in ("expected.png", "result.png"))
        subprocess.run([os.path.join(self.tree, "bin", "gconv"), "-i", photo, "-f", "sobel_x", "-o", expected], check=True)
        environment = {**os.environ, "LD_LIBRARY_PATH": self.lib}
        subprocess.run([program, "sobel_x", photo, result, photo, result], check=True, env=environment)
        with open(expected, "rb") as one, open(result, "rb") as other:
            self.assertEqual(one.read(), other.read())
        linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True, env=environment).stdout
        self.assertEqual("libgconv.so" in linked, self.shared, linked)

    def test_files(self):
        # A gconv.h in include/ itself would replace that of the C library in /usr.
        self.assertEqual(os.listdir(os.path.join(self.tree, "include")), ["gconv"])
        for name in ("bin/gconv", "include/gconv/gconv.hpp", "share/gconv/filters/gabor_bank.txt", *(os.path.join("include", "gconv", os.path.basename(name)) for name in glob.glob(os.path.join(SOURCE, "src", "gconv*.h"))),
                     "share/man/man1/gconv.1", "share/bash-completion/completions/gconv", "share/zsh/site-functions/_gconv", "share/fish/vendor_completions.d/gconv.fish",
                     "share/doc/gconv/LICENSE", "share/doc/gconv/README.md", "share/doc/gconv/CHANGELOG.md",
                     "share/doc/gconv/docs/guide.md", "share/doc/gconv/docs/example.c", "share/doc/gconv/images/coffee.jpg"):
            self.assertTrue(os.path.exists(os.path.join(self.tree, name)), name)
        self.assertFalse(os.path.exists(os.path.join(self.tree, "share/doc/gconv/docs/lab")))

    def test_uninstall(self):
        """What the manifest names is removed, and empty folders of gconv; nothing else."""
        with tempfile.TemporaryDirectory() as build:
            kept, gone = (os.path.join(build, "tree", name) for name in ("bin/other", "share/gconv/filters/a.txt"))
            for path in kept, gone:
                os.makedirs(os.path.dirname(path))
                open(path, "w").close()
            with open(os.path.join(build, "install_manifest.txt"), "w") as manifest:
                manifest.write(f"{gone}\n{build}/tree/gone/before\n")
            subprocess.run(["cmake", f"-DBUILD={build}", "-P", os.path.join(SOURCE, "src", "uninstall.cmake")], check=True, stdout=subprocess.DEVNULL)
            self.assertEqual((os.path.exists(kept), os.listdir(os.path.join(build, "tree", "share"))), (True, []))

    def test_no_file_names_its_first_place(self):
        for path in glob.glob(f"{self.lib}/pkgconfig/*") + glob.glob(f"{self.lib}/cmake/gconv/*"):
            with open(path) as file:
                text = file.read()
            for place in os.path.join(self.work.name, "first"), os.environ["GCONV_BUILD"], SOURCE:
                self.assertNotIn(place, text, path)

    def test_program_finds_its_filters(self):
        listed = subprocess.run([os.path.join(self.tree, "bin", "gconv"), "filters", "gabor_bank"], capture_output=True, text=True,
                                check=True, env={k: v for k, v in os.environ.items() if k != "GCONV_FILTERS"}).stdout
        self.assertIn(self.tree, listed)

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config")
    def test_pkg_config(self):
        version = subprocess.run(["pkg-config", "--version"], capture_output=True, text=True, check=True).stdout
        if version.startswith("0."):
            self.skipTest("this pkg-config, before pkgconf took its place, divides folders at blanks")
        environment = {**os.environ, "PKG_CONFIG_PATH": os.path.join(self.lib, "pkgconfig")}
        words = ["--cflags", "--libs", *([] if self.shared else ["--static"]), "gconv"]
        found = subprocess.run(["pkg-config", *words], capture_output=True, text=True, env=environment)
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        program = os.path.join(self.work.name, "by-pkg-config")
        subprocess.run([os.environ["CC"], "-std=c11", "-Werror", "-include", "gconv/gconv_embed.h", "-include", "gconv/gconv_jobs.h", "-include", "gconv/gconv_learn.h", "-include", "gconv/gconv_classify.h", "-include", "gconv/gconv_science.h",
                        os.path.join(SOURCE, "docs", "example.c"), "-o", program, *shlex.split(found.stdout), *self.flags], check=True)
        self.run_example(program)

    def test_find_package(self):
        folder = os.path.join(self.work.name, "consumer")
        os.mkdir(folder)
        with open(os.path.join(folder, "CMakeLists.txt"), "w") as file:
            file.write(CONSUMER)
        flags = " ".join(self.flags)
        for words in (["-S", folder, "-B", f"{folder}/build", f"-DCMAKE_PREFIX_PATH={self.tree}", f"-DCMAKE_EXE_LINKER_FLAGS={flags}",
                       f"-DEXAMPLE={SOURCE}/docs/example.c", f"-DCMAKE_C_COMPILER={os.environ['CC']}"],
                      ["--build", f"{folder}/build"]):
            done = subprocess.run([os.environ["CMAKE"], *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.run_example(f"{folder}/build/consumer")

    def test_shared_library_shows_the_public_functions_alone(self):
        if not self.shared:
            self.skipTest("a static library: -DBUILD_SHARED_LIBS=ON builds the other")
        version = subprocess.run([GCONV, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        name = os.path.join(self.lib, "libgconv.so")
        self.assertEqual(os.path.basename(os.path.realpath(name)), f"libgconv.so.{version}")
        dynamic = subprocess.run(["readelf", "-d", name], capture_output=True, text=True, check=True).stdout
        self.assertIn("soname: [libgconv.so.0]", dynamic)
        shown = subprocess.run(["nm", "-D", "--defined-only", name], capture_output=True, text=True, check=True).stdout
        expected = {"LIBGCONV_0", *(f"{function}@@LIBGCONV_0" for function in public_functions())}
        self.assertEqual({line.split()[-1] for line in shown.splitlines()}, expected)


if __name__ == "__main__":
    unittest.main()
