#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a folder of 4K photos takes through DnCNN (17 layers of 64, RGB, float16) on a GPU, JPEG to PNG, file to file.

usage: denoise_folder.py GCONV WORK [--photos 20] [--rounds 2] [--size 3840x2160] [--memory SIZE] [--no-torch]

PyTorch is called as in its own examples: torchvision (without it, OpenCV) reads and writes the files, one after the other, and
the network runs in float16, channels last. With --memory, gconv may take so much; printed is the most memory of the GPU that
it took, as nvidia-smi sees it. Weights are random: the network takes as long as a trained one.
"""
import argparse
import pathlib
import shutil
import statistics
import subprocess
import threading
import time

import numpy as np

LAYERS, WIDTH = 17, 64


def weights_of():
    lot = np.random.default_rng(1)
    sizes = [(WIDTH, 3)] + [(WIDTH, WIDTH)] * (LAYERS - 2) + [(3, WIDTH)]
    return [(lot.standard_normal((k, c, 3, 3), np.float32) * (2 / (9 * c)) ** 0.5 * (0.1 if k == 3 else 1)).astype(np.float32)
            for k, c in sizes]


def write_model(path, weights):
    import onnx
    from onnx import helper, numpy_helper
    nodes, constants, value = [], [], "x"
    for i, w in enumerate(weights):
        constants.append(numpy_helper.from_array(w, f"w{i}"))
        nodes.append(helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], pads=[1] * 4))
        value = f"c{i}"
        if i + 1 < LAYERS:
            nodes.append(helper.make_node("Relu", [value], [f"r{i}"]))
            value = f"r{i}"
    nodes.append(helper.make_node("Sub", ["x", value], ["y"]))
    shape = [1, 3, "h", "w"]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy"]
    model = helper.make_model(helper.make_graph(nodes, "dncnn", ends[:1], ends[1:], constants),
                              opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def make_photos(folder, count, width, height):
    import cv2
    lot = np.random.default_rng(2)
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        coarse = cv2.resize(lot.integers(0, 256, (height // 60, width // 60, 3), np.uint8), (width, height))
        grain = lot.integers(-12, 13, (height, width, 1), np.int16)
        cv2.imwrite(str(folder / f"{i:04}.jpg"), np.clip(coarse + grain, 0, 255).astype(np.uint8))


def most_memory(stop, found):
    """Notes the most memory of the GPU in use, in MiB, until it is stopped."""
    while not stop.is_set():
        used = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True)
        found.append(int(used.stdout.split()[0]))


def run_gconv(gconv, model, photos, out, memory):
    stop, found = threading.Event(), []
    watcher = threading.Thread(target=most_memory, args=(stop, found))
    if memory:
        watcher.start()
    begin = time.perf_counter()
    words = ["-i", photos, "-o", f"{out}/", "-f", model, "--format", "png", "--math", "fp16", "-d", "cuda"]
    result = subprocess.run([gconv, *words, *(["--memory", memory] if memory else [])], capture_output=True, text=True)
    took = time.perf_counter() - begin
    stop.set()
    if memory:
        watcher.join()
        print(f"gconv took {max(found) - found[0]} MiB of the GPU at most", flush=True)
    if result.returncode:
        raise SystemExit(result.stderr)
    return took


def torch_denoiser(weights):
    """Returns a function that denoises a folder."""
    import torch
    import torch.nn.functional as F
    try:
        from torchvision.io import decode_jpeg, read_file, write_png
    except ImportError:
        import cv2
        decode_jpeg, read_file, write_png = (lambda data: torch.from_numpy(cv2.imread(data)).permute(2, 0, 1)), str, None
    ws = [torch.from_numpy(w).half().cuda().contiguous(memory_format=torch.channels_last) for w in weights]
    torch.backends.cudnn.benchmark = True

    @torch.no_grad()
    def denoise(photos, out):
        for file in sorted(photos.iterdir()):
            x = decode_jpeg(read_file(str(file)))[None].cuda().half().div_(255).contiguous(memory_format=torch.channels_last)
            y = x
            for i, w in enumerate(ws):
                y = F.conv2d(y, w, padding=1)
                y = F.relu_(y) if i + 1 < LAYERS else y
            made = (x - y).clamp_(0, 1).mul_(255).round_().byte()[0].cpu()
            if write_png:
                write_png(made, str(out / f"{file.stem}.png"))
            else:
                cv2.imwrite(str(out / f"{file.stem}.png"), made.permute(1, 2, 0).numpy())
    return denoise


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gconv")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--photos", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--size", default="3840x2160")
    parser.add_argument("--memory")
    parser.add_argument("--no-torch", action="store_true")
    options = parser.parse_args()
    photos, out, model, weights = options.work / "photos", options.work / "out", options.work / "dncnn.onnx", weights_of()
    shutil.rmtree(photos, ignore_errors=True)
    make_photos(photos, options.photos, *map(int, options.size.split("x")))
    write_model(model, weights)
    denoise = None if options.no_torch else torch_denoiser(weights)
    times = {"gconv": [], "PyTorch": []}
    for _ in range(options.rounds):
        for name in times:
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            if name == "gconv":
                times[name].append(run_gconv(options.gconv, model, photos, out, options.memory))
            elif denoise:
                begin = time.perf_counter()
                denoise(photos, out)
                times[name].append(time.perf_counter() - begin)
            made = len(list(out.iterdir()))
            if made != options.photos and (name == "gconv" or denoise):
                raise SystemExit(f"{name} made {made} files")
    for name, taken in times.items():
        if taken:
            print(f"{name}: {options.photos} photos of {options.size} in {min(taken):.2f} s at best, {statistics.median(taken):.2f} s", flush=True)


if __name__ == "__main__":
    main()
