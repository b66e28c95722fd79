# SPDX-License-Identifier: MIT
"""Pixels by features: training on masks, maps of classes against numpy, comparison with masks, folders, and what is refused."""
import json
import subprocess
import unittest

import numpy as np
from helper import GCONV, CommandTest, needs
from PIL import Image
from test_train import read_network

COLOURS = {3: (255, 0, 0), 7: (0, 200, 10), 9: (20, 30, 250)}


def picture(seed=0, height=100, width=150, channels=1):
    """Three stripes: noise of three grains."""
    rng = np.random.default_rng(seed)
    image = np.empty((height, width, channels))
    third = width // 3
    for c in range(channels):
        noise = rng.random((height, width))
        image[:, :third, c] = 40 + 20 * noise[:, :third]
        image[:, third:2 * third, c] = 20 + 200 * noise[:, third:2 * third]
        image[:, 2 * third:, c] = 120 + 100 * np.repeat(np.repeat(noise, 4, 0), 4, 1)[:height, 2 * third:width]
    return np.squeeze(image.astype(np.uint8))


def truth(height=100, width=150, numbers=(3, 7, 9)):
    return np.repeat(numbers, [width // 3, width // 3, width - 2 * (width // 3)])[None, :].repeat(height, 0)


def mask_of(classes, seed=1, share=0.1):
    return np.where(np.random.default_rng(seed).random(classes.shape) < share, classes, 0)


class PictureTest(CommandTest):
    """A test in whose folder pictures are saved and read."""

    def save(self, name, array, palette=None):
        image = Image.fromarray(array.astype(np.uint8 if array.max() < 256 else np.uint16))
        if palette:
            image = Image.fromarray(array.astype(np.uint8), "P")
            image.putpalette([level for k in range(256) for level in palette.get(k, (k, k, k))])
        (self.folder / name).parent.mkdir(exist_ok=True)
        image.save(self.folder / name)

    def read(self, name):
        return np.array(Image.open(self.folder / name))


class Pixels(PictureTest):
    def train(self, *words, features="gaussian 1 2, gradient 1, hessian 2", classes=3, mask="m.png", **options):
        return self.gconv("train", "-i", "i.png", "-t", mask, "--features", features, "--net", f"dense 8 relu, dense {classes} softmax",
                          "--epochs", 15, "--rate", "0.01", "-o", "n.safetensors", *words, **options)

    def test_whole(self):
        self.save("i.png", picture())
        self.save("m.png", mask_of(truth()), COLOURS)
        said = self.train().stderr
        self.assertIn("m.png: classes are the numbers 3, 7, 9, in this order; 0 is unlabelled\n", said)
        self.assertIn(" cases of 5 features, 3 classes\n", said)
        _, about = read_network(self.folder / "n.safetensors")
        self.assertEqual(about["features"], "gaussian 1 2, gradient 1, hessian 2")
        self.assertEqual([about["classes"], about["palette"]], [["3", "7", "9"], [list(COLOURS[k]) for k in (3, 7, 9)]])
        self.assertIn("\n  features    gaussian 1 2, gradient 1, hessian 2\n", self.gconv("info", "n.safetensors").stdout)
        self.save("test/a.png", picture(5, 130, 170))
        self.save("test/b.png", picture(6, 70, 1100))
        self.save("masks/a.png", truth(130, 170))
        self.save("masks/b.png", mask_of(truth(70, 1100), share=0.5))
        result = self.gconv("classify", "n.safetensors", "-i", "test", "-o", "maps/", "--evaluate", "masks", "--json")
        found = json.loads(result.stdout)
        counts = np.zeros((3, 3), int)
        for name in "ab":
            map_ = Image.open(self.folder / f"maps/{name}.png")
            self.assertEqual(map_.mode, "P")
            self.assertEqual([tuple(map_.getpalette()[3 * k:3 * k + 3]) for k in COLOURS], list(COLOURS.values()))
            self.assertEqual(set(np.unique(map_)), {3, 7, 9})
            wanted, got = self.read(f"masks/{name}.png"), np.array(map_)
            for i, j in ((i, j) for i in range(3) for j in range(3)):
                counts[i, j] += ((wanted == (3, 7, 9)[i]) & (got == (3, 7, 9)[j])).sum()
            # The map is argmax of the probabilities, byte by byte, in any format and way of reading.
            self.gconv("classify", "n.safetensors", "-i", f"test/{name}.png", "-o", "p.npy", "--probabilities")
            probabilities = np.load(self.folder / "p.npy").reshape(3, *got.shape)
            np.testing.assert_allclose(probabilities.sum(0), 1, atol=1e-5)
            np.testing.assert_array_equal(np.array([3, 7, 9])[probabilities.argmax(0)], got)
            for words in (("--threads", 1), ("--threads", 5), ("--memory", "20M")):
                self.gconv("classify", "n.safetensors", "-i", f"test/{name}.png", "-o", "again.png", *words)
                self.assertEqual((self.folder / "again.png").read_bytes(), (self.folder / f"maps/{name}.png").read_bytes(), words)
        self.assertEqual(found["confusion"], counts.tolist())
        self.assertGreater(found["accuracy"], 0.9)
        both, either = counts.diagonal(), counts.sum(0) + counts.sum(1) - counts.diagonal()
        np.testing.assert_allclose(found["iou"], both / either)
        np.testing.assert_allclose(found["f1"], 2 * both / (counts.sum(0) + counts.sum(1)))
        text = self.gconv("classify", "n.safetensors", "-i", "test", "-o", "maps/", "--evaluate", "-t", "masks").stdout
        self.assertIn(f"{100 * found['accuracy']:.2f}% of the labelled pixels right: {both.sum()} of {counts.sum()}\n", text)
        self.assertRegex(text, rf"\n +7 +{found['iou'][1]:.4f} +{found['f1'][1]:.4f} +{counts[1].sum()}\n")
        # gconv -f takes such a network, too, and standard input.
        self.gconv("-i", "test/a.png", "-f", "n.safetensors", "-o", "other.png")
        piped = self.gconv("classify", "n.safetensors", "-i", "-", "-o", "-", stdin=(self.folder / "test/a.png").read_bytes(), text=False)
        self.assertEqual((self.folder / "other.png").read_bytes(), (self.folder / "maps/a.png").read_bytes())
        self.assertEqual(piped.stdout, (self.folder / "maps/a.png").read_bytes())

    def test_outputs_of_the_network(self):
        """The probabilities are those of the features, by numpy in float64."""
        from scipy import ndimage
        self.save("i.png", picture())
        self.save("m.png", mask_of(truth()))
        self.train(features="intensity 1 2")
        tensors, about = read_network(self.folder / "n.safetensors")
        self.gconv("classify", "n.safetensors", "-i", "i.png", "-o", "p.npy", "--probabilities")
        x = np.stack([ndimage.gaussian_filter(picture() / 255, s, mode="nearest", truncate=4) for s in (1, 2)], -1)
        x = (x - about["mean"]) / about["std"]
        x = np.maximum(x @ tensors["l0.weight"][:, :, 0, 0].T + tensors["l0.bias"], 0)
        e = np.exp(x @ tensors["l1.weight"][:, :, 0, 0].T + tensors["l1.bias"])
        np.testing.assert_allclose(np.load(self.folder / "p.npy").reshape(3, 100, 150), np.moveaxis(e / e.sum(-1, keepdims=True), -1, 0), atol=2e-5)

    def test_images_as_words(self):
        """Without -i, words are images; the last one names the masks with --evaluate, unless -t does."""
        for name in ("i.png", "j.png"):
            self.save(name, picture())
        self.save("m.png", mask_of(truth()))
        self.train()
        self.gconv("classify", "n.safetensors", "-i", "i.png", "-o", "by_option.png")
        wanted = (self.folder / "by_option.png").read_bytes()
        self.gconv("classify", "n.safetensors", "i.png", "-o", "by_word.png")
        self.gconv("classify", "n.safetensors", "i.png", "j.png", "-o", "maps/")
        for name in ("by_word.png", "maps/i.png", "maps/j.png"):
            self.assertEqual((self.folder / name).read_bytes(), wanted, name)
        found = self.gconv("classify", "n.safetensors", "-i", "i.png", "--evaluate", "m.png", "--json").stdout
        for words in (("i.png", "--evaluate", "m.png"), ("i.png", "--evaluate", "-t", "m.png")):
            self.assertEqual(self.gconv("classify", "n.safetensors", *words, "--json").stdout, found, words)
        for says, words in (("name images", ()), ("name images", ("--evaluate", "-t", "m.png")),
                            ("name the masks", ("m.png", "--evaluate")), ("one word too many", ("-i", "i.png", "j.png", "-o", "o.png"))):
            self.assertIn(says, self.gconv("classify", "n.safetensors", *words, status=2).stderr)

    def test_broken_models_with_options_of_maps(self):
        """What is wrong with the model is told, rather than that it has no pixels."""
        self.save("i.png", picture())
        (self.folder / "cut.model").write_text("svm_type c_svc\nkernel_type rbf\ngamma 1\nnr_class 2\n")
        for name, says in (("nothing.model", "No such file"), ("cut.model", "cut.model: ")):
            told = self.gconv("classify", name, "-i", "i.png", "-o", "p.npy", "--probabilities", status=1).stderr
            self.assertIn(says, told)
            self.assertNotIn("by features", told)

    def test_colours_numbers_and_images(self):
        rgb = picture(channels=3)
        self.save("i.png", rgb)
        self.save("m.png", mask_of(truth(numbers=(1, 2, 300))))
        self.train()
        result = self.gconv("classify", "n.safetensors", "-i", "i.png", "-o", "o.png")
        self.assertIn("classes have numbers up to 300: the maps have 16 bits, and no colours", result.stderr)
        self.assertEqual(set(np.unique(self.read("o.png"))), {1, 2, 300})
        self.save("gray.png", rgb[..., 0])
        self.gconv("classify", "n.safetensors", "-i", "gray.png", "-o", "o.png")  # becomes RGB
        self.save("m.png", mask_of(truth(numbers=(1, 2, 255))))
        self.train("--gray")
        self.gconv("classify", "n.safetensors", "-i", "i.png", "-o", "o.png")
        colours = Image.open(self.folder / "o.png").getpalette()
        self.assertEqual(len({tuple(colours[3 * k:3 * k + 3]) for k in (0, 1, 2, 255)}), 4)  # of its own: all differ
        self.gconv("classify", "n.safetensors", "-i", "i.png", "-o", "o.npy")
        labels = np.load(self.folder / "o.npy").reshape(100, 150)
        np.testing.assert_array_equal(labels, self.read("o.png"))
        self.gconv("classify", "n.safetensors", "-i", "i.png", "-o", "p/{stem}_{filter}.png", "--probabilities")
        self.assertEqual(sorted(p.name for p in (self.folder / "p").iterdir()), ["i_1.png", "i_2.png", "i_255.png"])

    @needs("libtiff")
    def test_tiff(self):
        Image.fromarray(picture()).save(self.folder / "i.tif")
        self.save("m.png", mask_of(truth()), COLOURS)
        Image.open(self.folder / "m.png").save(self.folder / "m.tif")
        self.save("i.png", picture())
        self.train()
        first = (self.folder / "n.safetensors").read_bytes()
        self.gconv("train", "-q", "-i", "i.tif", "-t", "m.tif", "--features", "gaussian 1 2, gradient 1, hessian 2", "--net",
                   "dense 8 relu, dense 3 softmax", "--epochs", 15, "--rate", "0.01", "-o", "n.safetensors")
        self.assertEqual((self.folder / "n.safetensors").read_bytes(), first)  # palettes of TIFF are the same
        self.gconv("classify", "n.safetensors", "-i", "i.tif", "-o", "o.tif")
        self.gconv("classify", "n.safetensors", "-i", "i.png", "-o", "o.png")
        np.testing.assert_array_equal(self.read("o.tif"), self.read("o.png"))

    def test_help_lists_kinds_and_sets(self):
        said = self.gconv("train", "--help").stdout
        for name in "gaussian log gradient dog structure hessian intensity edges texture default ilastik skimage".split():
            self.assertRegex(said, rf"\n  {name} +\w")

    def test_training_on_folders_goes_on(self):
        for k, name in enumerate("abc"):
            self.save(f"i/{name}.png", picture(k, 64 + k, 90))
            self.save(f"m/{name}.png", mask_of(truth(64 + k, 90)))
        words = ("train", "-i", "i", "-t", "m", "--features", "gaussian 1, structure 1", "--net", "dense 3 softmax", "--epochs", 6)
        self.gconv(*words, "-o", "n.safetensors", "--validate", "25%")
        self.gconv(*words, "-o", "2.safetensors", "--validate", "25%", "--threads", 1)
        self.assertEqual((self.folder / "n.safetensors").read_bytes(), (self.folder / "2.safetensors").read_bytes())
        self.gconv(*words, "-o", "3.safetensors", "--validate", "i:m")
        # A result that is missing or another is made again, and the same.
        done = ("classify", "n.safetensors", "-i", "i", "-o", "maps/", "--resume")
        self.gconv(*done)
        before = {p.name: p.read_bytes() for p in (self.folder / "maps").glob("*.png")}
        (self.folder / "maps/b.png").unlink()
        (self.folder / "maps/c.png").write_bytes(b"x")
        self.assertIn("2 of 3 written, 1 passed over", self.gconv(*done).stderr)
        self.assertEqual({p.name: p.read_bytes() for p in (self.folder / "maps").glob("*.png")}, before)
        self.assertIn("3 results were done", self.gconv(*done).stderr)
        self.gconv(*words, "-o", "n.safetensors", "--seed", 2)  # another network: all are made again
        self.assertIn("3 written", self.gconv(*done).stderr)
        shards = [self.gconv("classify", "n.safetensors", "-i", "i", "-o", "parts/", "--shard", f"{k}/2") for k in (1, 2)]
        self.assertEqual(len(shards), 2)
        self.assertEqual(sorted(p.name for p in (self.folder / "parts").iterdir()), ["a.png", "b.png", "c.png"])

    def test_masks_of_every_type(self):
        """np.save writes int64 and float64: whole numbers are numbers of classes whatever their type is."""
        self.save("i.png", picture())
        mask = mask_of(truth(numbers=(1, 2, 3)))
        self.save("m.png", mask)
        self.train()
        wanted = (self.folder / "n.safetensors").read_bytes()
        for type_ in "int64 int32 int16 int8 uint64 uint32 uint16 uint8 >i4 float64 float32 float16".split():
            np.save(self.folder / "m.npy", mask.astype(type_))
            for array in (mask.astype(type_), np.asfortranarray(mask.astype(type_))):
                np.save(self.folder / "m.npy", array)
                self.train(mask="m.npy")
                self.assertEqual((self.folder / "n.safetensors").read_bytes(), wanted, type_)
        for wrong, says in ((np.where(mask == 3, -1, mask), "m.npy: has -1 in column"), (np.where(mask == 3, 65536, mask), "m.npy: has 65536 in column"),
                            (mask * 0.5, "m.npy: has 0.5 in column"), (np.where(mask == 3, np.nan, mask), "m.npy: has nan in column"),
                            (mask * 0, "m.npy: no pixel has a class: all are 0")):
            np.save(self.folder / "m.npy", wrong)
            self.assertIn(says, self.train(mask="m.npy", status=1).stderr)
        np.save(self.folder / "m.npy", mask > 1)  # True is the class 1
        self.assertIn("all labelled pixels are 1:", self.train(mask="m.npy", status=1).stderr)

    def test_masks_without_labels(self):
        for name in "ab":
            self.save(f"i/{name}.png", picture())
            self.save(f"m/{name}.png", mask_of(truth()))
        self.save("m/b.png", truth() * 0)
        self.save("none/a.png", truth() * 0)
        self.assertIn("m/b.png: labels no pixel, as all are 0: its image is not learned",
                      self.gconv("train", "-i", "i", "-t", "m", "--features", "gaussian 1", "--net", "dense 3 softmax", "--epochs", 1,
                                 "-o", "n.safetensors").stderr)
        self.assertIn("m/b.png: labels no pixel, as all are 0: it does not count",
                      self.gconv("classify", "n.safetensors", "-i", "i", "--evaluate", "m").stderr)
        for words in ((), ("-o", "o.png")):
            self.assertIn("--evaluate none/a.png: labels no pixel",
                          self.gconv("classify", "n.safetensors", "-i", "i/a.png", "--evaluate", "none/a.png", *words, status=1).stderr)

    def test_refused(self):
        self.save("i.png", picture())
        good = mask_of(truth())
        def refused(says, *words, mask=good, status=1, **options):
            if mask is not None:
                self.save("m.png", mask)
            self.assertIn(says, self.train(*words, status=status, **options).stderr)
            self.assertFalse((self.folder / "n.safetensors").exists())
        refused("the images of a pair must have one size", mask=good[:, :149])
        refused("no pixel has a class: all are 0", mask=good * 0)
        refused("all labelled pixels are 7: there must be two classes at least", mask=np.where(good == 7, 7, 0))
        refused("has colours: a mask has one number a pixel", mask=np.dstack([good] * 3))
        image = Image.fromarray(good.astype(np.uint8))
        for name in ("m.jpg", "hidden.png"):
            image.save(self.folder / name, format="JPEG")  # which has other numbers at edges, too
        image.save(self.folder / "m.webp", quality=80)
        for mask, says in (("m.jpg", "m.jpg: jpeg changes the numbers of a mask: save it as PNG or TIFF"),
                           ("hidden.png", "hidden.png: jpeg changes the numbers"), ("m.webp", "m.webp: webp changes the numbers"),
                           ("none.png", "none.png: there is no such file or folder")):
            for words in (("train", "-i", "i.png", "-t", mask, "--net", "dense 3 softmax", "-o", "n.safetensors"),
                          ("svm", "i.png", mask, "-o", "n.model")):
                self.assertIn(says, self.gconv(*words, "--features", "log 1", status=1).stderr)
        refused("there is no feature", features="blur 1", status=2)
        refused("but the data ask for 3", classes=4, status=2)
        refused("--patch and --augment are for whole images", "--patch", 8, status=2)
        self.assertIn("dense layers alone", self.gconv("train", "-i", "i.png", "-t", "m.png", "--features", "log 1", "--net",
                                                         "dense 4, mean, dense 3 softmax", "-o", "n.safetensors", status=2).stderr)
        self.assertIn("--features is for the pixels", self.gconv("train", "--table", "m.png", "--features", "log 1", "--net", "dense 2",
                                                                "-o", "n.safetensors", status=2).stderr)
        broken = picture().astype(np.float32)
        broken[40, 60] = np.nan
        np.save(self.folder / "i.npy", broken)
        result = self.gconv("train", "-i", "i.npy", "-t", "m.png", "--features", "log 1", "--net", "dense 3 softmax", "-o", "n.safetensors",
                            status=1)
        self.assertIn("are not finite: the image has NaN", result.stderr)
        self.save("m.png", np.where(good == 9, 65535, good))  # a class as any other
        self.assertIn("classes are the numbers 3, 7, 65535", self.train().stderr)
        self.save("m.png", good)
        (self.folder / "masks").mkdir()
        self.save("masks/i.png", good)
        self.train()
        for says, words in (("say with -o where the maps go", ()), ("jpeg changes pixels", ("-o", "o.jpg")),
                            ("name the masks to compare with", ("-o", "o.png", "--evaluate")),
                            ("there is no such file", ("-o", "o.png", "--evaluate", "nothing")), ("one word too many", ("-o", "o.png", "m.png")),
                            ("--json prints what --evaluate finds", ("-o", "o.png", "--json")),
                            ("these are the masks of --evaluate", ("-o", "m.png", "--evaluate", "m.png")),
                            ("a map would replace a mask of --evaluate", ("-o", "masks/{stem}.png", "--evaluate", "masks")),
                            ("a map would replace a mask", ("-o", "masks/../masks/{stem}.png", "--evaluate", "masks/i.png", "--dry-run")),
                            ("reads the maps of classes again", ("-o", "-", "--evaluate", "m.png"))):
            self.assertIn(says, self.gconv("classify", "n.safetensors", "-i", "i.png", *words, status=2).stderr)
        self.assertIn("m.jpg: jpeg changes the numbers of a mask",
                      self.gconv("classify", "n.safetensors", "-i", "i.png", "--evaluate", "m.jpg", status=1).stderr)
        self.save("small.png", good[:50])
        self.assertIn("a mask has the size of its image",
                      self.gconv("classify", "n.safetensors", "-i", "i.png", "-o", "o.png", "--evaluate", "small.png", status=1).stderr)
        self.save("other.png", np.where(good > 0, 8, 0))
        result = self.gconv("classify", "n.safetensors", "-i", "i.png", "-o", "o.png", "--evaluate", "other.png", "--report", "o.html")
        self.assertIn("labelled pixels are of classes that the model does not know, and count as wrong: 8", result.stderr)
        self.assertIn("0.00% of the labelled pixels right", result.stdout)
        self.assertIn("leave out --verify", self.gconv("-i", "i.png", "-f", "n.safetensors", "-o", "o.png", "--verify", status=2).stderr)
        self.assertIn("put it last", self.gconv("-i", "i.png", "-f", "n.safetensors", "--then", "-f", "sobel", "-o", "o.png", status=2).stderr)
        self.assertIn("--combine", self.gconv("-i", "i.png", "-f", "n.safetensors", "--combine", "max", "-o", "o.png", status=2).stderr)
        result = subprocess.run([GCONV, "classify", "n.safetensors", "-i", "i.png", "-o", "o.png", "-d", "cuda"], cwd=self.folder,
                                env=self.environment(), stderr=subprocess.PIPE, text=True, check=False)
        self.assertNotEqual(result.returncode, 0)

    def test_pixels_that_are_no_numbers(self):
        """Where a feature is NaN or infinite, a map is 0, unlabelled, which is told; all other pixels are as they were."""
        image = picture(height=60, width=90).astype("f4") / 255
        np.save(self.folder / "i.npy", image)
        self.save("m.png", mask_of(truth(60, 90)))
        self.save("all.png", truth(60, 90))
        words = ("-i", "i.npy", "-t", "m.png", "--features", "gaussian 1, gradient 1")
        self.gconv("train", *words, "--net", "dense 8 relu, dense 3 softmax", "--epochs", 5, "-o", "n.safetensors")
        for model, kind in (("rbf.model", ()), ("linear.model", ("-k", "linear")), ("sure.model", ("-b",))):
            self.gconv("svm", *words, *kind, "-o", model)
        image[20, 10], image[40, 60] = np.nan, np.inf
        np.save(self.folder / "broken.npy", image)
        reached = np.zeros((60, 90), bool)
        reached[16:25, 6:15] = reached[36:45, 56:65] = True
        for model in "n.safetensors", "rbf.model", "linear.model", "sure.model":
            self.gconv("classify", model, "-i", "i.npy", "-o", "whole.npy")
            for memory in (), ("--memory", "20M"):
                said = self.gconv("classify", model, "-i", "broken.npy", "-o", "o.npy", *memory).stderr
                self.assertIn("where numbers are NaN or infinite, pixels of a map have no class: they are 0, unlabelled", said)
                np.testing.assert_array_equal(np.load(self.folder / "o.npy"), np.where(reached, 0, np.load(self.folder / "whole.npy")))
            found = json.loads(self.gconv("classify", model, "-i", "broken.npy", "--evaluate", "all.png", "--json").stdout)
            self.assertEqual(np.sum(found["confusion"]), 60 * 90 - 162)  # the others are in no row, and wrong
            right = (np.load(self.folder / "o.npy") == truth(60, 90)).mean()
            self.assertAlmostEqual(found["accuracy"], right)
        self.gconv("classify", "sure.model", "-i", "broken.npy", "-o", "p.npy", "--probabilities")
        np.testing.assert_array_equal(np.isnan(np.load(self.folder / "p.npy").reshape(3, 60, 90)), [reached] * 3)
        rows = "1 1 1\n" * 3
        (self.folder / "bank.txt").write_text(f"gconv-bank 1\nfilters 2 channels 1 size 3 3\nfilter a\n{rows}filter b\n{rows}")
        self.gconv("-i", "broken.npy", "-f", "bank.txt", "--combine", "argmax", "-o", "o.npy", "--verify")
        found = np.load(self.folder / "o.npy").reshape(60, 90)
        self.assertEqual(np.isnan(found).sum(), 18)
        self.gconv("-i", "broken.npy", "-f", "bank.txt", "--combine", "argmax", "-o", "o.png")
        self.assertEqual((self.read("o.png") == 0).all(2).sum(), 18)


if __name__ == "__main__":
    unittest.main()
