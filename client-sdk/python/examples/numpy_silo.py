"""Softmax regression in numpy, as a client of a job with the parameters `weight` and `bias`.

Usage: numpy_silo.py SERVER TOKEN EXAMPLES.npz [STATE_DIR]     (arrays `inputs` [examples, features] and `labels`)

It does the work of one round and prints how the session ended.
"""

import sys

import numpy as np

import tributary


class SoftmaxRegression:
    def __init__(self, inputs, labels):
        self.inputs, self.labels = inputs.astype(np.float64), labels

    def examples(self):
        return len(self.labels)

    def train(self, task):
        weight, bias = (task.parameters[name].astype(np.float64) for name in ("weight", "bias"))
        rate, steps = task.training["optimizer"]["learning_rate"], task.training["steps"]
        losses = 0.0
        for _ in range(steps):
            task.check()
            loss, scores = self.measure(weight, bias)
            # The gradient of the mean cross-entropy with respect to the scores.
            gradient = (scores - np.eye(len(bias))[self.labels]) / len(self.labels)
            weight, bias = weight - rate * gradient.T @ self.inputs, bias - rate * gradient.sum(0)
            losses += loss
        return tributary.Trained({"weight": weight, "bias": bias}, len(self.labels), steps, losses / steps)

    def evaluate(self, task):
        loss, scores = self.measure(task.parameters["weight"], task.parameters["bias"])
        return tributary.Evaluated(len(self.labels), loss, float((scores.argmax(1) == self.labels).mean()))

    def measure(self, weight, bias):
        """The mean cross-entropy, and the probabilities of all classes."""
        scores = self.inputs @ weight.T + bias
        scores = np.exp(scores - scores.max(1, keepdims=True))
        scores /= scores.sum(1, keepdims=True)
        return float(-np.log(scores[np.arange(len(self.labels)), self.labels]).mean()), scores


def main():
    server, token, file, *state_dir = sys.argv[1:]
    data = np.load(file)
    client = tributary.Client(server, token, state_dir=state_dir[0] if state_dir else "tributary")
    outcome = client.run_once(SoftmaxRegression(data["inputs"], data["labels"]))
    print(outcome.kind, outcome.round)


if __name__ == "__main__":
    main()
