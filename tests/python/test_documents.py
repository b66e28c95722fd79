# SPDX-License-Identifier: MIT
"""The examples of docs/python.md, one after the other, and the stubs, which have the names and parameters of the modules."""
import ast
import contextlib
import importlib
import importlib.util
import inspect
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

from helper import draw_image, gconv, np

SOURCE = pathlib.Path(os.environ["GCONV_SOURCE_FOLDER"])


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
                    needs = re.match(r"# needs (\w+)\n", block)
                    if needs and importlib.util.find_spec(needs[1]) is None:
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


def parameters_of_stub(function):
    arguments = function.args
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return names + [one.arg for one in (arguments.vararg, arguments.kwarg) if one]


class Stubs(unittest.TestCase):
    def compare(self, function, stub, what):
        names = list(inspect.signature(function).parameters)
        self.assertEqual([name for name in parameters_of_stub(stub) if name not in ("self", "cls")],
                         [name for name in names if name not in ("self", "cls")], what)

    def test_stubs_have_the_names_and_parameters_of_the_modules(self):
        for name in ("gconv", "gconv.kernels", "gconv.cv", "gconv.ndimage"):
            module = importlib.import_module(name)
            path = pathlib.Path(inspect.getfile(module)).with_suffix(".pyi")
            stub = ast.parse(path.read_text())
            functions = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
            classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
            bound = {alias.asname or alias.name for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
            self.assertEqual(set(module.__all__) - functions.keys() - classes.keys() - bound, set(), name)
            for one, node in functions.items():
                self.compare(getattr(module, one), node, f"{name}.{one}")
            for one, node in classes.items():
                for method in node.body:
                    is_property = isinstance(method, ast.FunctionDef) and isinstance(getattr(getattr(module, one), method.name, None),
                                                                                    property)
                    if isinstance(method, ast.FunctionDef) and not is_property:
                        self.compare(getattr(getattr(module, one), method.name), method, f"{name}.{one}.{method.name}")

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_stubs_agree_with_the_modules_by_stubtest(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            own = [path.stem for path in (SOURCE / "src/python/gconv").glob("_[a-z]*.py")]
            (folder / "mypy.ini").write_text("[mypy]\n" + "".join(f"[mypy-gconv.{name}]\nignore_errors = True\n"
                                                                  for name in (*own, "torch")))
            # What has no stub; PyTorch, which need not be there; a subclass of tuple, of which stubs cannot say all.
            (folder / "others").write_text("gconv\\._.*\ngconv\\.torch.*\ngconv\\.Filters\n")
            place = os.path.dirname(os.path.dirname(os.path.abspath(gconv.__file__)))
            done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "gconv", "--concise", "--mypy-config-file", "mypy.ini",
                                   "--allowlist", "others", "--ignore-unused-allowlist"], cwd=folder, capture_output=True,
                                  text=True, env={**os.environ, "MYPYPATH": place, "PYTHONPATH": place}, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_everything_public_has_a_docstring(self):
        for name in ("gconv", "gconv.kernels", "gconv.cv", "gconv.ndimage"):
            module = importlib.import_module(name)
            for one in module.__all__:
                self.assertTrue(inspect.getdoc(getattr(module, one)), f"{name}.{one}")


if __name__ == "__main__":
    unittest.main()
