# SPDX-License-Identifier: MIT
"""README.md and docs/: every command of gconv that they show works, every link leads somewhere, and the tables of algorithms and
built-in filters are those of the program."""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import unittest

import numpy as np
from helper import GCONV, CommandTest, needs
from network_helper import Layer, save_network, save_tensors
from onnx_helper import model, node
from PIL import Image, TiffImagePlugin

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*SOURCE.glob("*.md"), *(path for room in ("docs", "src", "kernels") for path in (SOURCE / room).rglob("*.md"))])
FLOATS = np.random.default_rng(5)


def weights(*shape):
    return FLOATS.standard_normal(shape).astype(np.float32)


def safetensors(name, tensor):
    header = json.dumps({name: {"dtype": "F32", "shape": tensor.shape, "data_offsets": [0, tensor.nbytes]}}).encode()
    return struct.pack("<Q", len(header)) + header + tensor.tobytes()


def field(number, value):
    """A field of protobuf: bytes, or a number of one byte."""
    return bytes([number << 3, value]) if isinstance(value, int) else bytes([number << 3 | 2]) + varint(len(value)) + value


def varint(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def onnx(node, tensor):
    """A model of one Conv node with its weights."""
    kept = b"".join(field(1, size) for size in tensor.shape) + field(2, 1) + field(8, b"w") + field(9, tensor.tobytes())
    conv = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(3, node) + field(4, b"Conv")
    return field(7, field(1, conv) + field(5, kept))


class Commands(CommandTest):
    def setUp(self):
        super().setUp()
        for name in ("photo.jpg", "photos/1.jpg", "photos/more/2.png", "scans/1.png", "scans/2.png", "photo.png", "shots/1.png"):
            self.photo(name, 64, 48, seed=len(name))
        for name in ("result.png", "expected.png", "before/1.png", "after/1.png"):
            self.photo(name, 64, 48, seed=1)
        self.photo("mask.png", 64, 48, channels=1)
        for name in ("tissue.png", "slides/1.png", "slides/2.png"):
            self.photo(name, 64, 48, seed=2)
        Image.fromarray((np.arange(48 * 64).reshape(48, 64) // 100 % 4).astype(np.uint8)).save(self.folder / "labels.png")
        self.photo("dark.tif", 64, 48, channels=1)
        cards = ("SIMPLE  =                    T", "BITPIX  =                  -32", "NAXIS   =                    2", "NAXIS1  =                   30",
                 "NAXIS2  =                   20", "END")
        (self.folder / "sky.fits").write_bytes("".join(card.ljust(80) for card in cards).ljust(2880).encode() + weights(720).astype(">f4").tobytes())
        self.photo("flat.tif", 64, 48, channels=1)
        (self.folder / "my_filter.txt").write_text("1 2 1\n0 0 0\n-1 -2 -1\n")
        np.save(self.folder / "image.npy", weights(20, 30))
        (self.folder / "frames.ppm").write_bytes(3 * (b"P6\n8 6\n255\n" + bytes(8 * 6 * 3)))
        np.save(self.folder / "stack.npy", weights(6, 32, 24))
        np.save(self.folder / "psf3d.npy", np.abs(weights(3, 5, 4)))
        np.save(self.folder / "batch.npy", weights(4, 32, 24, 3))
        np.save(self.folder / "layer.npy", weights(8, 3, 3, 3))
        np.save(self.folder / "second.npy", weights(5, 6, 3, 3))
        for name in ("weights", "resnet"):
            (self.folder / f"{name}.safetensors").write_bytes(safetensors("conv1.weight", weights(16, 3, 7, 7)))
        (self.folder / "model.onnx").write_bytes(onnx(b"Conv_0", weights(6, 3, 3, 3)))
        denoiser = [node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1]), node("Add", ["a", "x"], "y")]
        (self.folder / "denoiser.onnx").write_bytes(model(denoiser, {"w": weights(3, 3, 3, 3)}, ("n", 3, "h", "w")))
        np.save(self.folder / "signal.npy", weights(2000))
        save_network(self.folder / "detector.safetensors", [Layer(weights(2, 1, 1, 200), padding="valid", activation="tanh")], 1, 1, 200)
        save_tensors(self.folder / "state.safetensors", {"0.weight": weights(4, 3, 3, 3), "2.weight": weights(5, 4, 3, 3), "6.weight": weights(2, 5)})

    def environment(self, extra=None):
        """The shell finds the gconv that is tested by this name."""
        links = self.folder / "bin"
        links.mkdir(exist_ok=True)
        (links / "gconv").unlink(missing_ok=True)
        (links / "gconv").symlink_to(pathlib.Path(GCONV).resolve())
        return {**super().environment(extra), "PATH": f"{links}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_ID": "1",
                "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "2", "SLURM_ARRAY_TASK_COUNT": "2"}

    def run_all(self, commands, least):
        self.assertGreaterEqual(len(commands), least)
        for command in commands:
            with self.subTest(command):
                done = subprocess.run(["bash", "-c", "set -o pipefail; " + command], cwd=self.folder, env=self.environment(),
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
                self.assertEqual(done.returncode, 0, done.stderr.decode())

    def commands_of(self, name):
        lines = re.findall(r"^    ((?:cat \S+ \| )?gconv .*)$", (SOURCE / name).read_text(), re.MULTILINE)
        return [line.split("   #")[0] for line in lines]

    def assert_pictures(self, *names):
        for name in names:
            with Image.open(self.folder / name) as image:
                self.assertGreater(np.asarray(image).std(), 0, name)

    def test_readme(self):
        self.run_all(self.commands_of("README.md"), 10)
        self.assert_pictures("edges.png", "log.png", "maps/1.png")

    def test_readme_is_short(self):
        self.assertLessEqual(len((SOURCE / "README.md").read_text().splitlines()), 120)

    def test_first_picture(self):
        """What the first command of the README makes is the picture that the README shows."""
        text = (SOURCE / "README.md").read_text()
        [options] = re.findall(r"^ +build/gconv (.* -o edges\.png)$", text, re.MULTILINE)
        [shown] = re.findall(r"\((docs/\w+\.png)\)", text)
        self.gconv(*options.replace("images/", f"{SOURCE}/images/").split())
        with Image.open(SOURCE / shown) as picture:
            difference = abs(np.asarray(picture).astype(float) - self.pixels("edges.png"))
        self.assertLess(difference.mean(), 0.5)  # libraries of JPEG may round otherwise

    def test_guide(self):
        version = self.gconv("--version").stdout
        commands = [line for line in self.commands_of("docs/guide.md") if ".exr" not in line or "no OpenEXR" not in version]
        self.run_all(commands, 8)
        self.assert_pictures("edges/1.png", "filters.png", "orientation.png")

    @needs("libtiff")
    def test_surveying(self):
        """Each command of the page, on a GeoTIFF; the rise is that of Horn's formula, as in gdaldem slope."""
        y, x = np.mgrid[0:48, 0:64]
        heights = (300 + 20 * np.sin(x / 9) + 15 * np.cos(y / 7)).astype(np.float32)
        holed = heights.copy()
        holed[20:23, 30:34] = -9999
        tags = TiffImagePlugin.ImageFileDirectory_v2()
        for tag, kind, value in ((33550, 12, (1.0, 1.0, 0.0)), (33922, 12, (0.0, 0.0, 0.0, 5e5, 5e6, 0.0)), (34735, 3, (1, 1, 0, 1, 1024, 0, 1, 1)), (42113, 2, "-9999")):
            tags.tagtype[tag] = kind
            tags[tag] = value
        Image.fromarray(holed).save(self.folder / "dem.tif", tiffinfo=tags)
        Image.fromarray(np.stack([x * 4, y * 5, x + y], -1).astype(np.uint8)).save(self.folder / "ortho.tif", tiffinfo=tags)
        (self.folder / "tiles").mkdir()
        for name in ("1.tif", "2.tif"):
            Image.fromarray(heights).save(self.folder / "tiles" / name)
        self.run_all(self.commands_of("docs/surveying.md"), 10)
        with Image.open(self.folder / "rise.tif") as image:
            rise = np.asarray(image)
            self.assertEqual((image.tag_v2[33922], image.tag_v2[42113]), ((0.0, 0.0, 0.0, 5e5, 5e6, 0.0), "-9999"))
        p = np.pad(heights.astype(np.float64), 1, "edge")
        east = (p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:] - p[:-2, :-2] - 2 * p[1:-1, :-2] - p[2:, :-2]) / 8
        south = (p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:] - p[:-2, :-2] - 2 * p[:-2, 1:-1] - p[:-2, 2:]) / 8
        near = np.zeros(heights.shape, bool)
        near[19:24, 29:35] = True
        np.testing.assert_allclose(rise[~near], np.hypot(east, south)[~near], atol=2e-4)
        self.assertTrue((rise[20:23, 30:34] == -9999).all())
        with Image.open(self.folder / "filled.tif") as image:
            self.assertLess(np.abs(np.asarray(image)[20:23, 30:34] - heights[20:23, 30:34]).max(), 12)

    def test_learning(self):
        letters = np.random.default_rng(7).integers(0, 16, (260, 16))
        rows = [",".join(map(str, row)) for row in letters]
        (self.folder / "letter.csv").write_text("\n".join(["Letter," + ",".join(f"f{i}" for i in range(16)), *(f"{chr(65 + i % 26)},{row}" for i, row in enumerate(rows))]))
        (self.folder / "test.csv").write_text("\n".join(rows))
        shutil.rmtree(self.folder / "photos")
        for i in range(10):
            for name in ("photos/cat", "photos/dog", "photos/owl"):
                self.photo(f"{name}/{i}.png", 32, 24, seed=i, channels=1)
            for name in ("noisy", "clean"):
                self.photo(f"{name}/{i}.png", 64, 48, seed=i, channels=1)
            self.photo(f"large/{i}.png", 80, 64, seed=i, channels=1)
        self.photo("half.png", 32, 24, seed=1)
        weights(2000).tofile(self.folder / "signal.f32le")
        (self.folder / "events.csv").write_text("\n".join(["calm", "event"] * 18 + ["calm"]))
        commands = self.commands_of("docs/learning.md")
        shown = ("--windows", "espcn", "unet", "large/")
        self.run_all([c for c in commands if c.split()[1] in ("train", "classify") or any(word in c for word in shown)], 15)
        with Image.open(self.folder / "half.png") as half, Image.open(self.folder / "twice.png") as twice:
            self.assertEqual(twice.size, (2 * half.width, 2 * half.height))
        self.assertTrue((self.folder / "espcn.onnx").read_bytes())

    def test_svm(self):
        points = np.random.default_rng(8).normal(0, 1, (90, 3)).round(3)
        rows = [",".join(map(str, [*(p + i % 3), "abc"[i % 3]])) for i, p in enumerate(points)]
        for name in ("train.csv", "test.csv"):
            (self.folder / name).write_text("\n".join(["x,y,z,species", *rows]))
        (self.folder / "measured.csv").write_text("\n".join(f"{x},{y},{x - y * z}" for x, y, z in points))
        picture, labels = np.random.default_rng(9).integers(0, 256, (60, 80), np.uint8), np.zeros((60, 80), np.uint8)
        picture[:, :40] //= 3
        labels[::5, ::7], labels[::5, 40::7] = 1, 2
        (self.folder / "slides").mkdir(exist_ok=True)
        Image.fromarray(picture).save(self.folder / "tissue.png")
        Image.fromarray(picture).save(self.folder / "slides" / "a.png")
        Image.fromarray(labels).save(self.folder / "labels.png")
        self.run_all(self.commands_of("docs/svm.md"), 9)

    def test_filter_formats(self):
        self.run_all(self.commands_of("docs/filter-formats.md"), 4)

    def test_manual_page(self):
        text = (SOURCE / "docs" / "gconv.1").read_text()
        examples = re.search(r"\.SH EXAMPLES\n\.nf\n(.*?)\.fi", text, re.DOTALL)[1].replace("\\-", "-")
        self.run_all(examples.splitlines(), 5)

    def test_help(self):
        told = "".join(self.gconv("help", *words).stdout for words in ((), ("bank",)))
        self.run_all(re.findall(r"^  (gconv -i .*|gconv bank .*[a-z]\.\S*.*|gconv bank convert sobel.*)$", told, re.MULTILINE), 7)


class Tables(CommandTest):
    @staticmethod
    def tables(name, head):
        """The cells of each table of the document that begins with these words."""
        found = re.findall(rf"^\| {re.escape(head)} \|\n\| --- .*\n((?:\|.*\n)+)", (SOURCE / name).read_text(), re.MULTILINE)
        return [[[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()] for table in found]

    def test_algorithms(self):
        tables = self.tables("docs/algorithms.md", "algorithm | exact | devices | for")
        told = self.gconv("algorithms").stdout.split("for banks:")
        self.assertEqual(len(tables), 2)
        for table, rows, listed in zip(tables, ("algorithms.def", "layer_algorithms.def"), told):
            definitions = (SOURCE / "kernels" / rows).read_text()
            defined = set(re.findall(r"^\w*ALGORITHM\((\w+), (\w+)\)", definitions, re.MULTILINE))
            documented = {(device.split()[0].lower(), name.replace("-", "_"))
                          for name, _, devices, _ in table for device in devices.split(", ")}
            self.assertEqual(documented, defined)
            exact = {name: exact for name, exact, _, _ in table}
            kinds = re.findall(r"^(?:cpu|cuda) +(\S+) +(exact|bounded)", listed, re.MULTILINE)
            self.assertGreaterEqual(len(kinds), 4)
            for name, kind in kinds:
                self.assertEqual(exact[name], "yes" if kind == "exact" else "no", name)

    def test_formats(self):
        """A format has a corpus for its fuzzer, a test of its pixels, a test of its worst files, and a word in the guide."""
        listed = self.gconv("filter", "--help").stdout.partition("\nFormats, ")[2]
        rows = re.findall(r"(?m)^  (\w+) +(\w+(?: \w+)*)  ", listed)
        self.assertGreater(len(rows), 5)
        read = {"tests/codec": "test_*.py", "tests/cli": "*scale*.py", "docs": "guide.md"}
        texts = {place: "".join(path.read_text() for path in (SOURCE / place).glob(names)) for place, names in read.items()}
        missing = []
        for name, extensions in rows:
            word = rf"(?i)(?<![a-z])({'|'.join([name, *extensions.split()])})(?![a-z])"
            missing += [f"{name}: {place}" for place, text in texts.items() if not re.search(word, text)]
            if not any((SOURCE / "tests/fuzz/corpus" / name).glob("*")):
                missing.append(f"{name}: tests/fuzz/corpus/{name}")
        self.assertEqual(missing, [])

    def test_filters(self):
        [table] = self.tables("docs/filter-formats.md", "name | parameters and defaults | is")
        documented = {name.strip("`"): parameters.strip("`") for names, parameters, _ in table for name in names.split(", ")}
        built_in = self.gconv("filters").stdout.split("With a second image")[0]
        self.assertEqual(documented, dict(re.findall(r"^  ([a-z_0-9]+):?(\S*)  ", built_in, re.MULTILINE)))


class Links(unittest.TestCase):
    @staticmethod
    def anchor(heading):
        """As GitHub makes it of a heading."""
        return re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).replace(" ", "-")

    def test_every_link(self):
        count = 0
        for document in DOCUMENTS:
            for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
                if target.startswith(("http:", "https:")):
                    continue
                count += 1
                name, _, anchor = target.partition("#")
                path = document.parent / name if name else document
                self.assertTrue(path.exists(), f"{document.name}: {target}")
                if anchor:
                    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
                    self.assertIn(anchor, map(self.anchor, headings), f"{document.name}: {target}")
        self.assertGreater(count, 40)


if __name__ == "__main__":
    unittest.main()
