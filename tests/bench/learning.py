#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains with gconv and with its peers, in turns: how well both do, and how long they take.

usage: learning.py GCONV [PART...] [--letter FILE] [--rounds 3] [--threads 2] [--epochs N]

| part    | is                                                                                          | peer         |
| ------- | ------------------------------------------------------------------------------------------- | ------------ |
| digits  | scikit-learn's digits, the first half learned, the second judged; 64-63-10, three seeds     | scikit-learn |
| letter  | UCI Letter, 16-63-26: 16,000 cases learned, 4,000 judged; batch 32, 100 epochs              | NumPy        |
| letters | the same as 64 bits, 64-63-26, sigmoid, sse: 15,360 cases, full batch; 10,000 epochs        |              |
| step    | an epoch of letters                                                                         | NumPy        |
| denoise | noise of sigma 25, five layers of 16, on pictures of scikit-image                           | PyTorch      |
| steps   | steps of denoise, without its quality                                                       | PyTorch      |
| windows | 4 M samples, in windows of 200 through 200-200-200-200, sigmoid, file to file; tanh, relu   | NumPy        |
| fit     | errors of 7 x 7 taps, fitted to pairs of float and of 8 bits                                |              |

Without PART, all but letters and denoise, which take minutes. --letter: letter.csv or letter.csv.gz of the UCI Machine Learning Repository, with a header; the
label stands first. Every peer is measured with 1 and with --threads threads, and the faster counts. gconv's seconds are those of training, as its report has
them; a peer's are of its training loop. Both take turns, --rounds times; the least of each counts, as other programs can only slow them down.
"""
import argparse
import gzip
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder

    def run(self, *words):
        return subprocess.run([self.options.gconv, *map(str, words)], cwd=self.folder, capture_output=True, text=True, check=True).stdout

    def train(self, *words, threads=None):
        """The summary of a training whose network is n.safetensors."""
        words = ["train", *words, "-o", "n.safetensors", "--json", "--threads", threads or self.options.threads]
        return json.loads(self.run(*words).splitlines()[-1])

    def accuracy(self, table, label, network="n.safetensors"):
        return 100 * json.loads(self.run("classify", network, "-i", table, "--label", label, "--evaluate", "--json"))["accuracy"]

    def table(self, name, x, labels):
        header = ",".join([f"x{i}" for i in range(x.shape[1])] + ["class"])
        rows = [",".join([*(f"{v:g}" for v in row), str(label)]) for row, label in zip(x, labels)]
        (self.folder / name).write_text("\n".join([header, *rows, ""]))

    def peer(self, name, *words):
        """The peer in a process of its own, with 1 thread and with all: the seconds of the faster, and what it printed besides."""
        found = []
        for threads in {1, self.options.threads}:
            env = {**os.environ, **{f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "OPENBLAS", "MKL")}}
            words_of_it = [sys.executable, __file__, "--peer", name, str(threads), *map(str, words)]
            done = subprocess.run(words_of_it, cwd=self.folder, capture_output=True, text=True, check=True, env=env)
            found.append((json.loads(done.stdout), threads))
        result, threads = min(found, key=lambda pair: pair[0]["seconds"])
        return {**result, "threads": threads}

    def compare(self, name, own, peer, cases=None):
        """own() and peer() in turns: their least seconds, printed."""
        results = [(own(), peer()) for _ in range(self.options.rounds)]
        a = min((r[0] for r in results), key=lambda r: r["seconds"])
        b = min((r[1] for r in results), key=lambda r: r["seconds"])
        quotients = sorted(r[1]["seconds"] / r[0]["seconds"] for r in results)
        speed = f", {cases / a['seconds'] / 1e6:.3g} M cases a second" if cases else ""
        print(f"{name}: gconv {a['seconds']:.3f} s{speed}; peer {b['seconds']:.3f} s with {b['threads']} thread{'s'[:b['threads'] > 1]}: "
              f"{b['seconds'] / a['seconds']:.2f} times as fast (rounds: {', '.join(f'{q:.2f}' for q in quotients)})", flush=True)
        return a, b


# ---- Data ----


def letters(path):
    opened = gzip.open(path, "rt") if str(path).endswith(".gz") else open(path)
    with opened as lines:
        rows = [line.split(",") for line in lines.read().splitlines()[1:]]
    return np.array([[int(v) for v in row[1:]] for row in rows]), np.array([row[0] for row in rows])


TRAIN = "astronaut coffee rocket brick grass gravel immunohistochemistry stereo_motorcycle hubble_deep_field retina page".split()
TEST = "camera chelsea coins moon".split()


def picture(name):
    from skimage import color, data
    pixels = getattr(data, name)()
    pixels = (pixels[0] if isinstance(pixels, tuple) else pixels) / 255.0
    return (pixels if pixels.ndim == 2 else color.rgb2gray(pixels)).astype(np.float32)


def peak(after, clean):
    return -10 * np.log10(((after.astype(float) - clean) ** 2).mean())


def make_pictures(folder):
    """noisy/, clean/ to learn from, test/ to be judged by; returns the names of those that are there."""
    random, names = np.random.default_rng(0), []
    for name in TRAIN + TEST:
        try:
            clean = picture(name)
        except Exception as error:  # scikit-image loads some of them from the net
            print(f"denoise: without {name}: {error}")
            continue
        noisy = (clean + random.standard_normal(clean.shape) * 25 / 255).astype(np.float32)
        for kind, pixels in (("noisy", noisy), ("clean", clean)) if name in TRAIN else (("test", noisy), ("wanted", clean)):
            (folder / kind).mkdir(exist_ok=True)
            np.save(folder / kind / f"{name}.npy", pixels)
        names.append(name)
    return names


# ---- Parts ----


def part_digits(bench):
    from sklearn.datasets import load_digits
    x, y = load_digits(return_X_y=True)
    half = len(x) // 2
    bench.table("learn.csv", x[:half] / 16, y[:half])
    bench.table("judge.csv", x[half:] / 16, y[half:])
    for seed in range(3):
        own, peer = bench.compare(f"digits, seed {seed}", lambda: bench.train(*DIGITS, "--seed", seed), lambda: bench.peer("digits", seed))
        print(f"digits, seed {seed}: gconv {bench.accuracy('judge.csv', 'class'):.2f}%, MLPClassifier {peer['accuracy']:.2f}%", flush=True)


DIGITS = "--table learn.csv --label class --normalize no --net".split() + ["dense 63 tanh, dense 10 softmax"]


def peer_digits(threads, seed):
    import warnings
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier
    warnings.filterwarnings("ignore")
    x, y = load_digits(return_X_y=True)
    half = len(x) // 2
    model = MLPClassifier((63,), random_state=int(seed))
    begin = time.perf_counter()
    model.fit(x[:half] / 16, y[:half])
    return {"seconds": time.perf_counter() - begin, "accuracy": 100 * model.score(x[half:] / 16, y[half:])}


def numpy_steps(x, wanted, hidden, batch, epochs, rate, sigmoid):
    """A hidden layer of tanh, softmax and cross-entropy; or both layers sigmoid, and sse. Returns the seconds, and a function that classifies."""
    random = np.random.default_rng(0)
    w = [(random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32) for shape in ((x.shape[1], hidden), (hidden, wanted.shape[1]))]
    b = [np.zeros(hidden, np.float32), np.zeros(wanted.shape[1], np.float32)]
    begin = time.perf_counter()
    for _ in range(epochs):
        order = random.permutation(len(x)) if batch < len(x) else slice(None)
        for at in range(0, len(x), batch):
            take = order[at:at + batch] if batch < len(x) else order
            z = x[take] @ w[0] + b[0]
            h = 1 / (1 + np.exp(-z)) if sigmoid else np.tanh(z)
            z = h @ w[1] + b[1]
            if sigmoid:
                y = 1 / (1 + np.exp(-z))
                d = (y - wanted[take]) * y * (1 - y)
                dh = d @ w[1].T * h * (1 - h)
            else:
                p = np.exp(z - z.max(1, keepdims=True))
                d = (p / p.sum(1, keepdims=True) - wanted[take]) / len(z)
                dh = d @ w[1].T * (1 - h * h)
            w[1] -= rate * (h.T @ d)
            b[1] -= rate * d.sum(0)
            w[0] -= rate * (x[take].T @ dh)
            b[0] -= rate * dh.sum(0)
    return time.perf_counter() - begin, lambda v: np.argmax(np.tanh(v @ w[0] + b[0]) @ w[1] + b[1], 1)


def peer_letter(threads, path):
    x, labels = letters(path)
    classes, y = np.unique(labels, return_inverse=True)
    x = ((x - x[:16000].mean(0)) / x[:16000].std(0)).astype(np.float32)
    seconds, classify = numpy_steps(x[:16000], np.eye(len(classes), dtype=np.float32)[y[:16000]], 63, 32, 100, 0.1, False)
    return {"seconds": seconds, "accuracy": 100 * (classify(x[16000:]) == y[16000:]).mean()}


def part_letter(bench):
    path = bench.options.letter.resolve()
    x, labels = letters(path)
    bench.table("learn.csv", x[:16000], labels[:16000])
    bench.table("judge.csv", x[16000:], labels[16000:])
    words = "--table learn.csv --label class --optimizer sgd --rate 0.1 --batch 32 --epochs 100 --net".split() + ["dense 63 tanh, dense 26 softmax"]
    own, peer = bench.compare("letter", lambda: bench.train(*words), lambda: bench.peer("letter", path), 1.6e6)
    print(f"letter: gconv {bench.accuracy('judge.csv', 'class'):.2f}%, NumPy {peer['accuracy']:.2f}%", flush=True)


LETTERS = "--table learn.csv --label class --normalize no --loss sse --batch full --net".split() + ["dense 63 sigmoid, dense 26 sigmoid"]
RECIPES = {"gradient descent": "--optimizer sgd --rate 0.0001".split(), "rprop": "--optimizer rprop --rate 0.001 --elimination 0.01".split()}


def bits_of(x):
    return (x[:, :, None] >> np.arange(4) & 1).reshape(len(x), 64)


def part_letters(bench):
    x, labels = letters(bench.options.letter)
    bench.table("learn.csv", bits_of(x)[:15360], labels[:15360])
    bench.table("judge.csv", bits_of(x)[15360:], labels[15360:])
    epochs = bench.options.epochs or 10000
    for name, words in RECIPES.items():
        done = bench.train(*LETTERS, "--epochs", epochs, *words)
        print(f"letters, {name} ({' '.join(words)}), {epochs} epochs: {done['seconds']:.1f} s, {done['cases_a_second'] / 1e6:.2f} M cases a second; "
              f"{bench.accuracy('learn.csv', 'class'):.2f}% of 15,360 learned, {bench.accuracy('judge.csv', 'class'):.2f}% of {len(x) - 15360} others", flush=True)


def peer_step(threads, path, epochs):
    x, labels = letters(path)
    classes, y = np.unique(labels, return_inverse=True)
    wanted = np.eye(len(classes), dtype=np.float32)[y[:15360]]
    return {"seconds": numpy_steps(bits_of(x[:15360]).astype(np.float32), wanted, 63, 15360, int(epochs), 1e-5, True)[0]}


def part_step(bench):
    path, epochs = bench.options.letter.resolve(), bench.options.epochs or 50
    x, labels = letters(path)
    bench.table("learn.csv", bits_of(x)[:15360], labels[:15360])
    words = [*LETTERS, "--epochs", epochs, "--optimizer", "momentum", "--rate", "0.00001"]
    bench.compare(f"step, {epochs} epochs", lambda: bench.train(*words), lambda: bench.peer("step", path, epochs), 15360 * epochs)


DENOISE = ["-i", "noisy", "-t", "clean", "--patch", "64", "--batch", "64", "--net", "4*(conv 16 3x3 relu), conv 1 3x3, residual"]
QUALITY = ["-i", "noisy", "-t", "clean", "--patch", "64", "--batch", "8", "--rate", "0.002", "--schedule", "cosine", "--augment", "--net", DENOISE[-1]]


def patches_an_epoch(folder):
    shapes = [np.load(file, mmap_mode="r").shape for file in (folder / "clean").iterdir()]
    return sum((h // 64) * (w // 64) for h, w in shapes)


def peer_steps(threads, count, batch):
    """Steps of PyTorch on patches that are already in memory: its fastest of both layouts of memory."""
    import torch
    torch.set_num_threads(int(threads))
    best = float("inf")
    for layout in torch.contiguous_format, torch.channels_last:
        layers, channels = [], 1
        for _ in range(4):
            layers += [torch.nn.Conv2d(channels, 16, 3, padding=1), torch.nn.ReLU()]
            channels = 16
        net = torch.nn.Sequential(*layers, torch.nn.Conv2d(16, 1, 3, padding=1)).to(memory_format=layout)
        x, t = (torch.rand(int(batch), 1, 64, 64).contiguous(memory_format=layout) for _ in range(2))
        adam = torch.optim.Adam(net.parameters(), 1e-3)
        for step in range(int(count) + 1):
            if step == 1:
                begin = time.perf_counter()
            adam.zero_grad(set_to_none=True)
            ((x + net(x) - t) ** 2).mean().backward()
            adam.step()
        best = min(best, time.perf_counter() - begin)
    return {"seconds": best}


def part_steps(bench):
    for name in "brick", "grass", "gravel":  # 64 patches each
        clean = picture(name)
        for kind, pixels in ("noisy", clean + np.float32(0.1)), ("clean", clean):
            (bench.folder / kind).mkdir(exist_ok=True)
            np.save(bench.folder / kind / f"{name}.npy", pixels)
    bench.compare("steps, 6 of 64 patches of 64 x 64", lambda: bench.train(*DENOISE, "--epochs", 2), lambda: bench.peer("steps", 6, 64))


def part_denoise(bench):
    from scipy.ndimage import gaussian_filter
    names = make_pictures(bench.folder)
    test, epochs = [name for name in names if name in TEST], bench.options.epochs or 60
    pairs = {name: [np.load(bench.folder / kind / f"{name}.npy") for kind in ("test", "wanted")] for name in test}
    print("denoise: Gaussian of sigma 1.2: {:.2f} dB".format(np.mean([peak(gaussian_filter(noisy, 1.2), clean) for noisy, clean in pairs.values()])))
    done = bench.train(*QUALITY, "--epochs", epochs)
    results = []
    for name, (_, clean) in pairs.items():
        bench.run("-i", f"test/{name}.npy", "-f", "n.safetensors", "-o", f"after_{name}.npy")
        results.append(peak(np.load(bench.folder / f"after_{name}.npy").reshape(clean.shape), clean))
    print(f"denoise: {epochs} epochs of {patches_an_epoch(bench.folder)} patches, {done['seconds']:.1f} s: {np.mean(results):.2f} dB ("
          + ", ".join(f"{name} {value:.2f}" for name, value in zip(pairs, results)) + ")", flush=True)


WINDOWS = 20000  # of 200 samples


def peer_windows(threads, outputs):
    """The samples and the results as files, too; 20 rounds, as the first ones warm up."""
    random, best = np.random.default_rng(0), float("inf")
    weights = [(random.standard_normal((200, k)) * 0.07).astype(np.float32) for k in (200, 200, int(outputs))]
    for _ in range(20):
        begin = time.perf_counter()
        x = np.load("signal.npy").reshape(WINDOWS, 200)
        for w in weights:
            x = 1 / (1 + np.exp(-(x @ w)))
        np.save("peer.npy", x)
        best = min(best, time.perf_counter() - begin)
    return {"seconds": best}


def part_windows(bench):
    random = np.random.default_rng(0)
    np.save(bench.folder / "signal.npy", random.standard_normal(WINDOWS * 200).astype(np.float32))
    np.save(bench.folder / "few.npy", random.standard_normal(64 * 200).astype(np.float32))

    def stream(network):
        begin = time.perf_counter()
        bench.run("-i", "signal.npy", "-f", network, "--windows", 200, "-o", "out.npy", "-d", "cpu", "--threads", bench.options.threads)
        return {"seconds": time.perf_counter() - begin}
    for outputs in 200, 8:
        names = ",".join(f"y{i}" for i in range(outputs))
        np.savetxt(bench.folder / "few.csv", random.random((64, outputs)), delimiter=",", header=names, comments="")
        networks = {}
        for activation in "sigmoid", "tanh", "relu":
            networks[activation] = f"{activation}.safetensors"
            net = ", ".join(f"dense {k} {activation}" for k in (200, 200, outputs))
            bench.run("train", "--signal", "few.npy", "--windows", 200, "-t", "few.csv", "--regression", "--net", net, "--epochs", 1, "-d", "cpu",
                      "-o", networks[activation])
        bench.compare(f"windows, 200-200-200-{outputs}, sigmoid", lambda: min((stream(networks["sigmoid"]) for _ in range(10)), key=lambda r: r["seconds"]),
                      lambda: bench.peer("windows", outputs), WINDOWS)
        least = {name: min(stream(network)["seconds"] for _ in range(20)) for name, network in networks.items()}
        print(f"windows, 200-200-200-{outputs}: " + ", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in least.items()), flush=True)


def part_fit(bench):
    from scipy.ndimage import correlate
    random = np.random.default_rng(0)
    taps = random.standard_normal((7, 7))
    taps /= abs(taps).sum()
    x = random.random((600, 800)).astype(np.float32)
    np.save(bench.folder / "x.npy", x)
    np.save(bench.folder / "y.npy", correlate(x.astype(float), taps).astype(np.float32))
    found = json.loads(bench.run("fit", "-i", "x.npy", "-t", "y.npy", "--size", 7, "-o", "f.txt", "--json"))
    print(f"fit, float: largest error of a tap {abs(np.array(found['taps']) - taps).max():.1e}")
    from PIL import Image
    taps[3, 3] += 1
    photo = (np.clip(gaussian_noise(random, (1200, 1600)), 0, 1) * 255).round()
    after = correlate(photo, taps)
    clipped = ((after < 0) | (after > 255)).mean()
    Image.fromarray(photo.astype(np.uint8)).save(bench.folder / "x.png")
    Image.fromarray(np.clip(after.round(), 0, 255).astype(np.uint8)).save(bench.folder / "y.png")
    found = json.loads(bench.run("fit", "-i", "x.png", "-t", "y.png", "--size", 7, "-o", "g.txt", "--json"))
    print(f"fit, 8 bits, {100 * clipped:.2f}% clipped: largest error of a tap {abs(np.array(found['taps']) - taps).max():.1e}", flush=True)


def gaussian_noise(random, shape):
    """Something like a photo: noise of several scales about mid-grey."""
    from scipy.ndimage import gaussian_filter
    layers = [gaussian_filter(random.standard_normal(shape), sigma) * sigma for sigma in (0.5, 2, 8)]
    return 0.5 + 0.19 * sum(layers) / np.std(sum(layers))


PARTS = {name[5:]: call for name, call in list(globals().items()) if name.startswith("part_")}
PEERS = {name[5:]: call for name, call in list(globals().items()) if name.startswith("peer_")}


def main():
    if sys.argv[1:2] == ["--peer"]:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        result = PEERS[sys.argv[2]](*sys.argv[3:])
        print(json.dumps({**result, "cpu": resource.getrusage(resource.RUSAGE_SELF).ru_utime - before}))
        return
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("gconv")
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--letter", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int)
    options = parser.parse_args()
    options.gconv = os.path.abspath(options.gconv)
    for part in options.parts or [name for name in PARTS if name not in ("letters", "denoise")]:
        if part in ("letter", "letters", "step") and not options.letter:
            print(f"{part}: skipped, as there is no --letter FILE")
            continue
        with tempfile.TemporaryDirectory(prefix="gconv-learning-") as folder:
            PARTS[part](Bench(options, pathlib.Path(folder)))


if __name__ == "__main__":
    main()
