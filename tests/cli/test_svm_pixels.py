# SPDX-License-Identifier: MIT
"""Support vector machines over features of pixels: training on masks, the model's text, maps against numpy, and what is refused."""
import json
import re
import unittest

import numpy as np
from PIL import Image
from test_pixels import COLOURS, PictureTest, mask_of, picture, truth
from test_svm import Model

FEATURES = "intensity 1 2"


class SvmPixels(PictureTest):
    def train(self, *words, features=FEATURES, **options):
        return self.gconv("svm", "i.png", "m.png", "--features", features, "-o", "p.model", *words, **options)

    def features(self, image, sigmas=(1, 2)):
        """`intensity`, by scipy in float64, a row a pixel."""
        from scipy import ndimage
        planes = np.moveaxis(image, -1, 0) if image.ndim == 3 else image[None]
        return np.stack([ndimage.gaussian_filter(p / 255, s, mode="nearest", truncate=4) for p in planes for s in sigmas], -1).reshape(
            -1, len(planes) * len(sigmas))

    def test_maps_are_what_the_model_says(self):
        self.save("i.png", picture())
        self.save("m.png", mask_of(truth()), COLOURS)
        said = self.train("-c", "10").stderr
        self.assertIn("m.png: classes are the numbers 3, 7, 9, in this order; 0 is unlabelled\n", said)
        text, model = (self.folder / "p.model").read_text(), Model(self.folder / "p.model")
        behind = re.split("\nSV.*\n", text)[1].splitlines()[sum(model.counts):]
        self.assertTrue(all(line.startswith("#") for line in behind))  # LIBSVM stops reading before
        self.assertEqual([line for line in behind if re.match("# (features|colour)", line)],
                         ["# features intensity 1 2", *("# colour " + " ".join(map(str, COLOURS[k])) for k in (3, 7, 9))])
        self.assertEqual((model.label, model.gamma), (["3", "7", "9"], 0.5))
        x, labels = self.features(picture()), self.read("m.png").ravel()
        np.testing.assert_allclose(model.ranges.sum(1) / 2, x[labels > 0].mean(0), rtol=1e-5)  # mean less and plus deviation
        np.testing.assert_allclose(np.diff(model.ranges)[:, 0] / 2, x[labels > 0].std(0), rtol=1e-4)
        shown = self.gconv("info", "p.model").stdout
        for part in ("a mean of 0 and a standard deviation of 1", "features    intensity 1 2"):
            self.assertIn(part, shown)
        self.save("test/a.png", picture(5, 90, 130))
        self.save("test/b.png", picture(6, 30, 600))
        self.save("masks/a.png", truth(90, 130))
        self.save("masks/b.png", truth(30, 600))
        found = json.loads(self.gconv("classify", "p.model", "-i", "test", "-o", "maps/", "--evaluate", "masks", "--json").stdout)
        self.assertEqual((found["classes"], sum(map(sum, found["confusion"]))), (["3", "7", "9"], 90 * 130 + 30 * 600))
        for name, image in (("a", picture(5, 90, 130)), ("b", picture(6, 30, 600))):
            map_ = Image.open(self.folder / f"maps/{name}.png")
            self.assertEqual([tuple(map_.getpalette()[3 * k:3 * k + 3]) for k in COLOURS], list(COLOURS.values()))
            expected = np.array(model.classes(self.features(image)), int).reshape(image.shape)
            self.assertGreater((expected == np.array(map_)).mean(), 0.999)  # float32 features move a few at the border
            for words in (("--threads", 1), ("--threads", 3), ("--memory", "24M")):
                self.gconv("classify", "p.model", "-i", f"test/{name}.png", "-o", "again.png", *words)
                self.assertEqual((self.folder / "again.png").read_bytes(), (self.folder / f"maps/{name}.png").read_bytes(), words)
        self.gconv("-i", "test/a.png", "-f", "p.model", "-o", "other.png")
        piped = self.gconv("classify", "p.model", "-i", "-", "-o", "-", stdin=(self.folder / "test/a.png").read_bytes(), text=False)
        for result in ((self.folder / "other.png").read_bytes(), piped.stdout):
            self.assertEqual(result, (self.folder / "maps/a.png").read_bytes())

    def test_float32_and_float64(self):
        """Machines in float32 have the same bytes for all vectors; those whose coefficients are too large for it are float64's."""
        self.save("i.png", picture())
        self.save("m.png", mask_of(truth()))
        self.save("t.png", picture(5, 90, 130))
        for cost, math in ((1, "float32"), (1e7, "float64")):
            self.train("-c", cost, "-g", 500, "--scale", "unit")
            model = Model(self.folder / "p.model")
            said = self.gconv("classify", "p.model", "-i", "t.png", "-o", "o.png", "--explain", "-v").stderr
            self.assertIn("device cpu: ", said)
            self.assertIn(f"by votes of pairs, in {math}", said)
            for isa in ("plain", "avx2"):
                self.gconv("classify", "p.model", "-i", "t.png", "-o", f"{isa}.png", env={"GCONV_ISA": isa})
                self.assertEqual((self.folder / f"{isa}.png").read_bytes(), (self.folder / "o.png").read_bytes())
            expected = np.array(model.classes(self.features(picture(5, 90, 130))), int).reshape(90, 130)
            self.assertGreater((expected == self.read("o.png")).mean(), 0.999, math)

    def test_probabilities_colours_and_16_bits(self):
        rgb = picture(channels=3)
        self.save("i.png", rgb)
        self.save("m.png", mask_of(truth(numbers=(1, 2, 300))))
        self.train("-b", "--scale", "unit")
        model = Model(self.folder / "p.model")
        self.assertEqual((model.vectors.shape[1], model.scale), (6, [0, 1]))
        self.gconv("classify", "p.model", "-i", "i.png", "-o", "p.npy", "--probabilities")
        self.gconv("classify", "p.model", "-i", "i.png", "-o", "o.png")
        probabilities = np.load(self.folder / "p.npy").reshape(3, 100, 150)
        np.testing.assert_allclose(probabilities.sum(0), 1, atol=1e-5)
        np.testing.assert_array_equal(np.array([1, 2, 300])[probabilities.argmax(0)], self.read("o.png"))
        # Of two classes, the probability is the sigmoid of the value.
        self.save("m.png", mask_of(truth(numbers=(1, 2, 2))))
        self.train("-b")
        model = Model(self.folder / "p.model")
        self.gconv("classify", "p.model", "-i", "i.png", "-o", "q/{stem}_{filter}.npy", "--probabilities")
        found = np.load(self.folder / "q/i_p.npy").reshape(2, -1)
        expected = 1 / (1 + np.exp(model.prob_a[0] * model.values(self.features(rgb))[:, 0] + model.prob_b[0]))
        np.testing.assert_allclose(found, [expected, 1 - expected], atol=1e-4)
        self.gconv("classify", "p.model", "-i", "i.png", "-o", "c/{stem}_{filter}.png", "--probabilities")
        self.assertEqual(sorted(p.name for p in (self.folder / "c").iterdir()), ["i_1.png", "i_2.png"])
        self.save("gray.png", rgb[..., 0])
        self.gconv("classify", "p.model", "-i", "gray.png", "-o", "o.png")  # becomes RGB

    def test_samples_are_drawn_of_each_class_alike(self):
        """With a tiny C, each pixel that is learned is a support vector, so that the model tells how many there are."""
        self.save("i.png", picture())
        mask = truth()
        self.save("m.png", mask)
        said = self.train("--samples", "600", "-c", "1e-6").stderr
        self.assertIn("600 of 15000 labelled pixels are learned, as many of each class: --samples N takes more or fewer\n", said)
        first = (self.folder / "p.model").read_bytes()
        self.assertEqual(Model(self.folder / "p.model").counts, [200, 200, 200])
        self.gconv("svm", "-i", "i.png", "-t", "m.png", "--features", FEATURES, "--samples", "600", "-c", "1e-6", "-o", "p.model", "--threads", 1)
        self.assertEqual((self.folder / "p.model").read_bytes(), first)
        self.train("--samples", "600", "-c", "1e-6", "--seed", 2)
        self.assertNotEqual((self.folder / "p.model").read_bytes(), first)
        self.assertIn("10000 of 15000 labelled pixels", self.train("-v", "2", "-e", "100").stderr)
        mask[:, :50] = 0
        mask[3, 7] = 3  # one pixel of this class: the others share the rest
        self.save("m.png", mask)
        self.assertIn("601 of 10001 labelled", self.train("--samples", "601").stderr)
        self.gconv("train", "-i", "i.png", "-t", "m.png", "--features", "log 1", "--net", "dense 3 softmax", "--samples", "601", "--epochs", 1,
                   "-o", "n.safetensors")
        self.assertIn("601 of 10001", self.gconv("train", "-i", "i.png", "-t", "m.png", "--features", "log 1", "--net", "dense 3 softmax",
                                                 "--samples", "601", "--epochs", 1, "-o", "n.safetensors").stderr)

    def test_folders_go_on(self):
        for k, name in enumerate("abc"):
            self.save(f"i/{name}.png", picture(k, 64 + k, 90))
            self.save(f"m/{name}.png", mask_of(truth(64 + k, 90)))
        self.gconv("svm", "i", "m", "--features", "gaussian 1, structure 1", "-o", "p.model")
        self.gconv("svm", "-i", "i", "-t", "m", "--features", "gaussian 1, structure 1", "-o", "2.model")
        self.assertEqual((self.folder / "p.model").read_bytes(), (self.folder / "2.model").read_bytes())
        done = ("classify", "p.model", "-i", "i", "-o", "maps/", "--resume")
        self.gconv(*done)
        before = {p.name: p.read_bytes() for p in (self.folder / "maps").glob("*.png")}
        (self.folder / "maps/b.png").unlink()
        self.assertIn("2 results were done; taken up: 1 missing or changed", self.gconv(*done).stderr)
        self.assertEqual({p.name: p.read_bytes() for p in (self.folder / "maps").glob("*.png")}, before)
        self.assertIn("3 results were done", self.gconv(*done).stderr)
        self.gconv("svm", "i", "m", "--features", "gaussian 1, structure 1", "-c", "3", "-o", "p.model")  # another: all are made again
        self.assertIn("3 written", self.gconv(*done).stderr)
        for k in (1, 2):
            self.gconv("classify", "p.model", "-i", "i", "-o", "parts/", "--shard", f"{k}/2")
        self.assertEqual(sorted(p.name for p in (self.folder / "parts").iterdir()), ["a.png", "b.png", "c.png"])
        self.assertRegex(self.gconv("svm", "i", "m", "--features", "log 1", "--grid", "--log2c", "0:1:1", "--log2g", "0:1:1", "-v", "2").stdout, "best: -c")

    def test_refused(self):
        self.save("i.png", picture())
        good = mask_of(truth())
        self.save("m.png", good)
        for says, *words in (("images need --features", "i.png", "m.png"), ("name an image and its mask", "i.png", "--features", "log 1"),
                             ("name an image and its mask", "i.png", "m.png", "-t", "m.png", "--features", "log 1"),
                             ("there is no feature", "i.png", "m.png", "--features", "blur 1"),
                             ("masks tell classes", "i.png", "m.png", "--features", "log 1", "--type", "epsilon-svr"),
                             ("--regression and --classification are for tables", "i.png", "m.png", "--features", "log 1", "--regression"),
                             ("each class needs one", "i.png", "m.png", "--features", "log 1", "--samples", "2"),
                             ("--samples is for the pixels", "m.png", "--samples", "2"), ("--gray is for the pixels", "m.png", "--gray"),
                             ("would replace a file that is read", "i.png", "m.png", "--features", "log 1", "-o", "m.png")):
            self.usage_error(says, "svm", *(words if "-o" in words else (*words, "-o", "p.model")))
        self.usage_error("--samples is for pixels", "train", "--table", "m.png", "--samples", "5", "--net", "dense 2", "-o", "n.safetensors")
        self.save("m.png", good[:, :149])
        self.assertIn("the images of a pair must have one size", self.train(status=1).stderr)
        self.save("m.png", np.where(good == 7, 7, 0))
        self.assertIn("all labelled pixels are 7", self.train(status=1).stderr)
        self.assertFalse((self.folder / "p.model").exists())
        self.save("m.png", good)
        self.train("-c", "3")
        self.usage_error("train it with them, gconv svm -b", "classify", "p.model", "-i", "i.png", "-o", "p.npy", "--probabilities")
        self.usage_error("jpeg changes pixels", "classify", "p.model", "-i", "i.png", "-o", "o.jpg")
        self.usage_error("put it last", "-i", "i.png", "-f", "p.model", "--then", "-f", "sobel", "-o", "o.png")
        self.usage_error("leave out --verify", "-i", "i.png", "-f", "p.model", "-o", "o.png", "--verify")
        np.save(self.folder / "two.npy", np.zeros((2, 9, 9), np.float32))
        text = (self.folder / "p.model").read_text()
        for says, wrong in (("a second line features", text.replace("# features", "# features log 1\n# features")),
                            ("features: there is no feature", text.replace("intensity", "blur")), ("its features are 1 of a grey image", text.replace("intensity 1 2", "log 1")),
                            ("is cut off", re.sub("# scale", "# colour 1 2 3\n# scale", text)),
                            ("three numbers from 0 to 255", re.sub("# scale", "# colour 1 2 300\n# scale", text)),
                            ("and no classes", "\n".join(["svm_type epsilon_svr", "kernel_type linear", "nr_class 2", "total_sv 1", "rho 1", "SV", "1 1:1",
                                                          "# columns 1", "# features log 1", ""]))):
            (self.folder / "w.model").write_text(wrong)
            self.assertIn(says, self.gconv("-i", "i.png", "-f", "w.model", "-o", "o.png", status=2).stderr)
        self.write_table()
        self.gconv("svm", "t.csv", "-o", "t.model")
        self.usage_error("is a support vector machine for tables", "-i", "i.png", "-f", "t.model", "-o", "o.png")
        self.assertFalse((self.folder / "o.png").exists())

    def test_pipes_are_left_to_filters(self):
        """Whether -f names a model is found out by looking into files, never into what can be read once alone."""
        self.save("i.png", picture())
        for filter_ in ("-", "/dev/stdin"):
            self.gconv("-i", "i.png", "-f", filter_, "-o", "o.png", stdin=b"0 0 0\n0 1 0\n0 0 0\n")
            np.testing.assert_array_equal(self.read("o.png"), picture())

    def write_table(self):
        (self.folder / "t.csv").write_text("".join(f"{i},{i % 7},{'ab'[i % 2]}\n" for i in range(20)))


if __name__ == "__main__":
    unittest.main()
