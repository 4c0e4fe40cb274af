"""Runs ONNX files in ONNX Runtime and compares their outputs.

Usage: onnx_outputs.py FOLDER

FOLDER has pairs of NAME.onnx and NAME.json: `inputs` (one flat list per example), `outputs` that are expected, and
whether the inputs are `tokens`. Prints a JSON object: for each name the largest difference, relative to outputs above
1.
"""

import json
import pathlib
import sys

import numpy as np
import onnxruntime


def difference(path):
    task = json.loads(path.read_text())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path.with_suffix(".onnx"), options, providers=["CPUExecutionProvider"])
    [given], [made] = session.get_inputs(), session.get_outputs()
    assert (given.name, given.shape[0], made.name, made.shape[0]) == ("input", "batch", "output", "batch")
    inputs = np.array(task["inputs"], dtype=np.int64 if task["tokens"] else np.float32).reshape(-1, *given.shape[1:])
    expected = np.array(task["outputs"], dtype=np.float32).reshape(len(inputs), *made.shape[1:])
    [outputs] = session.run(["output"], {"input": inputs})
    assert outputs.shape == expected.shape, (outputs.shape, expected.shape)
    return float((np.abs(outputs - expected) / np.maximum(1, np.abs(expected))).max())


def main():
    print(json.dumps({path.stem: difference(path) for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json"))}))


main()
