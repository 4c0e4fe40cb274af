"""Rounds of FedAvg in Flower's Message API whose clients add 1 to each parameter.

The server writes lines to the file `marks`: `round` and the time, before the first round and after each; then `ended`,
or `failed` and why.
"""

import time

import numpy
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, _: Context) -> Message:
    arrays = [array + numpy.float32(1) for array in message.content["arrays"].to_numpy_ndarrays()]
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 1})})
    return Message(content=content, reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    clients, rounds = config["clients"], config["rounds"]
    # Every round selects all clients. There is no evaluation by clients.
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
    model = ArrayRecord([numpy.zeros(config["params"], numpy.float32)])
    with open(config["marks"], "a", buffering=1) as marks:
        try:
            mark = lambda *_: print("round", time.time(), file=marks)
            result = strategy.start(grid=grid, initial_arrays=model, num_rounds=rounds, evaluate_fn=mark)
            [values] = result.arrays.to_numpy_ndarrays()
            if not (values == rounds).all():
                raise RuntimeError(f"parameters are {values} after {rounds} rounds")
            print("ended", file=marks)
        except Exception as error:
            print("failed", repr(error), file=marks)
            raise
