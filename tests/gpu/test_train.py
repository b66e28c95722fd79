# SPDX-License-Identifier: MIT
"""Training on a GPU with --algorithm exact: the bytes of the CPU, for every kind of layer, loss and optimiser; and --resume."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import numpy as np
from test_networks import SKIPPED, has_gpu
from helper import GCONV  # test_networks has told Python where this is
from network_helper import NetworkTest, load_tensors


class Training(NetworkTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(1)
        x = random.normal(size=(333, 7))
        rows = zip(x, (x @ random.normal(size=(7, 5))).argmax(1))
        lines = ["a,b,c,d,e,f,g,class", *(",".join([*(f"{v:.5f}" for v in row), "vwxyz"[label]]) for row, label in rows)]
        (self.folder / "t.csv").write_text("\n".join(lines) + "\n")
        for name, array in (("x", random.normal(size=(70, 3, 11, 9))), ("y", random.normal(size=(70, 6))), ("large", random.normal(size=(5, 2, 70, 50))),
                            ("fours", random.normal(size=(7, 3, 13, 24))), ("wide", random.normal(size=(3, 6, 11, 308)))):
            np.save(self.folder / f"{name}.npy", array.astype("f4"))
        np.save(self.folder / "class.npy", random.integers(0, 4, 70))
        np.save(self.folder / "large_class.npy", np.array([0, 1, 2, 1, 0]))

    def train(self, name, *words):
        """The bytes of the trained network, but of what the file says of how it was trained."""
        self.gconv("train", *words, "-o", name, "-q")
        return (self.folder / name).read_bytes()

    def check(self, *words):
        for seed in (1, 2):
            more = (*words, "-a", "exact", "--seed", str(seed))
            with self.subTest(words=more):
                on = [self.train("n.safetensors", *more, "-d", device) for device in ("cpu", "cuda")]
                self.assertEqual(*on)

    TABLE = ("--table", "t.csv", "--label", "class", "--epochs", "3")

    def test_optimizers(self):
        for optimizer in ("adam", "sgd", "momentum", "rprop"):
            for batch in ("32", "full") if optimizer != "rprop" else ("full",):
                self.check(*self.TABLE, "--net", "dense 13 tanh, dense 5 softmax", "--optimizer", optimizer, "--batch", batch)

    def test_many_cases(self):
        """A launch has at most 65,535 rows of blocks, of 16 cases each: one case more."""
        x = np.random.default_rng(5).normal(size=(65535 * 16 + 1, 2)).astype("f4")
        np.save(self.folder / "many.npy", x)
        np.save(self.folder / "of.npy", (x[:, 0] > x[:, 1]).astype("u1"))
        for device in ("cpu", "cuda"):
            self.train(f"{device}.safetensors", "--table", "many.npy", "-t", "of.npy", "--net", "dense 3 tanh, dense 2 softmax",
                       "--epochs", "2", "--batch", "full", "-d", device)
        made, expected = (load_tensors(self.folder / f"{device}.safetensors")[0] for device in ("cuda", "cpu"))
        for name in expected:
            np.testing.assert_allclose(made[name], expected[name], rtol=0, atol=1e-4, err_msg=name)

    def test_bounded(self):
        """Without -a exact, sums may be in another order, and be products of tensor cores: losses stay the same to 1e-4."""
        random = np.random.default_rng(4)
        for name, shape in (("p", (40, 64, 28, 28)), ("q", (40, 3, 30, 22)), ("r", (20, 32, 13, 17))):
            np.save(self.folder / f"{name}.npy", random.normal(size=shape).astype("f4"))
            np.save(self.folder / f"{name}_class.npy", random.integers(0, 4, shape[0]))
        for name, net in (("p", "conv 64 3x3 relu, conv 32 3x3 tanh, mean, dense 4 softmax"),
                          ("p", "conv 128 1x1 relu, conv 96 3x3 groups 2 tanh, mean, dense 4 softmax"),
                          ("q", "conv 32 5x5 relu, conv 64 3x3/2 sigmoid, conv 20 1x1, mean, dense 4 softmax"),
                          ("r", "conv 48 3x3 leaky, conv 33 3x3 relu, mean, dense 4 softmax")):
            data = ("--table", f"{name}.npy", "-t", f"{name}_class.npy", "--net", net, "--epochs", "25", "--batch", "10", "-d", "cuda")
            losses, ends = {}, {}
            for how in (("-a", "exact"), (), ("--math", "tf32")):
                lines = self.gconv("train", *data, *how, "--json", "-o", "b.safetensors").stdout.splitlines()
                *epochs, ends[how] = [json.loads(line) for line in lines]
                losses[how] = np.array([epoch["loss"] for epoch in epochs])
            with self.subTest(net=net):
                self.assertEqual([end["algorithm"] for end in ends.values()], ["exact", "bounded", "bounded"])
                self.assertIn("tensor cores", ends[()]["chosen"])
                np.testing.assert_allclose(losses[()], losses["-a", "exact"], rtol=1e-4)
                np.testing.assert_allclose(losses["--math", "tf32"], losses["-a", "exact"], rtol=3e-2)
                self.assertFalse(np.array_equal(losses["--math", "tf32"], losses["-a", "exact"]))
                self.assertEqual(self.train("b.safetensors", *data), self.train("b.safetensors", *data))

    def test_dense_products(self):
        """Dense layers of batches that are not resident: their products have the accuracy of float32, for odd shapes, batches with a smaller last one,
        and steps as CUDA graphs. The bytes are the same each time."""
        random = np.random.default_rng(6)
        for cases, inputs, outputs in ((1000, 33, 7), (700, 300, 130)):
            x = random.normal(size=(cases, inputs)).astype("f4")
            np.save(self.folder / "x.npy", x)
            np.save(self.folder / "y.npy", np.tanh(x @ random.normal(size=(inputs, outputs)) / inputs).astype("f4"))
            np.save(self.folder / "of.npy", x[:, :outputs].argmax(1))
            values = ("-t", "y.npy", "--regression")
            for batch, net, *words in (("full", "dense 131 tanh, dense 64 sigmoid=2, dense {} tanh", *values), ("300", "dense 200 leaky, dense {}", *values),
                                       ("full", "dense 17 softmax, dense {}", "--loss", "mae", *values),
                                       ("300", "dense 260 relu, dense {} softmax", "-t", "of.npy")):
                data = ("--table", "x.npy", "--net", net.format(outputs), "--batch", batch, "--epochs", "20" if batch == "full" else "3", "-d", "cuda",
                        *words)
                losses, ends = {}, {}
                for how in (("-a", "exact"), (), ("--math", "tf32")):
                    lines = self.gconv("train", *data, *how, "--json", "-o", "b.safetensors").stdout.splitlines()
                    *epochs, ends[how] = [json.loads(line) for line in lines]
                    losses[how] = np.array([epoch["loss"] for epoch in epochs])
                with self.subTest(cases=cases, net=net, batch=batch):
                    self.assertEqual([end["algorithm"] for end in ends.values()], ["exact", "bounded", "bounded"])
                    self.assertIn("tensor cores", ends[()]["chosen"])
                    np.testing.assert_allclose(losses[()], losses["-a", "exact"], rtol=2e-4)
                    np.testing.assert_allclose(losses["--math", "tf32"], losses["-a", "exact"], rtol=3e-2)
                    self.assertFalse(np.array_equal(losses["--math", "tf32"], losses["-a", "exact"]))
                    self.assertEqual(self.train("b.safetensors", *data), self.train("b.safetensors", *data))

    def test_dense_networks(self):
        for net, *words in (
            ("dense 13 sigmoid, dense 9 relu, dense 5 softmax", "--validate", "20%", "--batch", "17"),
            ("dense 13 leaky, dense 5 softmax", "--validate", "20%", "--batch", "7", "--weight-decay", "0.01", "--elimination", "0.001:1", "--optimizer", "sgd"),
            ("dense 13 sigmoid=2, dense 5 sigmoid", "--loss", "mse"),
            ("dense 13 sigmoid, dense 5", "--loss", "mae", "--batch", "40"),
            ("dense 13 sigmoid, dense 5 sigmoid", "--loss", "sse", "--batch", "full", "--validate", "20%", "--rate", "0.001", "--optimizer", "sgd"),
            ("dense 13 sigmoid, dense 5 softmax", "--batch", "200", "--validate", "10%"),
            ("dense 6 softmax, dense 5 softmax", "--loss", "mse"),
            ("dense 300 softmax, dense 5 softmax", "--loss", "mse"),  # softmax in parts
            ("dense 5 softmax", "--batch", "1"),
            ("dense 300 relu, dense 200 relu, dense 5 softmax", "--batch", "128"),
            ("dense 63 sigmoid, dense 5 softmax", "--batch", "128"),
        ):
            self.check(*self.TABLE, "--net", net, *words)

    def test_blocks_of_a_cluster(self):
        """Networks that blocks share unevenly: outputs by eight, cases by four; last layers of fewer outputs than a warp has lanes, of as many, and
        of more; batches that fill 32, 64 and 128 places, or not; one layer to four."""
        random = np.random.default_rng(3)
        np.save(self.folder / "many.npy", random.normal(size=(333, 20)).astype("f4"))
        nets = "dense {} softmax", "dense 64 tanh, dense {} softmax", "dense 70 relu, dense 9 sigmoid, dense 33 tanh, dense {} softmax"
        for i, classes in enumerate((2, 31, 32, 33, 70)):
            np.save(self.folder / "of.npy", np.arange(333) % classes)
            for j, net in enumerate(nets):
                self.check("--table", "many.npy", "-t", "of.npy", "--net", net.format(classes), "--epochs", "2", "--batch", ("32", "50", "128")[(i + j) % 3],
                           "--optimizer", "momentum", "--rate", "0.05")
        for outputs in (6, 32, 40):
            np.save(self.folder / "values.npy", random.normal(size=(333, outputs)).astype("f4"))
            for loss in ("sse", "mae", "mse"):
                self.check("--table", "many.npy", "-t", "values.npy", "--regression", "--loss", loss, "--epochs", "2", "--batch", "31", "--rate", "0.001",
                           "--net", f"dense 24 sigmoid, dense {outputs} tanh")

    def test_slices(self):
        """All cases at once, in more slices than a GPU has multiprocessors, and in one more than a power of two."""
        random = np.random.default_rng(5)
        for cases in (4 * 128 + 1, 20000, 40001):
            np.save(self.folder / "many.npy", random.normal(size=(cases, 9)).astype("f4"))
            np.save(self.folder / "of.npy", np.arange(cases) % 5)
            for optimizer in ("sgd", "rprop"):
                self.check("--table", "many.npy", "-t", "of.npy", "--net", "dense 13 tanh, dense 5 softmax", "--epochs", "4", "--batch", "full",
                           "--optimizer", optimizer, "--elimination", "0.001")

    def test_divergence(self):
        """In the first epoch, when nothing is written, and later, when the best weights are."""
        words = (*self.TABLE[:-2], "--epochs", "30", "--loss", "sse", "--optimizer", "sgd", "-a", "exact", "-o", "n.safetensors")
        output, seen = self.folder / "n.safetensors", set()
        nets = "dense 13 relu, dense 5", "dense 13 relu, dense 9 relu, dense 5"
        of_32 = [(net, "--rate", rate) for net in nets for rate in ("0.2", "0.3", "0.5")]
        of_all = [(nets[0], "--rate", rate, "--batch", "full") for rate in ("0.003", "0.01", "0.03", "0.1")]
        for net, *more in of_32 + of_all:
            results = []
            for device in ("cpu", "cuda"):
                done = subprocess.run([GCONV, "train", *words, "--net", net, *more, "-d", device, "-q"], cwd=self.folder, env=self.environment(),
                                      stderr=subprocess.PIPE, check=False)
                results.append((done.returncode, done.stderr, output.read_bytes() if output.exists() else None))
                output.unlink(missing_ok=True)
            self.assertEqual(*results)
            seen.add(results[0][0])
        self.assertEqual(seen, {0, 1, 3})  # some full batches go well

    def test_images(self):
        for net in ("conv 4 3x3 relu, mean, dense 4 softmax", "conv 4 5x3/2 tanh, conv 6 3x3 leaky groups 2, dense 4 softmax",
                    "conv 4 3x3 dilation 2 valid sigmoid, mean, dense 4 softmax", "conv 6 3x3 groups 3, conv 70 1x1 relu, dense 4 softmax",
                    "conv 3 3x3 relu, conv 3 3x3, residual, mean, dense 9 relu, dense 4 softmax", "conv 5 3x3 softmax, dense 4 softmax",
                    "dense 8 relu, dense 4 softmax"):
            for batch in ("16", "full"):
                self.check("--table", "x.npy", "-t", "class.npy", "--epochs", "2", "--net", net, "--batch", batch)
        self.check("--table", "x.npy", "-t", "y.npy", "--regression", "--epochs", "2", "--net", "conv 5 3x3/2 relu, dense 6", "--batch", "9")
        self.check("--table", "large.npy", "-t", "large_class.npy", "--epochs", "2", "--batch", "4",
                   "--net", "conv 5 3x3 relu, conv 4 3x3 tanh, mean, dense 3 softmax")

    def test_gradients_of_weights(self):
        """Convolutions whose rows are multiples of four floats, which the copy engine brings, and others: filters of 1 to 9 columns, channels and
        filters for several blocks, and rows for several stages."""
        for net in ("conv 20 3x3 relu, conv 20 3x3 relu, mean", "conv 3 5x5 relu, conv 17 5x1, mean", "conv 9 7x7, conv 70 1x1 tanh, conv 5 1x3, mean",
                    "conv 8 1x9 relu, conv 5 4x4, mean", "conv 8 5x5 valid relu, conv 16 3x3 valid, mean", "conv 6 3x3 groups 3, conv 24 3x3 groups 2, mean",
                    "conv 16 3x3/2 relu, conv 12 3x3 dilation 2, mean", "conv 40 2x2, conv 30 3x3, mean"):
            for name, count in ("fours", 7), ("wide", 3):
                np.save(self.folder / "of.npy", np.arange(count) % 3)
                self.check("--table", f"{name}.npy", "-t", "of.npy", "--epochs", "2", "--batch", "4", "--net", net + ", dense 3 softmax")

    def test_pairs(self):
        for side in ("before", "after"):
            os.mkdir(self.folder / side)
            for i in range(3):
                self.photo(f"{side}/{i}.png", 40, 50, i, 1)
        self.check("-i", "before", "-t", "after", "--patch", "16", "--augment", "--epochs", "2", "--net", "2*(conv 4 3x3 relu), conv 1 3x3, residual",
                   "--batch", "5")

    def test_pairs_of_patches(self):
        """Pictures as large as the patches, which the GPU holds, unless they are turned."""
        for side in ("before", "after"):
            os.mkdir(self.folder / side)
            for i in range(7):
                self.photo(f"{side}/{i}.png", 16, 16, i, 1)
        for more in (), ("--augment",):
            self.check("-i", "before", "-t", "after", "--patch", "16", "--epochs", "3", "--net", "conv 4 3x3 relu, conv 1 3x3, residual", "--batch", "3",
                       *more)

    def test_denoiser(self):
        """Several batches, each of which is copied during the step before, and gradients that are found on two streams."""
        for side in ("before", "after"):
            os.mkdir(self.folder / side)
            for i in range(2):
                self.photo(f"{side}/{i}.png", 256, 192, i, 1)
        for more in ("relu", "tanh"):
            self.check("-i", "before", "-t", "after", "--patch", "64", "--epochs", "2", "--net", f"2*(conv 16 3x3 {more}), conv 1 3x3, residual",
                       "--batch", "12")

    def test_profile(self):
        """Each kernel with its launches and time; where CUPTI is missing or may not count, the reason."""
        words = ("train", *self.TABLE, "--net", "dense 300 relu, dense 200 relu, dense 5 softmax", "--batch", "full", "-d", "cuda", "-o", "n.safetensors",
                 "--profile", "--plot", "p.svg")
        done = subprocess.run([GCONV, *words, "--json"], cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False)
        if "CUPTI" in done.stderr:
            self.assertEqual(done.returncode, 2)
            self.skipTest(done.stderr)
        kernels = json.loads(done.stdout.splitlines()[-1])["kernels"]
        self.assertEqual({kernel["launches"] for kernel in kernels if "update" in kernel["kernel"]}, {3})
        self.assertAlmostEqual(sum(kernel["share"] for kernel in kernels), 1, 6)
        self.assertIn("update", (self.folder / "p-profile.svg").read_text())
        self.assertIn("update", self.gconv(*words).stdout)

    def test_resume(self):
        """A training that is stopped on one device goes on on the other, to the bytes of one that was not stopped. A GPU takes steps
        of all cases ahead of what it has told."""
        for more in ("--validate", "20%"), ("--batch", "full"):
            words = (*self.TABLE[:-2], "-a", "exact", "--net", "dense 13 tanh, dense 5 softmax", *more, "--epochs", "1500")
            whole, output = self.train("whole.safetensors", *words), self.folder / "n.safetensors"
            for first, second in (("cpu", "cuda"), ("cuda", "cpu")):
                process = subprocess.Popen([GCONV, "train", *words, "-o", output.name, "-d", first, "--json"], cwd=self.folder, env=self.environment(),
                                           stdout=subprocess.PIPE)
                for _ in range(20):
                    process.stdout.readline()  # of an epoch
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=100)
                self.assertTrue((self.folder / "n.safetensors.checkpoint").exists())
                self.assertEqual(self.train(output.name, *words, "-d", second, "--resume"), whole)
                output.unlink()

    def test_beside_other_work(self):
        """What is cleared and what is copied keep their order where the GPU is busy with other programs: taps were cleared after they had come."""
        endless = f'while "{GCONV}" bench -d cuda --image 8192x8192 --type f32 --sizes 31 -a direct --runs 200; do :; done'
        others = [subprocess.Popen(["sh", "-c", endless], stdout=subprocess.DEVNULL, env=self.environment(), start_new_session=True)
                  for _ in range(3)]
        try:
            time.sleep(3)  # until they have begun
            self.check(*self.TABLE, "--net", "dense 300 relu, dense 200 relu, dense 5 softmax", "--batch", "128")
            self.check(*self.TABLE, "--net", "dense 13 leaky, dense 5 softmax", "--validate", "20%")
            self.assertTrue(all(other.poll() is None for other in others), "the other work has failed")
        finally:
            for other in others:
                os.killpg(other.pid, signal.SIGKILL)
                other.wait()


if __name__ == "__main__":
    if not has_gpu():
        sys.exit(SKIPPED)
    unittest.main()
