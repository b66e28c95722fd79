# SPDX-License-Identifier: MIT
"""gconv train: networks that learn spirals, pictures and signals, what is printed and written, checkpoints, and what is refused."""
import base64
import io
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import unittest

import numpy as np
from helper import GCONV, CommandTest
from PIL import Image

NET = "dense 32 relu, dense 32 relu, dense 2 softmax"


def spirals(count, seed=0):
    rng = np.random.default_rng(seed)
    angle, arm = rng.uniform(0.5, 3.5, count) * np.pi, rng.integers(0, 2, count)
    points = np.stack([angle * np.cos(angle + np.pi * arm), angle * np.sin(angle + np.pi * arm)], 1)
    return points + rng.normal(0, 0.1, points.shape), arm


def read_network(path):
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    tensors = {name: np.frombuffer(content[8 + size:][slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
               for name, entry in header.items() if name != "__metadata__"}
    return tensors, json.loads(header["__metadata__"]["gconv"])


class TrainTest(CommandTest):
    def spirals(self, name="s.csv", count=500, seed=0):
        points, arms = spirals(count, seed)
        (self.folder / name).write_text("x,y,arm\n" + "".join(f"{x:.5f},{y:.5f},{'ab'[arm]}\n" for (x, y), arm in zip(points, arms)))
        return points, arms

    def train(self, *words, net=NET, output="n.safetensors", **options):
        return self.gconv("train", "--net", net, "-o", output, *words, **options)

    def table(self, *words, **options):
        return self.train("--table", "s.csv", "--rate", "0.01", *words, **options)

    def refused(self, fragment, *words, net=NET, output="n.safetensors"):
        return self.usage_error(fragment, "train", "--net", net, "-o", output, *words)


class Tables(TrainTest):
    def test_losses_that_differ_in_their_last_bits_are_drawn(self):
        self.spirals()
        self.train("--table", "s.csv", "--rate", "1e-30", "--epochs", "20", "--plot", "p.svg")
        self.assertIn("</svg>", (self.folder / "p.svg").read_text())

    def test_spirals(self):
        points, arms = self.spirals()
        result = self.table("--validate", "20%")
        self.assertRegex(result.stdout, r"n.safetensors: all epochs are done\n  best epoch  \d+\n  training    loss [\d.e-]+, (9[5-9]|100)\.\d\d% right, while it learned\n"
                                        r"  validation  loss [\d.e-]+, (9[5-9]|100)\.\d\d% right\n  device      cpu \(.*\), algorithm exact\n"
                                        r"  time        [\d.]+ s, \d+ cases a second\n$")
        lines = result.stderr.splitlines()
        self.assertEqual(lines[0], "s.csv: 400 cases of 2 numbers, 2 classes; 100 for validation")
        self.assertEqual([re.match(r"epoch (\d+)/100  loss", line)[1] for line in lines[1:]], ["1", *map(str, range(10, 101, 10))])
        tensors, about = read_network(self.folder / "n.safetensors")
        self.assertEqual(about["classes"], ["b", "a"] if arms[0] else ["a", "b"])
        self.assertEqual(tensors["l0.weight"].shape, (32, 2, 1, 1))
        self.assertEqual(self.files(), ["n.safetensors", "s.csv"])
        # The network in numpy.
        x = (points.round(5).astype(np.float32) - np.float32(about["mean"])) / np.float32(about["std"])
        for i in range(3):
            x = x @ tensors[f"l{i}.weight"][:, :, 0, 0].T + tensors[f"l{i}.bias"]
            x = np.maximum(x, 0) if i < 2 else x
        right = np.mean(np.array(about["classes"])[x.argmax(1)] == np.array(["a", "b"])[arms])
        self.assertGreater(right, 0.95)

    def test_words_that_name_data(self):
        """A word is what it names: a table, images by class, a signal, images and masks; a second one is its targets."""
        self.spirals()
        points, arms = spirals(60)
        np.save(self.folder / "x.npy", points)
        np.save(self.folder / "y.npy", arms)
        np.save(self.folder / "s.npy", np.arange(60.0))
        for name in ("c/a/1.png", "c/b/2.png", "before/1.png", "after/1.png"):
            self.photo(name, 8, 8, len(name))
        Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) % 2 + 1).save(self.folder / "m.png")
        image = ("--net", "conv 3 3x3, residual")
        for words, options in ((("s.csv",), ("--table", "s.csv")), (("x.npy", "y.npy"), ("--table", "x.npy", "-t", "y.npy")),
                               (("x.npy", "-t", "y.npy"), ("--table", "x.npy", "-t", "y.npy")), (("c",), ("--classes", "c")),
                               (("s.npy", "y.npy", "--windows", 4), ("--signal", "s.npy", "-t", "y.npy", "--windows", 4)),
                               (("before", "after", *image), ("-i", "before", "-t", "after", *image)),
                               (("before/1.png", "after/1.png", *image), ("-i", "before/1.png", "-t", "after/1.png", *image)),
                               (("before/1.png", "m.png", "--features", "gaussian 1"), ("-i", "before/1.png", "-t", "m.png", "--features", "gaussian 1"))):
            wanted, = (self.gconv("train", "--net", NET, "-o", "n.safetensors", "--epochs", 1, *options) and (self.folder / "n.safetensors").read_bytes(),)
            (self.folder / "n.safetensors").unlink()
            self.gconv("train", *words[:1], "--net", NET, "-o", "n.safetensors", "--epochs", 1, *words[1:])
            self.assertEqual((self.folder / "n.safetensors").read_bytes(), wanted, words)
        content = (self.folder / "s.csv").read_bytes()
        self.gconv("train", "-", "--net", NET, "-o", "n.safetensors", "--epochs", 1, stdin=content)

    def test_normalization(self):
        rng = np.random.default_rng(1)
        table = np.stack([rng.normal(1e6, 3, 200), np.full(200, 7.5), rng.normal(0, 1e-3, 200)], 1).astype(np.float32)
        labels = (table[:, 2] > 0).astype(int)
        np.save(self.folder / "x.npy", table)
        np.save(self.folder / "y.npy", labels)
        for words, kept in [((), True), (("--normalize", "no"), False)]:
            self.train("--table", "x.npy", "-t", "y.npy", "--epochs", "1", *words)
            about = read_network(self.folder / "n.safetensors")[1]
            if kept:
                np.testing.assert_allclose(about["mean"], table.astype(float).mean(0), rtol=1e-6, atol=1e-9)
                np.testing.assert_allclose(about["std"], [table[:, 0].astype(float).std(), 1, table[:, 2].astype(float).std()], rtol=1e-5)
            self.assertEqual("mean" in about and bool(about["mean"]), kept)

    def test_one_seed_one_result(self):
        self.spirals()
        contents = []
        for seed, threads in (0, 1), (0, 2), (1, 2):
            self.table("--epochs", "3", "--seed", seed, "--threads", threads)
            contents.append((self.folder / "n.safetensors").read_bytes())
        self.assertEqual(contents[0], contents[1])
        self.assertNotEqual(contents[1], contents[2])

    def test_json(self):
        self.spirals()
        result = self.table("--json", "--epochs", "5", "--validate", "10%")
        *epochs, end = map(json.loads, result.stdout.splitlines())
        self.assertEqual([e["epoch"] for e in epochs], [1, 2, 3, 4, 5])
        self.assertEqual(set(epochs[0]), {"epoch", "loss", "accuracy", "validation_loss", "validation_accuracy", "best", "seconds"})
        self.assertTrue(epochs[0]["best"])
        self.assertEqual((end["epochs"], end["ended"]), (5, "all epochs are done"))
        self.assertEqual(result.stderr, "")
        self.assertEqual(self.table("--quiet", "--epochs", "1").stdout, "")

    def test_what_was_chosen_is_told(self):
        self.spirals()
        layers, slices = "no other is known to be faster here; layers 1 to 3, dense, ", "128 cases at a time; a step of"
        for words, net, told in (([], NET, f"{layers}{slices} 32 cases: one part, for one thread"),
                                 (["--batch", "full"], NET, f"{layers}{slices} 500 cases: 4 parts for 2 threads"),
                                 (["-a", "exact", "--batch", "160"], "dense 2 softmax",
                                  f"asked for; layer 1, dense, {slices} 160 cases: one thread, as others would wake too late for 1280 multiply-adds")):
            words = [*words, "--threads", "2"]
            self.assertRegex(self.table(*words, "-v", net=net, env={"GCONV_MOST_THREADS": "2"}).stderr, rf"gconv: device cpu \(.*\); algorithm exact, as {told}\n")
            result = self.table(*words, "--json", net=net, env={"GCONV_MOST_THREADS": "2"})
            summary = json.loads(result.stdout.splitlines()[-1])
            self.assertEqual((result.stderr, summary["device"], summary["algorithm"], summary["chosen"]), ("", "cpu", "exact", f"exact, as {told}"))
        self.assertIn("exclude each other", self.table("-v", "-q", status=2).stderr)

    def test_other_data_for_validation(self):
        self.spirals()
        self.spirals("v.csv", 100, 1)
        *epochs, end = map(json.loads, self.table("--json", "--validate", "v.csv").stdout.splitlines())
        self.assertGreater(max(e["validation_accuracy"] for e in epochs), 0.95)
        (self.folder / "v.csv").write_text("x,y,arm\n1,2,c\n")
        self.assertIn("v.csv:2: the label \"c\" is none of the classes", self.table("--validate", "v.csv", status=1).stderr)

    def test_options_of_training(self):
        self.spirals()
        for words in (["--optimizer", "rprop"], ["--optimizer", "momentum", "--momentum", "0.5", "--rate", "0.01"], ["--optimizer", "sgd", "--schedule", "cosine", "--batch", "full"],
                      ["--loss", "sse", "--elimination", "1e-4:0.5"], ["--weight-decay", "1e-3", "--schedule", "step", "-a", "exact"]):
            self.train("--table", "s.csv", "--epochs", "4", *words, net="dense 8 sigmoid, dense 2 sigmoid")
            how = read_network(self.folder / "n.safetensors")[1]["trained"]
            for name, value in zip(words, words[1:]):
                if name in ("--optimizer", "--loss", "--schedule"):
                    self.assertEqual(how[name[2:]], value)
        self.assertRegex(self.gconv("info", "n.safetensors").stdout,
                         r"\n  trained     mse by adam, rate 0.001, schedule step, weight decay 0.001, batches of 32, seed 0; 64 steps with 500 cases; "
                         r"weights of epoch 4, smallest loss 0\.\d+\n")
        stopped = self.table("--stop-error", "0.3", "--json").stdout.splitlines()
        self.assertLess(len(stopped), 90)
        self.assertIn("no more than the one to stop at", stopped[-1])

    def test_regression(self):
        rng = np.random.default_rng(2)
        x = rng.uniform(-1, 1, (400, 2)).astype(np.float32)
        (self.folder / "r.csv").write_text("a,b,c\n" + "".join(f"{a},{b},{a * b}\n" for a, b in x))
        result = self.train("--table", "r.csv", "--regression", "--rate", "0.01", net="dense 24 tanh, dense 1")
        self.assertLess(float(re.search(r"training    loss ([\d.e-]+)", result.stdout)[1]), 2e-3)


    def test_batch_normalisation_needs_a_batch(self):
        """One number a channel has no deviation: such steps are refused, and a last batch of one case moves no variance."""
        x = np.random.default_rng(1).normal([3, -2], [0.5, 4], (33, 2)).astype("f4")
        (self.folder / "t.csv").write_text("a,b,c\n" + "".join(f"{a:.5f},{b:.5f},{'y' if a < 3 else 'z'}\n" for a, b in x))
        words = ("--table", "t.csv", "--normalize", "no", "--epochs", "300", "--batch")
        self.refused("take a --batch of 2 cases or more", *words, "1", net="dense 4, batchnorm relu, dense 2 softmax")
        for batch in ("32", "full"):
            self.train(*words, batch, net="batchnorm, dense 2 softmax")
            norm = read_network(self.folder / "n.safetensors")[0]["l0.weight"].reshape(2, 3)
            np.testing.assert_allclose(norm[:, 1], x.mean(0), rtol=0, atol=0.1 * x.std(0).max())
            np.testing.assert_allclose(norm[:, 2], x.var(0, ddof=1), rtol=0.1)


class Pictures(TrainTest):
    def test_classes(self):
        rng = np.random.default_rng(3)
        for i in range(12):
            for name, axis in ("rows", 0), ("columns", 1):
                stripes = np.repeat(rng.integers(0, 256, (1, 24)), 24, 0).astype(np.uint8)
                path = self.folder / "photos" / name / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(stripes.T if axis == 0 else stripes).save(path)
        result = self.train("--classes", "photos", "--patch", "12", "--epochs", "30", "--rate", "0.02", "--batch", "8", "--augment", "--json",
                            net="conv 8 3x3/2 relu, mean, dense 2 softmax")
        self.assertEqual(len(result.stdout.splitlines()), 31)
        result = self.train("--classes", "photos", "--patch", "12", "--epochs", "60", "--rate", "0.02", "--batch", "8", "--validate", "25%",
                            net="conv 8 3x3 relu, conv 8 3x3 relu, mean, dense 2 softmax")
        self.assertRegex(result.stdout, r"validation  loss [\d.e-]+, (8|9|10)\d\.\d\d% right|100.00% right")
        self.assertIn("18 cases of 12 x 12 pixels, 2 classes; 6 for validation", result.stderr)
        self.refused("dense", "--classes", "photos", "--patch", "12", net="conv 8 3x3 relu, dense 2 softmax")
        self.refused("--validate photos:x: images by class need no targets", "--classes", "photos", "--validate", "photos:x")

    def test_memory_that_is_not_clear(self):
        """What malloc gives may hold anything: here 3e38, of which two make infinity."""
        random = np.random.default_rng(1)
        np.save(self.folder / "x.npy", random.normal(size=(40, 3, 6, 6)).astype("f4"))
        np.save(self.folder / "t.npy", random.normal(size=(40, 1, 6, 6)).astype("f4"))
        for net in "conv 9 3x3 relu, conv 1 3x3", "conv 2 3x3/2 relu, conv 3 3x3 tanh, mean, dense 36":
            results = []
            for tunables in "", "glibc.malloc.perturb=128":
                self.train("--table", "x.npy", "-t", "t.npy", "--epochs", "2", net=net, env={"GLIBC_TUNABLES": tunables})
                results.append((self.folder / "n.safetensors").read_bytes())
            self.assertEqual(*results)

    def test_targets_of_another_size(self):
        self.photo("b/x.png", 12, 10), self.photo("a/x.png", 12, 10)
        self.refused("outputs are 3 x 5 x 6 (channels, height, width), but the targets 3 x 10 x 12: strides", "-i", "b", "-t", "a", net="conv 3 3x3/2")

    def test_pairs_find_a_filter(self):
        rng = np.random.default_rng(4)
        for i in range(3):
            image = rng.integers(0, 256, (40, 40)).astype(np.float64)
            after = np.rint((image + np.roll(image, 1, 1) + np.roll(image, -1, 1)) / 3)
            for name, pixels in ("b", image), ("a", after):
                (self.folder / name).mkdir(exist_ok=True)
                Image.fromarray(pixels.astype(np.uint8)).save(self.folder / name / f"{i}.png")
        result = self.train("-i", "b", "-t", "a", "--patch", "16", "--epochs", "300", "--rate", "0.02", "--batch", "4", "--schedule", "cosine",
                            "--report", "r.html", net="conv 1 3x3")
        tensors, _ = read_network(self.folder / "n.safetensors")
        np.testing.assert_allclose(tensors["l0.weight"][0, 0], [[0, 0, 0], [1 / 3] * 3, [0, 0, 0]], atol=0.12)
        page = (self.folder / "r.html").read_text()
        self.assertEqual(page.count("alt='before'"), 4)
        self.assertEqual(page.count("alt='wanted'"), 4)


class Signals(TrainTest):
    def test_windows(self):
        rng = np.random.default_rng(5)
        labels = rng.integers(0, 2, 200)
        wave = np.concatenate([np.sin(np.arange(50) * (0.3 if k else 0.9) + rng.uniform(0, 6)) for k in labels]).astype("<f4")
        (self.folder / "w.raw").write_bytes(wave.tobytes())
        np.save(self.folder / "t.npy", labels)
        result = self.train("--signal", "w.raw", "--raw", "f32le", "--windows", "50", "-t", "t.npy", "--rate", "0.005", "--validate", "25%", net="dense 24 tanh, dense 2 softmax")
        self.assertIn("cases of 50 samples, 2 classes; 5", result.stderr)
        self.assertRegex(result.stdout, r"validation  loss [\d.e-]+, (9\d|100)\.\d\d% right")


class Interruptions(TrainTest):
    def stop(self, number, *words, **options):
        process = subprocess.Popen([GCONV, "train", "--table", "s.csv", "--net", NET, "-o", "n.safetensors", "--json", "--rate", "0.001", *words], cwd=self.folder,
                                   env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        for _ in range(20):
            process.stdout.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        return process.returncode, errors

    @unittest.skipIf("GCONV_SANITIZED" in os.environ, "sanitizers take memory of their own")
    def test_memory(self):
        """Data and steps that are larger than --memory: the same bytes, within it."""
        rng = np.random.default_rng(5)
        np.save(self.folder / "x.npy", rng.normal(size=(150000, 40)).astype("f4"))
        np.save(self.folder / "t.npy", rng.normal(size=(150000, 2)).astype("f4"))
        for folder in "b", "a":
            (self.folder / folder).mkdir()
            for i in range(16):
                Image.fromarray(rng.integers(0, 255, (560, 560, 3), np.uint8)).save(self.folder / folder / f"{i}.ppm")
        table = ["--table", "x.npy", "-t", "t.npy", "--epochs", "1", "--batch", "4096", "--validate", "20%"]
        pairs = ["-i", "b", "-t", "a", "--patch", "160", "--epochs", "1", "--batch", "16"]
        for words, net in (table, "dense 4 tanh, dense 2"), (pairs, "conv 2 3x3 relu, conv 3 3x3"):
            self.train(*words, "--threads", "2", net=net, output="whole.safetensors")
            peak = self.peak_bytes("train", "--net", net, *words, "-o", "parts.safetensors", "--memory", "30M", "--threads", "2")
            self.assertEqual((self.folder / "whole.safetensors").read_bytes(), (self.folder / "parts.safetensors").read_bytes())
        self.assertLess(peak, 33e6)  # of pictures: pages of the file that numbers are in count, but can be taken away
        result = self.train(*table, "--memory", "24M", net="dense 40000, dense 2", status=1)
        self.assertIn("--memory allows 24 MB: raise it", result.stderr)

    def test_checkpoint_and_resume(self):
        self.spirals()
        words = ["--epochs", "3000", "--validate", "20%"]
        for number in signal.SIGINT, signal.SIGTERM:
            status, errors = self.stop(number, *words)
            self.assertEqual(status, -number, errors)
            self.assertRegex(errors, r"stopped after \d+ of 3000 epochs: n.safetensors.checkpoint is written; the same command with --resume goes on\n$")
            self.assertEqual(self.files(), ["n.safetensors.checkpoint", "s.csv"])
        self.train("--table", "s.csv", "--rate", "0.001", "--resume", *words)
        self.assertEqual(self.files(), ["n.safetensors", "s.csv"])
        resumed = (self.folder / "n.safetensors").read_bytes()
        self.train("--table", "s.csv", "--rate", "0.001", *words)
        self.assertEqual((self.folder / "n.safetensors").read_bytes(), resumed)

    def test_a_checkpoint_that_cannot_be_written(self):
        """As on a full disk: an older checkpoint stays as it is."""
        def fill_disk():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        self.spirals()
        words = ["--epochs", "3000", "--validate", "20%"]
        for older in [], ["n.safetensors.checkpoint"]:
            before = [(self.folder / name).read_bytes() for name in older]
            _, errors = self.stop(signal.SIGTERM, *words, *(["--resume"] if older else []), preexec_fn=fill_disk)
            self.assertRegex(errors, r"gconv: the checkpoint is not written: .*n\.safetensors\.checkpoint: cannot write: File too large\n")
            self.assertEqual(self.files(), [*older, "s.csv"])
            self.assertEqual([(self.folder / name).read_bytes() for name in older], before)
            self.stop(signal.SIGTERM, *words)

    def test_a_report_has_the_middle_of_large_pictures(self):
        rng = np.random.default_rng(3)
        for side in "ab":
            Image.fromarray(rng.integers(0, 256, (20, 300)).astype("u1")).save(self.folder / f"{side}.png")
        self.train("-i", "a.png", "-t", "b.png", "--epochs", "1", "--report", "r.html", net="conv 1 3x3")
        page = (self.folder / "r.html").read_text()
        pictures = re.findall(r"title='(before|after|wanted)' width='(\d+)' height='(\d+)' src='data:image/png;base64,([^']+)'", page)
        self.assertEqual([picture[:3] for picture in pictures], [(name, "256", "20") for name in ("before", "after", "wanted")])
        shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(pictures[0][3]))).convert("L"))
        np.testing.assert_array_equal(shown, np.asarray(Image.open(self.folder / "a.png"))[:, 22:278])
        self.assertIn("what was wanted; the middle of each", page)

    def test_what_a_killed_run_left_is_removed(self):
        self.spirals()
        for name in (".n.safetensors.gconv-aBc123", ".n.safetensors.checkpoint.gconv-aBc123", ".r.html.gconv-aBc123"):
            (self.folder / name).write_text("half")
        self.table("--epochs", "1", "--report", "r.html")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["n.safetensors", "r.html", "s.csv"])

    def test_resume_of_pictures_that_differ(self):
        rng = np.random.default_rng(3)
        for side in "ab":
            (self.folder / side).mkdir()
            for i in range(3):
                Image.fromarray(rng.integers(0, 256, (16, 16)).astype("u1")).save(self.folder / side / f"{i}.png")
        words = ["-i", "a", "-t", "b", "--patch", "8", "--epochs", "100000"]
        process = subprocess.Popen([GCONV, "train", *words, "--net", "conv 1 3x3", "-o", "n.safetensors", "--json"], cwd=self.folder, env=self.environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.readline()
        process.terminate()
        process.communicate(timeout=60)
        self.refused("was made with other data", *words, "--augment", "--resume", net="conv 1 3x3")
        shutil.copy(self.folder / "a/0.png", self.folder / "a/2.png")
        Image.fromarray(np.zeros((16, 16), "u1")).save(self.folder / "a/2.png")
        self.refused("was made with other data", *words, "--resume", net="conv 1 3x3")

    def test_resume_tells_epochs_of_all_runs(self):
        self.spirals()
        self.stop(signal.SIGTERM, "--epochs", "100000")
        _, errors = self.stop(signal.SIGTERM, "--epochs", "100000", "--resume")
        self.assertGreater(int(re.search(r"stopped after (\d+) of", errors)[1]), 20)
        result = self.train("--table", "s.csv", "--rate", "0.001", "--epochs", "7", "--resume")  # fewer than are done
        self.assertIn("all epochs are done", result.stdout)

    def test_resume_needs_the_same_run(self):
        self.spirals()
        self.assertIn("there is no n.safetensors.checkpoint: training begins", self.table("--epochs", "1", "--resume").stderr)
        self.refused("n.safetensors is complete", "--table", "s.csv", "--resume")
        self.stop(signal.SIGTERM, "--epochs", "100000")
        words = ["--epochs", "100000", "--json", "--rate", "0.001", "--resume"]
        self.refused("was made with another network", "--table", "s.csv", *words, net=NET.replace("32", "31"))
        self.refused("its rate was 0.001, and is 0.1 now", "--table", "s.csv", *words, "--rate", "0.1")
        self.refused("its algorithm was \"auto\", and is \"exact\" now", "--table", "s.csv", *words, "-a", "exact")
        self.refused("its cases was 500, and is 400 now", "--table", "s.csv", *words, "--validate", "20%")
        self.refused("was made with another mean and standard deviation", "--table", "s.csv", *words, "--normalize", "no")
        lines = (self.folder / "s.csv").read_text().splitlines(keepends=True)
        (self.folder / "s.csv").write_text("".join(lines[:-1]) + lines[1])
        self.refused("n.safetensors.checkpoint was made with other data: go on with the same, or begin anew", "--table", "s.csv", *words)
        (self.folder / "s.csv").write_text("".join(lines))
        self.assertIn("--resume would continue it", self.train("--table", "s.csv", "--epochs", "1").stderr)


class Refusals(TrainTest):
    def test_what_is_missing(self):
        self.spirals()
        self.usage_error("no network: say with --net", "train", "--table", "s.csv", "-o", "n.safetensors")
        self.usage_error("no output: name the file", "train", "--table", "s.csv", "--net", NET)
        self.refused("no data: name a table, FILE or --table FILE")
        self.refused("give one of them, once", "--table", "s.csv", "--classes", "s")
        for words in (("--table", "s.csv", "s.csv"), ("-i", "s.csv", "s.csv"), ("s.csv", "s.csv", "s.csv"), ("s.csv", "s.csv", "-t", "s.csv")):
            self.refused("s.csv: one word too many: name the data", *words)
        self.refused("-i s.csv: name what is wanted of these images", "-i", "s.csv")
        self.refused("say with --windows S:HOP", "--signal", "s.csv")
        self.refused("--windows and --raw are for --signal", "--table", "s.csv", "--windows", "5")
        self.refused("--patch, --augment and --gray are for images", "--table", "s.csv", "--patch", "5")

    def test_outputs(self):
        self.spirals()
        self.refused("a network is a file of safetensors: -o n.pt.safetensors", "--table", "s.csv", output="n.pt")
        self.refused("there is no folder none", "--table", "s.csv", output="none/n.safetensors")
        self.refused("--plot p.png: the curves are drawn as SVG", "--table", "s.csv", "--plot", "p.png")
        self.refused("--report r.txt: the report is a page of HTML", "--table", "s.csv", "--report", "r.txt")
        shutil.copy(self.folder / "s.csv", self.folder / "s.safetensors")
        self.refused("would replace a file that is read", "--table", "s.safetensors", output="s.safetensors")
        (self.folder / "d.safetensors").mkdir()
        self.refused("is a folder: name a file", "--table", "s.csv", output="d.safetensors")

    def test_profile(self):
        self.spirals()
        for device in (), ("-d", "cpu"):
            self.refused("--profile records the kernels of NVIDIA GPUs: take one with -d cuda", "--table", "s.csv", "--profile", *device)

    def test_values(self):
        self.spirals()
        for words, message in [(["--batch", "0"], "this takes a number of cases from 1 on, or full"), (["--validate", "120%"], "a share between 0% and 100%"),
                               (["--validate", "0.01%"], "leave no case"), (["--optimizer", "adan"], "did you mean adam?"), (["--elimination", "x"], "this takes lambda"),
                               (["--windows", "0"], "this takes S or S:HOP"), (["--separator", "ab"], "this takes one character"), (["--label", "z"], "there is no column 'z'"),
                               (["--loss", "cross-entropy", "--net", "dense 2 tanh"], "softmax"), (["--rate", "-1"], "the rate is -1")]:
            self.refused(message, "--table", "s.csv", *words)
        self.refused("dens", "--table", "s.csv", net="dens 3 tanh")
        self.refused("3", "--table", "s.csv", net="dense 3 softmax")

    def test_divergence(self):
        self.spirals()
        result = self.gconv("train", "--table", "s.csv", "--net", "dense 8, dense 2", "-o", "n.safetensors", "--optimizer", "sgd", "--rate", "1e5", "--normalize", "no", status=1)
        self.assertIn("training diverged", result.stderr)
        self.assertIn("in its first epoch", result.stderr)
        self.assertIn("nothing is written: take a smaller rate", result.stderr)
        self.assertEqual(self.files(), ["s.csv"])

    def test_the_sandbox_lets_reports_lie_elsewhere(self):
        self.spirals()
        (self.folder / "other").mkdir()
        self.table("--epochs", "1", "--report", "other/r.html")
        self.assertEqual(self.files(), ["n.safetensors", "other/r.html", "s.csv"])


if __name__ == "__main__":
    unittest.main()
