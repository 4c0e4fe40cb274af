"""A convolutional network in PyTorch as a client. See README.md.

Usage: torch_silo.py SERVER TOKEN EXAMPLES.npz [STATE_DIR]      does the work of one round
       torch_silo.py job FILE.toml                              writes the job file, and the first model beside it
"""

import sys

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

import tributary
from tributary.torch import TorchTrainer


def network():
    torch.manual_seed(7)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 6 * 6, 10)
    )


def job():
    return tributary.job_from(
        network(), "digits-torch", "default",
        training={"epochs": 1, "batch_size": 10, "optimizer": {"kind": "sgd", "learning_rate": 0.1}},
        round={"updates_goal": 1, "updates_min": 1, "over_selection": 1.0}, stop={"rounds": 5},
    )  # fmt: skip


def main():
    if sys.argv[1] == "job":
        return job().save(sys.argv[2])
    server, token, file, *state_dir = sys.argv[1:]
    data = np.load(file)
    inputs = torch.tensor(data["inputs"], dtype=torch.float32).reshape(-1, 1, 8, 8)
    examples = TensorDataset(inputs, torch.tensor(data["labels"], dtype=torch.int64))
    trainer = TorchTrainer(network(), DataLoader(examples, batch_size=10, shuffle=True), torch.nn.functional.cross_entropy)
    client = tributary.Client(server, token, state_dir=state_dir[0] if state_dir else "tributary")
    outcome = client.run_once(trainer)
    print(outcome.kind, outcome.round)


if __name__ == "__main__":
    main()
