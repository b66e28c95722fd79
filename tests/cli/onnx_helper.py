# SPDX-License-Identifier: MIT
"""ONNX models for tests: a small writer of protocol buffers, for onnx.proto."""
import struct

import numpy as np


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


# TensorProto.DataType
TYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11,
         "uint32": 12, "uint64": 13}


def tensor(name, array):
    array = np.asarray(array)
    return b"".join(field(1, d) for d in array.shape) + field(2, TYPES[str(array.dtype)]) + field(8, name) + field(9, array.tobytes())


def attribute(name, value):
    if isinstance(value, float):
        return field(1, name) + field(2, value) + field(20, 1)
    if isinstance(value, int):
        return field(1, name) + field(3, value) + field(20, 2)
    if isinstance(value, str):
        return field(1, name) + field(4, value) + field(20, 3)
    if isinstance(value, np.ndarray):
        return field(1, name) + field(5, tensor("", value)) + field(20, 4)
    if isinstance(value, bytes):  # a graph
        return field(1, name) + field(6, value) + field(20, 5)
    return field(1, name) + b"".join(field(8, v) for v in value) + field(20, 7)


def node(op, inputs, output, name="", domain="", further=(), **attributes):
    parts = [field(1, i) for i in inputs] + [field(2, o) for o in (output, *further)] + [field(3, name), field(4, op)]
    parts += [field(5, attribute(key, value)) for key, value in attributes.items()]
    return b"".join(parts) + (field(7, domain) if domain else b"")


def value(name, shape, kind=1):
    """A value without a shape, if that is None."""
    dims = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in shape or ())
    return field(1, name) + field(2, field(1, field(1, kind) + (b"" if shape is None else field(2, dims))))


def model(nodes, tensors, shape, output="y", inputs=(), opset=17, ir=8, kind=1, more=b""):
    """`kind` is the type of the input's elements; `more` are further fields of the graph. Without an opset, none is said."""
    graph = b"".join(field(1, n) for n in nodes) + b"".join(field(5, tensor(*t)) for t in tensors.items())
    graph += field(11, value("x", shape, kind)) + b"".join(field(11, value(*i)) for i in inputs) + field(12, value(output, ("n", "k")))
    return field(1, ir) + field(2, "test") + field(7, graph + more) + (field(8, field(1, "") + field(2, opset)) if opset else b"")
