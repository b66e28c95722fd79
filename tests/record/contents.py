# SPDX-License-Identifier: MIT
"""Describes what gconv wrote: a hash of the decoded samples, their shape and type, and the metadata.

No code of gconv is used."""

import hashlib
import io
import json
import re
import struct
import zlib

import cv2
import numpy as np
from PIL import Image

Image.MAX_IMAGE_PIXELS = None


def digest(data):
    return hashlib.sha256(data).hexdigest()[:24]


def samples(array):
    array = np.ascontiguousarray(array)
    return {"samples": digest(array), "shape": list(array.shape), "type": array.dtype.str}


def read_png(data):
    """The samples as OpenCV decodes them, and every chunk that says more than they."""
    meta, at = {}, 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body, name = data[at + 8 : at + 8 + size], kind.decode("latin1")
        if name == "iCCP":
            title, packed = body.split(b"\0", 1)
            body = title + b"\0" + zlib.decompress(packed[1:])
        if name not in ("IDAT", "IEND"):
            meta[name] = body.hex() if len(body) <= 16 else digest(body)
        at += size + 12
    array = cv2.imdecode(np.frombuffer(data, "u1"), cv2.IMREAD_UNCHANGED)
    return {"format": "png", **samples(array), "meta": meta}


def read_jpeg(data):
    with Image.open(io.BytesIO(data)) as image:
        info = image.info
        meta = {
            "mode": image.mode,
            "density": [info.get("jfif_unit"), *info.get("jfif_density", ())],
            "progressive": "progressive" in info,
            "icc": digest(info["icc_profile"]) if "icc_profile" in info else None,
            "exif": digest(info["exif"]) if "exif" in info else None,
            "tables": digest(repr(image.quantization).encode()),
            "layers": str(image.layer),
        }
        return {"format": "jpeg", **samples(np.asarray(image)), "meta": meta}


def read_netpbm(data):
    """Raw files of all kinds, with headers as gconv writes them, which have no comments."""
    kind = data[:2].decode()
    if kind == "P7":
        head, body = data.split(b"ENDHDR\n", 1)
        fields = dict(line.split(b" ", 1) for line in head.split(b"\n")[1:] if line)
        width, height, channels, top = (int(fields[name]) for name in (b"WIDTH", b"HEIGHT", b"DEPTH", b"MAXVAL"))
        meta = {"maxval": top, "tuple": fields.get(b"TUPLTYPE", b"").decode()}
    else:
        head = re.match(rb"P.\s+(\d+)\s+(\d+)\s+" + (rb"" if kind == "P4" else rb"(\S+)\s"), data)
        width, height, top = int(head[1]), int(head[2]), head[3].decode() if kind != "P4" else "1"
        meta, channels = {"maxval": top}, {"P4": 1, "P5": 1, "P6": 3, "PF": 3, "Pf": 1}[kind]
    # White space may be a sample, so the body is counted from the end of the file.
    if kind == "P4":
        row = (width + 7) // 8
        return {
            "format": kind,
            **samples(np.frombuffer(data[len(data) - row * height :], "u1").reshape(height, row)),
            "meta": {**meta, "width": width},
        }
    kinds = {"PF": "<f4", "Pf": "<f4"}
    of = np.dtype(kinds.get(kind) or ("u1" if int(top) < 256 else ">u2"))
    if kind in kinds and float(top) > 0:
        of = of.newbyteorder(">")
    size = width * height * channels * of.itemsize
    array = np.frombuffer(data[len(data) - size :], of).reshape(height, width, channels)
    return {"format": kind, **samples(array), "meta": {**meta, "header": len(data) - size}}


def read_npy(data):
    array = np.load(io.BytesIO(data))
    return {"format": "npy", **samples(array), "meta": {"fortran": not array.flags.c_contiguous, "version": data[6]}}


def read_safetensors(data):
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    parts = {
        name: [t["dtype"], t["shape"], digest(data[8 + size :][slice(*t["data_offsets"])])]
        for name, t in header.items()
        if name != "__metadata__"
    }
    return {"format": "safetensors", "tensors": parts, "meta": header.get("__metadata__")}


def read_manifest(data):
    """Checksums of PNG files and of the job, and the version, may change; inputs and results may not."""
    lines = [line.split("\t") for line in data.decode().splitlines() if not line.startswith("#")]
    return {"format": "manifest", "lines": sorted([*line[2:4], *line[6:]] for line in lines)}


def describe(name, data):
    """What a file is, as a dictionary for JSON."""
    try:
        if ".gconv-manifest" in name:
            return read_manifest(data)
        if data.startswith(b"\x89PNG"):
            return read_png(data)
        if data.startswith(b"\xff\xd8"):
            return read_jpeg(data)
        if data.startswith(b"\x93NUMPY"):
            return read_npy(data)
        if data[:2] in (b"P4", b"P5", b"P6", b"P7", b"PF", b"Pf"):
            return read_netpbm(data)
        if data[8:9] == b"{":
            return read_safetensors(data)
    except Exception as error:  # an unreadable result is a finding, not the end of the recording
        return {"format": "unreadable", "bytes": digest(data), "error": str(error)}
    return {"format": "bytes", "bytes": digest(data), "size": len(data)}
