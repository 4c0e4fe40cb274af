"""Time of one image in Tributary's predictor and in ONNX Runtime, measured in turns on one thread each.

Both have the same network: the ONNX file that Tributary writes of it. Each measurement is a process of its own. Those
of ONNX Runtime are `predictions.py FILE`.
"""

import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import processes
import rows

PREDICTIONS = 5_000
NAMES = {"mlp": "2NN", "cnn": "CNN"}


def measure(program, cycles):
    runtime = f"ONNX Runtime {importlib.metadata.version('onnxruntime')}"
    for model, name in NAMES.items():
        ours, theirs = [], []
        with tempfile.TemporaryDirectory() as folder:
            file = str(pathlib.Path(folder) / "model.onnx")
            cell = ["--model", model, "--predictions", str(PREDICTIONS), "--onnx", file, "--json"]
            for _ in range(cycles):
                ours.append(last_line([processes.benchmarks(program), "predict", *cell])["us_p50"])
                theirs.append(last_line([sys.executable, __file__, file])["us_p50"])
                print(f"{name}: {ours[-1]:.1f} us beside {theirs[-1]:.1f} us", file=sys.stderr, flush=True)
        yield rows.cost(f"{name}: a prediction (p50)", "us", ours, runtime, theirs)


def last_line(command):
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def onnx_once(file):
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    shape = [1, *session.get_inputs()[0].shape[1:]]
    image = numpy.random.default_rng(2).random(shape, dtype=numpy.float32)
    # Values of ONNX Runtime, bound once: no copy to or from Python is measured.
    binding = session.io_binding()
    binding.bind_ortvalue_input("input", onnxruntime.OrtValue.ortvalue_from_numpy(image))
    outputs = numpy.zeros([1, *session.get_outputs()[0].shape[1:]], dtype=numpy.float32)
    binding.bind_ortvalue_output("output", onnxruntime.OrtValue.ortvalue_from_numpy(outputs))
    run, times = session.run_with_iobinding, []
    for index in range(PREDICTIONS + PREDICTIONS // 10):
        start = time.perf_counter()
        run(binding)
        if index >= PREDICTIONS // 10:
            times.append(time.perf_counter() - start)
    times.sort()
    print(json.dumps({"us_min": 1e6 * times[0], "us_p50": 1e6 * times[len(times) // 2]}))


if __name__ == "__main__":
    onnx_once(sys.argv[1])
