"""Fine-tunes adapters (LoRA) of a Hugging Face model: only they are in the job, and only they travel. See README.md.

Usage: lora_silo.py SERVER TOKEN EXAMPLES.npz [STATE_DIR]       does the work of one round
       lora_silo.py job FILE.toml                               writes the job file, and the first adapters beside it
"""

import sys

import numpy as np
import peft
import torch
import transformers
from torch.utils.data import DataLoader, TensorDataset

import tributary
from tributary.torch import TorchTrainer


class Classifier(torch.nn.Module):
    """A language model with a head of two classes. In a real app its base is a pretrained one that each client has."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        tiny = transformers.BertConfig(
            vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_labels=2
        )
        adapters = peft.LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["query", "value"])
        self.model = peft.get_peft_model(transformers.BertForSequenceClassification(tiny), adapters)

    def forward(self, tokens):
        return self.model(input_ids=tokens).logits


def job():
    return tributary.job_from(
        Classifier(), "adapters", "default",
        training={"epochs": 1, "batch_size": 10, "optimizer": {"kind": "adam", "learning_rate": 0.001}},
        silos=1, stop={"rounds": 5},
    )  # fmt: skip


def main():
    if sys.argv[1] == "job":
        return job().save(sys.argv[2])
    server, token, file, *state_dir = sys.argv[1:]
    data = np.load(file)
    examples = TensorDataset(torch.tensor(data["inputs"], dtype=torch.int64), torch.tensor(data["labels"], dtype=torch.int64))
    trainer = TorchTrainer(Classifier(), DataLoader(examples, batch_size=10, shuffle=True), torch.nn.functional.cross_entropy)
    client = tributary.Client(server, token, state_dir=state_dir[0] if state_dir else "tributary")
    outcome = client.run_once(trainer)
    print(outcome.kind, outcome.round)


if __name__ == "__main__":
    main()
