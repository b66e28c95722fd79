# SPDX-License-Identifier: MIT
"""gconv classify --evaluate: pixels without maps, and the page of --report, held to numpy."""
import base64
import io
import json
import re
import unittest

import numpy as np
from helper import CommandTest
from PIL import Image
from test_pixels import COLOURS, mask_of, picture, truth
from test_report import Page


class Evaluation(CommandTest):
    def page(self, name="r.html"):
        text = (self.folder / name).read_text()
        page = Page(text)
        self.assertEqual((page.outside, page.open), ([], []))
        images = [np.array(Image.open(io.BytesIO(base64.b64decode(data)))) for data in re.findall(r"base64,([^']+)'", text)]
        return text, images

    def save(self, name, array, palette=False):
        image = Image.fromarray(array.astype(np.uint8), "P" if palette else None)
        if palette:
            image.putpalette([level for k in range(256) for level in COLOURS.get(k, (k, k, k))])
        (self.folder / name).parent.mkdir(exist_ok=True, parents=True)
        image.save(self.folder / name)

    def test_pixels(self):
        self.save("i.png", picture())
        self.save("m.png", mask_of(truth()), palette=True)
        self.gconv("svm", "i.png", "m.png", "--features", "gaussian 1 2", "-o", "p.model")
        for k, name in enumerate(("a", "b", "c<d")):
            self.save(f"test/{name}.png", picture(k + 5, 80 + k, 120))
            self.save(f"masks/{name}.png", mask_of(truth(80 + k, 120), seed=k, share=0.3))
        self.gconv("train", "-i", "i.png", "-t", "m.png", "--features", "gaussian 1 2", "--net", "dense 3 softmax", "--epochs", 3, "-o", "n.safetensors")
        for model in ("p.model", "n.safetensors"):
            with_maps = self.gconv("classify", model, "-i", "test", "-o", "maps/", "--evaluate", "masks", "--json", "--report", "1.html")
            before = sorted(self.folder.rglob("*"))
            alone = self.gconv("classify", model, "-i", "test", "--evaluate", "masks", "--json", "--report", "2.html")
            self.assertEqual(sorted(self.folder.rglob("*")), sorted({*before, self.folder / "2.html"}))
            self.assertEqual(alone.stdout, with_maps.stdout)
            self.assertEqual((self.folder / "1.html").read_bytes(), (self.folder / "2.html").read_bytes())
        self.gconv("classify", "p.model", "-i", "test", "-o", "maps/", "--evaluate", "masks", "--json", "--report", "out/../r.html", status=2)
        found = json.loads(self.gconv("classify", "p.model", "-i", "test", "-o", "maps/", "--evaluate", "masks", "--json", "--report", "r.html").stdout)
        text, images = self.page()
        for k, (iou, f1) in enumerate(zip(found["iou"], found["f1"])):
            self.assertRegex(text, rf"rgb\({','.join(map(str, COLOURS[(3, 7, 9)[k]]))}\).*</span> {(3, 7, 9)[k]}</th>.*<td>{iou:.4f}</td><td>{f1:.4f}</td>")
        self.assertIn(f"{100 * found['accuracy']:.2f}%: {np.trace(found['confusion'])} of {found['cases']} labelled pixels", text)
        order = []
        for name in ("a", "b", "c<d"):
            map_, mask = (np.array(Image.open(self.folder / f"{folder}/{name}.png")) for folder in ("maps", "masks"))
            order.append((-((map_ != mask) & (mask > 0)).sum() / (mask > 0).sum(), name, map_, mask))
        order.sort(key=lambda item: item[0])
        self.assertEqual(re.findall(r"<h3>test/(.*?)\.png</h3>", text), [name.replace("<", "&lt;") for _, name, _, _ in order])
        self.assertEqual(len(images), 12)
        for (_, name, map_, mask), (small, true, predicted, errors) in zip(order, [images[i:i + 4] for i in (0, 4, 8)]):
            grey = np.array(Image.open(self.folder / f"test/{name}.png"))[..., None].repeat(3, 2).astype(int)
            colours = np.zeros((256, 3), int)
            for number, colour in COLOURS.items():
                colours[number] = colour
            labelled = (mask > 0)[..., None]
            wrong = (map_ != mask)[..., None]
            np.testing.assert_array_equal(small, grey)
            np.testing.assert_array_equal(true, np.where(labelled, (2 * grey + 3 * colours[mask]) // 5, grey))
            np.testing.assert_array_equal(predicted, (2 * grey + 3 * colours[map_]) // 5)
            marks = np.where(wrong, [230, 20, 20], [40, 160, 40])
            np.testing.assert_array_equal(errors, np.where(labelled, (2 * grey + 3 * marks) // 5, grey // 2))
        text_alone = self.gconv("classify", "p.model", "-i", "test/a.png", "--evaluate", "masks/a.png").stdout
        self.assertIn("% of the labelled pixels right", text_alone)

    def test_tables_and_folders(self):
        rng = np.random.default_rng(3)
        kinds = np.arange(120) % 3
        rows = [f"{a:.4f},{b:.4f},{'<x>yz'[3 * k // 2:3 * k // 2 + 2] if k else '<x>'}" for (a, b), k in zip(rng.normal(kinds[:, None], 0.7, (120, 2)), kinds)]
        (self.folder / "t.csv").write_text("\n".join(rows) + "\n")
        self.gconv("svm", "t.csv", "-b", "-o", "b.model")
        self.gconv("svm", "t.csv", "-o", "p.model")
        self.gconv("train", "--table", "t.csv", "--net", "dense 3 softmax", "--rate", "0.01", "--epochs", 30, "-o", "n.safetensors")
        for model in ("b.model", "p.model", "n.safetensors"):
            lines = self.gconv("classify", model, "t.csv", "-o", "-", "--evaluate", "--report", "r.html").stdout.splitlines()
            cases = [line.split(",") for line in lines[1:121]]
            wrong = [(case[0], float(case[2]) if len(case) == 4 else 0) for case in cases if case[1] != case[-1]]
            wrong.sort(key=lambda item: -item[1])
            text, _ = self.page()
            listed = re.findall(r"<tr><td>(\d+)</td><td>", text)
            self.assertEqual(len(listed), min(20, len(wrong)), model)
            self.assertTrue(set(listed) <= {name for name, _ in wrong})
            if model != "p.model":
                np.testing.assert_allclose([dict(wrong)[name] for name in listed], [c for _, c in wrong[:len(listed)]], rtol=1e-3)
            self.assertIn("&lt;x&gt;", text)
        for i in range(20):
            for k, name in enumerate("uv"):
                self.save(f"f/{name}/{i}.png", rng.integers(60 * k, 160 + 60 * k, (12, 16)))
        self.gconv("train", "--classes", "f", "--net", "dense 2 softmax", "--epochs", 1, "-o", "f.safetensors")
        json_ = json.loads(self.gconv("classify", "f.safetensors", "-i", "f", "--evaluate", "--json", "--report", "r.html").stdout)
        wrong = json_["cases"] - np.trace(json_["confusion"])
        text, images = self.page()
        self.assertEqual(len(images), min(20, wrong))
        for path, image in zip(re.findall(r"<td>(f/./\d+\.png)</td>", text), images):
            np.testing.assert_array_equal(image[..., 0], np.array(Image.open(self.folder / path)))
        self.assertEqual(set(json_), {"accuracy", "cases", "unknown", "classes", "confusion", "iou", "f1", "device", "why",
                                      "left_out"})

    def test_refused(self):
        self.save("i.png", picture())
        self.save("m.png", mask_of(truth()))
        self.gconv("svm", "i.png", "m.png", "--features", "gaussian 1", "-o", "p.model")
        (self.folder / "t.csv").write_text("".join(f"{i},{i % 7},{i % 3}.5\n" for i in range(20)))
        self.gconv("svm", "t.csv", "--regression", "-o", "r.model")
        for says, *words in (("is a page of what --evaluate finds", "p.model", "-i", "i.png", "-o", "o.png", "--report", "r.html"),
                             ("the report is a page of HTML", "p.model", "-i", "i.png", "--evaluate", "m.png", "--report", "r.txt"),
                             ("would replace a file that is read", "p.model", "-i", "i.png", "--evaluate", "m.html", "--report", "m.html"),
                             ("--resume is for maps that are written", "p.model", "-i", "i.png", "--evaluate", "m.png", "--resume"),
                             ("--report: is about classes", "r.model", "t.csv", "--evaluate", "--report", "r.html"),
                             ("say with -o where the maps go", "p.model", "-i", "i.png")):
            (self.folder / "m.html").write_bytes((self.folder / "m.png").read_bytes())
            self.usage_error(says, "classify", *words)
        self.save("i.png", picture()[:50])
        result = self.gconv("classify", "p.model", "-i", "i.png", "--evaluate", "m.png", "--report", "r.html", status=1)
        self.assertIn("a mask has the size of its image", result.stderr)
        self.assertFalse((self.folder / "r.html").exists())


if __name__ == "__main__":
    unittest.main()
