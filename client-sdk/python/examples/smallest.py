"""The shortest app: it takes part in a round of the job `points` and predicts. `smallest.py SERVER TOKEN`"""

import sys

import numpy as np
import tributary

_, server, token = sys.argv
client = tributary.Client(server, token, state_dir="state")
inputs, labels = np.array([[0.5, -1.0], [-0.25, 0.75]], np.float32), np.array([0, 1])
client.run_once(tributary.LayerTrainer(inputs, labels))
if (model := client.model("points")) is not None:
    [prediction] = model.predict([{"x": 0.1, "y": -0.4}])
    print(prediction.label, prediction.probabilities)
