# SPDX-License-Identifier: MIT
"""The examples of docs/python.md, one after the other, and the types of all that is public."""
import ast
import contextlib
import importlib
import importlib.util
import inspect
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import typing
import unittest
import warnings

from helper import draw_image, gconv, np

SOURCE = pathlib.Path(os.environ["GCONV_SOURCE_FOLDER"])


def is_there(name):
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


class Examples(unittest.TestCase):
    def test_all_examples_run(self):
        blocks = re.findall(r"^```python\n(.*?)^```$", (SOURCE / "docs" / "python.md").read_text(), re.MULTILINE | re.DOTALL)
        self.assertGreater(len(blocks), 8)
        random = np.random.default_rng(1)
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore", gconv.Warning)
            os.chdir(folder)
            try:
                os.makedirs("photos/more")
                photo = draw_image(random, (48, 64, 3), np.uint8)
                for name in ("photo.jpg", "photos/1.jpg", "photos/more/2.png"):
                    gconv.write(name, photo)
                names = {}
                for block in blocks:
                    needs = re.match(r"# needs ([\w.]+)\n", block)
                    if needs and not is_there(needs[1]):
                        continue
                    with self.subTest(block):
                        exec(compile(block, "docs/python.md", "exec"), names)
                np.testing.assert_array_equal(names["blurred"], names["same"])
                np.testing.assert_allclose(names["found"].taps.sum(), 1, atol=0.5)
                if "whole" in names:
                    plane = names["photo"][..., 0].astype(np.float32)
                    np.testing.assert_allclose(names["whole"], gconv.filter(plane, "gaussian:size=9,sigma=2"), rtol=1e-6)
            finally:
                os.chdir(before)


class Recipes(unittest.TestCase):
    def test_the_recipe_for_conda_is_of_this_version_and_names_files_that_are_there(self):
        recipe = (SOURCE / "docs" / "conda" / "recipe.yaml").read_text()
        version = re.search(r"project\(gconv VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        self.assertEqual(re.search(r"^  version: ([\d.]+)", recipe, re.MULTILINE)[1], version)
        for command in ("-DGCONV_CUDA=", "-DBUILD_SHARED_LIBS=", "cmake.define.GCONV_CUDA="):
            self.assertIn(command, recipe)
        with contextlib.suppress(ImportError):
            import yaml
            made = yaml.safe_load(recipe)
            self.assertTrue((SOURCE / "docs" / "conda" / made["source"]["path"] / made["about"]["license_file"]).is_file())
            for module in made["tests"][1]["python"]["imports"]:
                importlib.import_module(module)


MODULES = [importlib.import_module(name) for name in ("gconv", "gconv.kernels", "gconv.cv", "gconv.ndimage", "gconv.sklearn")
           if is_there(name)]


def public_functions():
    """(name, function) of all public functions and methods that are written as such."""
    for module in MODULES:
        for name in module.__all__:
            one = getattr(module, name)
            if inspect.isfunction(one):
                yield f"{module.__name__}.{name}", one
            own = [base for base in inspect.getmro(one) if base.__module__.startswith("gconv")] if inspect.isclass(one) else []
            for method, value in [item for base in own for item in vars(base).items()]:
                function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
                if inspect.isfunction(function) and (method[0] != "_" or method in ("__init__", "__call__")):
                    yield f"{module.__name__}.{name}.{method}", function


class Notebooks(unittest.TestCase):
    """What notebooks draw of filters, images, plans and jobs."""

    def check_png(self, png, height, width):
        self.assertEqual(gconv.decode(png).shape[:2], (height, width))

    def test_pictures(self):
        taps = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
        png = gconv.Filter(taps)._repr_png_()
        picture = gconv.decode(png)
        self.assertEqual([picture[80, at] for at in (20, 80, 140)], [1, 128, 255])
        self.check_png(png, 159, 159)
        self.check_png(gconv.read_filters("sobel")._repr_png_(), 159, 2 * 159 + 8)
        for image in (np.zeros((30, 40), bool), np.full((200, 300, 3), 9, np.uint16), np.full((5, 9), np.nan), np.arange(-9, 9).reshape(3, 6)):
            shown = gconv.show(image, stretch=image.dtype.kind == "f")
            times = max(1, 64 // max(image.shape[:2]))
            self.check_png(shown._repr_png_(), image.shape[0] * times, image.shape[1] * times)
            self.assertIn(str(image.dtype), repr(shown))
        self.assertEqual(gconv.decode(gconv.show(np.array([[0.5]]))._repr_png_())[0, 0], 128)
        self.assertEqual(gconv.decode(gconv.show(np.array([[-3, 5]]))._repr_png_())[0, -1], 255)
        for wrong in (np.zeros((2, 2, 7)), np.zeros(3), np.zeros((0, 3))):
            with self.assertRaises(gconv.ArgumentError):
                gconv.show(wrong)

    def test_tables(self):
        self.assertIn("<th>algorithm</th>", gconv.Plan("gaussian", (9, 9))._repr_html_())
        reports = []
        with tempfile.TemporaryDirectory() as folder:
            gconv.write(f"{folder}/a.png", np.zeros((9, 9), np.uint8))
            summary = gconv.run(f"{folder}/a.png", "gaussian", f"{folder}/b.png", progress=reports.append)
        self.assertIn("<th>written</th><td>1</td>", summary._repr_html_())
        self.assertIn("<th>kernel</th>", reports[0]._repr_html_())


class Types(unittest.TestCase):
    @unittest.skipIf(sys.version_info < (3, 10), "this Python cannot read the annotations")
    def test_everything_public_is_annotated(self):
        checked = 0
        for name, function in public_functions():
            if function.__module__ == "gconv.kernels" or "<string>" in function.__code__.co_filename:
                continue  # which have a stub; methods of dataclasses
            hints = typing.get_type_hints(function, localns=vars(gconv))
            missing = inspect.signature(function).parameters.keys() - hints.keys() - {"self", "cls"}
            self.assertEqual(missing, set(), name)
            self.assertIn("return", hints, name)
            checked += 1
        self.assertGreater(checked, 70)

    def test_the_stub_of_the_kernels_has_their_names_and_parameters(self):
        stub = pathlib.Path(gconv.__file__).parent / "kernels.pyi"
        if not stub.exists():
            self.skipTest("this build could not ask the extension for them")
        written = {node.name: node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.FunctionDef)}
        self.assertEqual(sorted(written), sorted(gconv.kernels.__all__))
        for name, node in written.items():
            made = getattr(gconv.kernels, name)
            self.assertEqual([one.arg for one in node.args.args], list(inspect.signature(made).parameters), name)
            self.assertIn(type(made()).__name__, ast.unparse(node.returns), name)

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_mypy_knows_right_calls_from_wrong_ones(self):
        calls = {"gconv.filter(image, 'sobel', border='wrap')": "", "gconv.filter(image, 'sobel', bordr='wrap')": "call-overload",
                 "gconv.read_filters('sobel')[0].taps.shape": "", "gconv.read_filters('sobel')[0].tap": "attr-defined",
                 "gconv.cv.Sobel(image, -1, 1, 0)": "", "gconv.cv.Sobel(image)": "call-arg",
                 "gconv.filter(image, 'sobel', border='wrp')": "call-overload", "gconv.filter(image, 'sobel').dtype": "",
                 "gconv.read('a.png').shape": "", "gconv.read('a.png', info=True).shape": "attr-defined",
                 "gconv.ndimage.sobel(image, mode='wrap')": "", "gconv.ndimage.sobel(image, axis='x')": "arg-type",
                 "gconv.kernels.gaussian(9, sigma=2).taps": "", "gconv.kernels.gaussian(width=9)": "call-arg"}
        with tempfile.TemporaryDirectory() as folder:
            text = "import numpy as np\nimport gconv, gconv.cv, gconv.ndimage\nimage = np.zeros((9, 9), np.uint8)\n"
            (pathlib.Path(folder) / "calls.py").write_text(text + "\n".join(calls) + "\n")
            place = os.path.dirname(os.path.dirname(os.path.abspath(gconv.__file__)))
            done = subprocess.run([sys.executable, "-m", "mypy", "--follow-imports=silent", "calls.py"], cwd=folder,
                                  capture_output=True, text=True, env={**os.environ, "MYPYPATH": place}, check=False)
        found = {int(number): kind for number, kind in re.findall(r"^calls\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)}
        self.assertEqual([found.get(number, "") for number, _ in enumerate(calls, 4)], list(calls.values()), done.stdout)

    def test_words_of_options_are_those_of_their_tables(self):
        from gconv import _filter, _layers, _learning, _types, ndimage
        for words, table in ((_types.Border, _filter.BORDERS), (_types.Range, _filter.RANGES), (_types.Alpha, _filter.ALPHAS),
                             (_types.Activation, _layers.ACTIVATIONS), (_types.Math, _layers.MATHS), (_types.SVMKernel, _learning.SVM_KERNELS), (_types.Mode, ndimage._MODES)):
            self.assertEqual(set(typing.get_args(words)), set(table))
        self.assertEqual({"none", *typing.get_args(_types.Combined)}, set(_filter.COMBINES))
        self.assertEqual(set(typing.get_args(typing.get_args(_types.Padding)[0])), set(_filter.PADDINGS))

    def check_examples(self, *checker):
        blocks = re.findall(r"^```python\n(.*?)^```$", (SOURCE / "docs" / "python.md").read_text(), re.MULTILINE | re.DOTALL)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "examples.py")
            path.write_text("\n".join(block for block in blocks if not block.startswith("# needs ")))
            place = os.path.dirname(os.path.dirname(os.path.abspath(gconv.__file__)))
            pathlib.Path(folder, "pyrightconfig.json").write_text(json.dumps({"extraPaths": [place]}))
            done = subprocess.run([sys.executable, "-m", *checker, path.name], cwd=folder, capture_output=True, text=True,
                                  env={**os.environ, "MYPYPATH": place}, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_mypy_passes_the_examples(self):
        self.check_examples("mypy", "--strict", "--follow-imports=silent")

    @unittest.skipUnless(importlib.util.find_spec("pyright"), "pyright is not installed")
    def test_pyright_passes_the_examples(self):
        self.check_examples("pyright", "--pythonpath", sys.executable)

    def test_everything_public_has_a_docstring(self):
        for module in MODULES:
            for one in module.__all__:
                self.assertTrue(inspect.getdoc(getattr(module, one)), f"{module.__name__}.{one}")


if __name__ == "__main__":
    unittest.main()
