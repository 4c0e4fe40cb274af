"""Computes a network as data in numpy, from the job's layers and an exported model, and measures it.

Usage: forward.py MODEL.safetensors TASK.json

TASK.json has `layers` as in a job file, `shape` of one example, `inputs` (one flat list per example) and `labels`.
Prints one JSON object: the tensors' names and shapes, the accuracy and the mean cross-entropy. It knows nothing of
Tributary but the layers' names: formulas and layouts are PyTorch's.
"""

import json
import math
import sys

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def pair(value):
    return value if isinstance(value, list) else [value, value]


def conv2d(x, layer, weight, bias):
    """x: [batch, channels, height, width]; weight: [out, in, height, width]."""
    padding = layer.get("padding", "valid")
    if padding == "same":
        sides = [((size - 1) // 2, size // 2) for size in weight.shape[2:]]
    else:
        sides = [(zeros, zeros) for zeros in ((0, 0) if padding == "valid" else pair(padding))]
    x = np.pad(x, ((0, 0), (0, 0), *sides))
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))
    step_y, step_x = pair(layer.get("stride", 1))
    windows = windows[:, :, ::step_y, ::step_x]
    return np.einsum("bcyxhw,ochw->boyx", windows, weight) + np.reshape(bias, (1, -1, 1, 1))


def pool2d(x, layer):
    """The windows, in the last two dimensions."""
    size = pair(layer["kernel_size"])
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=(2, 3))
    step_y, step_x = pair(layer.get("stride") or size)
    return windows[:, :, ::step_y, ::step_x]


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def layer_norm(x, layer, of):
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + layer.get("epsilon", 1e-5))
    return of("weight") * (x - x.mean(axis=-1, keepdims=True)) / deviation + of("bias")


def batch_norm(x, layer, of):
    """As in an evaluation, with the running statistics of each feature or channel."""
    each = (-1, *[1] * (x.ndim - 2))
    weight, bias = of("weight").reshape(each), of("bias").reshape(each)
    mean, variance = of("running_mean").reshape(each), of("running_var").reshape(each)
    return weight * (x - mean) / np.sqrt(variance + layer.get("epsilon", 1e-5)) + bias


def lstm(x, layer, of):
    """x: [batch, time, features]; gates in the order input, forget, cell, output."""
    size = layer["hidden_size"]
    hidden = cell = np.zeros((x.shape[0], size))
    outputs = []
    for step in range(x.shape[1]):
        gates = x[:, step] @ of("weight_ih_l0").T + of("bias_ih_l0") + hidden @ of("weight_hh_l0").T + of("bias_hh_l0")
        enter, forget, new, leave = np.split(gates, 4, axis=1)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(new)
        hidden = sigmoid(leave) * np.tanh(cell)
        outputs.append(hidden)
    return np.stack(outputs, axis=1) if layer.get("return_sequences") else hidden


def gru(x, layer, of):
    """x: [batch, time, features]; gates in the order reset, update, new."""
    hidden = np.zeros((x.shape[0], layer["hidden_size"]))
    outputs = []
    for step in range(x.shape[1]):
        given = np.split(x[:, step] @ of("weight_ih_l0").T + of("bias_ih_l0"), 3, axis=1)
        kept = np.split(hidden @ of("weight_hh_l0").T + of("bias_hh_l0"), 3, axis=1)
        reset, update = sigmoid(given[0] + kept[0]), sigmoid(given[1] + kept[1])
        hidden = (1 - update) * np.tanh(given[2] + reset * kept[2]) + update * hidden
        outputs.append(hidden)
    return np.stack(outputs, axis=1) if layer.get("return_sequences") else hidden


def forward(x, layers, tensors):
    for index, layer in enumerate(layers):
        kind = layer["kind"]

        def of(name):
            return tensors[f"layers.{index}.{name}"]

        bias = of("bias") if layer.get("bias", True) and f"layers.{index}.bias" in tensors else 0
        if kind == "linear":
            x = x @ of("weight").T + bias
        elif kind == "low_rank":
            scale = layer.get("alpha", layer["rank"]) / layer["rank"]
            x = x @ (of("weight") + scale * of("lora_B") @ of("lora_A")).T + bias
        elif kind == "relu":
            x = np.maximum(x, 0)
        elif kind == "tanh":
            x = np.tanh(x)
        elif kind == "sigmoid":
            x = sigmoid(x)
        elif kind == "gelu":
            x = gelu(x)
        elif kind == "dropout":
            pass
        elif kind == "layer_norm":
            x = layer_norm(x, layer, of)
        elif kind == "batch_norm":
            x = batch_norm(x, layer, of)
        elif kind == "embedding":
            x = of("weight")[x.astype(np.int64)]
        elif kind == "flatten":
            x = x.reshape(x.shape[0], -1)
        elif kind == "conv2d":
            x = conv2d(x, layer, of("weight"), bias)
        elif kind == "max_pool2d":
            x = pool2d(x, layer).max(axis=(-2, -1))
        elif kind == "avg_pool2d":
            x = pool2d(x, layer).mean(axis=(-2, -1))
        elif kind == "lstm":
            x = lstm(x, layer, of)
        elif kind == "gru":
            x = gru(x, layer, of)
        else:
            sys.exit(f"no layer of the kind {kind}")
    return x


def main():
    from safetensors.numpy import load_file

    model_path, task_path = sys.argv[1:]
    with open(task_path) as file:
        task = json.load(file)
    tensors = load_file(model_path)
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    tensors = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    inputs = np.array(task["inputs"], dtype=np.float64).reshape([-1, *task["shape"]])
    labels = np.array(task["labels"])
    scores = forward(inputs, task["layers"], tensors)
    shifted = scores - scores.max(axis=1, keepdims=True)
    log_shares = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    loss = -log_shares[np.arange(len(labels)), labels].mean()
    accuracy = (scores.argmax(axis=1) == labels).mean()
    print(json.dumps({"shapes": shapes, "accuracy": float(accuracy), "loss": float(loss)}))


if __name__ == "__main__":
    main()
