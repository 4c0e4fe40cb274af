"""PyTorch modules as trainers, without a coordinator.

Usage: python -m unittest package_torch
"""

import pathlib
import tempfile
import unittest

import numpy as np
import torch

import forward
import tributary
from package_alone import Never
from tributary.arrays import to_safetensors
from tributary.torch import LoopTrainer, TorchTrainer, load, module_from


def linear(outputs, dtype=torch.float32):
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(4, outputs)).to(dtype)


def model(outputs):
    """Values that no half precision holds exactly."""
    random = np.random.default_rng(5)
    return {
        "layers.0.weight": random.normal(size=(outputs, 4)).astype("<f4"),
        "layers.0.bias": random.normal(size=outputs).astype("<f4"),
    }


def task(parameters, rate=0.1, **settings):
    training = {"epochs": 2, "optimizer": {"kind": "sgd", "learning_rate": rate}}
    return tributary.TrainTask(parameters, {}, training, 7, Never(), **settings)


def examples(classes=3, dtype=torch.float32):
    torch.manual_seed(4)
    return [(torch.randn(5, 4, dtype=dtype), torch.randint(classes, (5,))) for _ in range(3)]


class HalfPrecision(unittest.TestCase):
    def test_a_training_that_moves_nothing_sends_the_global_model(self):
        for dtype in (torch.bfloat16, torch.float32):
            for pull in (0.0, 0.5):
                trainer = TorchTrainer(linear(3, dtype), examples(dtype=dtype), torch.nn.functional.cross_entropy)
                trained = trainer.train(task(model(3), rate=0.0, pull=pull))
                for name, value in model(3).items():
                    self.assertTrue(np.array_equal(trained.parameters[name], value), (dtype, name))

    def test_what_training_changes_is_sent(self):
        trainer = TorchTrainer(linear(3, torch.bfloat16), examples(dtype=torch.bfloat16), torch.nn.functional.cross_entropy)
        trained = trainer.train(task(model(3), rate=0.5))
        self.assertFalse(np.allclose(trained.parameters["layers.0.weight"], model(3)["layers.0.weight"], atol=1e-2))


class Evaluations(unittest.TestCase):
    def evaluate(self, outputs, batches, loss, **settings):
        trainer = TorchTrainer(linear(outputs), batches, loss, **settings)
        return trainer.evaluate(tributary.EvaluateTask(model(outputs), {}, "cross_entropy", Never()))

    def test_a_classifier_with_one_output_has_an_accuracy(self):
        logit = torch.nn.functional.binary_cross_entropy_with_logits
        batches = [(inputs, labels.float().reshape(-1, 1)) for inputs, labels in examples(2)]
        measured = self.evaluate(1, batches, logit)
        inputs = torch.cat([inputs for inputs, _ in batches]).numpy()
        truth = torch.cat([labels for _, labels in batches]).numpy().ravel() > 0.5
        said = (inputs @ model(1)["layers.0.weight"].T + model(1)["layers.0.bias"]).ravel() > 0
        self.assertEqual(measured.accuracy, float((said == truth).mean()))
        self.assertEqual(measured.confusion[1, 1], int((said & truth).sum()))
        self.assertEqual(measured.confusion.sum(), 15)

    def test_classes_are_counted_and_probabilities_of_classes_are_not(self):
        measured = self.evaluate(3, examples(), torch.nn.functional.cross_entropy)
        self.assertEqual(measured.confusion.trace(), round(measured.accuracy * 15))
        batches = [(inputs, torch.full((5, 3), 1 / 3)) for inputs, _ in examples()]
        measured = self.evaluate(3, batches, torch.nn.functional.cross_entropy)
        self.assertEqual((measured.accuracy, measured.confusion), (None, None))


    def test_figures_of_the_app_are_reported(self):
        batches = examples()

        def metrics(outputs, targets):
            return {"positive": float((outputs > 0).float().mean()), "targets": len(targets)}

        measured = self.evaluate(3, batches, torch.nn.functional.cross_entropy, metrics=metrics)
        self.assertEqual(measured.metrics["targets"], 15)
        self.assertTrue(0 < measured.metrics["positive"] < 1)

    def test_an_evaluation_on_the_training_examples_is_warned_of_once(self):
        trainer = TorchTrainer(linear(3), examples(), torch.nn.functional.cross_entropy)
        asked = tributary.EvaluateTask(model(3), {}, "cross_entropy", Never())
        with self.assertLogs("tributary", "WARNING") as logged:
            trainer.evaluate(asked)
            trainer.evaluate(asked)
        self.assertEqual(len(logged.output), 1)
        with self.assertNoLogs("tributary", "WARNING"):
            TorchTrainer(linear(3), [], torch.nn.functional.cross_entropy, test=examples()).evaluate(asked)


class Batches(unittest.TestCase):
    def test_a_batch_of_another_form_is_refused_at_once(self):
        dictionary = [{"x": torch.randn(5, 4), "y": torch.zeros(5)}]
        loader = torch.utils.data.DataLoader([{"x": torch.randn(4), "y": 1}], batch_size=2)
        for batches, form in [(dictionary, "a dictionary of ['x', 'y']"), (loader, "a dictionary"), ([torch.ones(2)], "Tensor")]:
            with self.assertRaisesRegex(TypeError, "a pair of tensors") as raised:
                TorchTrainer(linear(3), batches, torch.nn.functional.cross_entropy)
            self.assertIn(form, str(raised.exception))

    def test_a_step_takes_any_batch_and_trains_as_a_loss_does(self):
        def step(module, batch):
            outputs = module(batch["x"])
            return torch.nn.functional.cross_entropy(outputs, batch["y"]), outputs, batch["y"]

        pairs = examples()
        steps = TorchTrainer(linear(3), [{"x": x, "y": y, "name": "n"} for x, y in pairs], step=step)
        losses = TorchTrainer(linear(3), pairs, torch.nn.functional.cross_entropy)
        self.assertEqual(steps.examples(), losses.examples())
        one, other = steps.train(task(model(3))), losses.train(task(model(3)))
        self.assertEqual(one.loss, other.loss)
        for name in other.parameters:
            self.assertTrue(np.array_equal(one.parameters[name], other.parameters[name]))
        asked = tributary.EvaluateTask(model(3), {}, "cross_entropy", Never())
        self.assertEqual(steps.evaluate(asked).accuracy, losses.evaluate(asked).accuracy)
        for wrong in ({}, {"step": step, "loss": torch.nn.functional.cross_entropy}):
            with self.assertRaises(TypeError):
                TorchTrainer(linear(3), pairs, **wrong)

    def test_a_loader_is_not_read_to_count_it(self):
        class Counts(torch.utils.data.Dataset):
            reads = 0

            def __len__(self):
                return 1_003

            def __getitem__(self, index):
                self.reads += 1
                return torch.zeros(4), index % 3

        for drop_last, expected in [(False, 1_003), (True, 1_000)]:
            data = Counts()
            loader = torch.utils.data.DataLoader(data, batch_size=10, drop_last=drop_last)
            trainer = TorchTrainer(linear(3), loader, torch.nn.functional.cross_entropy)
            self.assertEqual((trainer.examples(), data.reads), (expected, 10))


class Modules(unittest.TestCase):
    def test_weights_come_back_into_a_module_by_the_names_of_its_job(self):
        module = linear(3)
        load(module, model(3))
        self.assertTrue(np.array_equal(module[0].weight.detach().numpy(), model(3)["layers.0.weight"]))
        with self.assertRaisesRegex(tributary.DoesNotFit, "no parameter 'layers.9.weight'"):
            load(module, {"layers.9.weight": np.zeros(3)})
        with self.assertRaisesRegex(tributary.DoesNotFit, "has the shape"):
            load(module, {"layers.0.bias": np.zeros(2)})

    def test_a_wrapped_module_has_the_names_of_the_one_inside(self):
        wrapped = torch.nn.DataParallel(linear(3))
        trained = TorchTrainer(wrapped, examples(), torch.nn.functional.cross_entropy).train(task(model(3)))
        plain = TorchTrainer(linear(3), examples(), torch.nn.functional.cross_entropy).train(task(model(3)))
        for name, value in plain.parameters.items():
            self.assertTrue(np.array_equal(trained.parameters[name], value))


class Loops(unittest.TestCase):
    def test_a_loop_that_exists_trains_and_evaluates_the_global_model(self):
        batches = examples()

        def train(module, should_stop):
            optimizer, losses = torch.optim.SGD(module.parameters(), lr=0.1), []
            for _ in range(2):
                for inputs, targets in batches:
                    self.assertFalse(should_stop())
                    optimizer.zero_grad()
                    loss = torch.nn.functional.cross_entropy(module(inputs), targets)
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
            return sum(losses) / len(losses), len(losses)

        def evaluate(module):
            losses = [torch.nn.functional.cross_entropy(module(inputs), targets).item() for inputs, targets in batches]
            return sum(losses) / len(losses)

        loop = LoopTrainer(linear(3), train=train, evaluate=evaluate, examples=15)
        ours = TorchTrainer(linear(3), batches, torch.nn.functional.cross_entropy)
        one, other = loop.train(task(model(3))), ours.train(task(model(3)))
        self.assertEqual((one.steps, one.examples, one.loss), (other.steps, other.examples, other.loss))
        for name in other.parameters:
            self.assertTrue(np.array_equal(one.parameters[name], other.parameters[name]))
        asked = tributary.EvaluateTask(model(3), {}, "cross_entropy", Never())
        self.assertAlmostEqual(loop.evaluate(asked).loss, ours.evaluate(asked).loss, places=6)

    def test_a_loop_that_was_stopped_contributes_nothing(self):
        class Stopped(Never):
            def is_set(self):
                return True

        loop = LoopTrainer(linear(3), train=lambda module, should_stop: 0.5, evaluate=lambda module: 0.5, examples=1)
        asked = tributary.TrainTask(model(3), {}, {"epochs": 1}, 7, Stopped())
        with self.assertRaises(tributary.Interrupted):
            loop.train(asked)


TRAINING = {"epochs": 1, "optimizer": {"kind": "sgd", "learning_rate": 0.1}}


class Jobs(unittest.TestCase):
    def job(self, module, **settings):
        return tributary.job_from(module, "name", "shop", training=TRAINING, **settings)

    def names(self, module, **settings):
        return [one["name"] for one in self.job(module, **settings).file["model"]["parameters"]]

    def test_an_unknown_layer_is_named_and_may_be_required(self):
        module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.SiLU())
        with self.assertLogs("tributary", "WARNING") as logged:
            self.assertEqual(self.names(module, input=[4]), ["0.weight", "0.bias"])
        self.assertIn("'1', SiLU()", logged.output[0])
        with self.assertRaisesRegex(ValueError, "SiLU"):
            self.job(module, input=[4], layers="require")
        with self.assertNoLogs("tributary", "WARNING"):
            known = self.job(torch.nn.Sequential(torch.nn.Linear(4, 3)), input=[4])
        self.assertEqual(known.file["model"]["layers"], [{"kind": "linear", "out_features": 3, "bias": True}])
        self.assertEqual(known.file["initial_model"], "upload")

    def test_names_are_those_inside_wrappers_and_tied_weights_are_there_once(self):
        class Tied(torch.nn.Module):
            def __init__(self, device=None):
                super().__init__()
                self.embedding = torch.nn.Embedding(5, 4, device=device)
                self.head = torch.nn.Linear(4, 5, bias=False, device=device)
                self.head.weight = self.embedding.weight

        for module in (Tied(), torch.nn.DataParallel(Tied()), Tied("meta")):
            self.assertEqual(self.names(module), ["embedding.weight"])
        tied = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        tied[1].weight = tied[0].weight
        with self.assertRaisesRegex(ValueError, "'1.weight' is tied"):
            self.job(tied, input=[4], layers="require")

    def test_a_module_without_weights_has_no_initial_model(self):
        job = self.job(torch.nn.Linear(4, 3, device="meta"))
        self.assertEqual((job.initial, "initial_model" in job.file), (None, False))

    def test_what_cannot_be_trained_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no parameters"):
            self.job(torch.nn.ReLU())
        with self.assertRaisesRegex(ValueError, "'bias' is complex"):
            self.job(torch.nn.Linear(2, 2, dtype=torch.complex64))

    def test_a_round_of_silos_waits_for_no_others(self):
        job = self.job(linear(3), silos=3, round={"deadline_ms": 1000}, stop={"rounds": 2})
        expected = {"updates_goal": 3, "updates_min": 2, "over_selection": 1.0, "selection_timeout_ms": 30_000}
        self.assertEqual(job.file["round"], {**expected, "deadline_ms": 1000})
        self.assertEqual(job.file["download"], {"delta": True})
        self.assertEqual(self.job(linear(3), download={"codec": "f16"}).file["download"], {"codec": "f16"})


def layer(kind, **settings):
    return {"kind": kind, **settings}


# Every kind of layer, with each of its settings that changes a formula or a shape: as `job_from` writes them.
NETWORKS = {
    "dense": ([8], [
        layer("batch_norm", epsilon=0.01, momentum=0.3), layer("linear", out_features=9, bias=True), layer("gelu"),
        layer("low_rank", out_features=6, bias=True, rank=2, alpha=3.0), layer("dropout", probability=0.5),
        layer("sigmoid"), layer("layer_norm", epsilon=0.01), layer("linear", out_features=2, bias=False),
    ]),
    "image": ([2, 9, 8], [
        layer("conv2d", out_channels=5, kernel_size=[4, 3], stride=[1, 1], padding="same", bias=False),
        layer("batch_norm", epsilon=1e-5, momentum=0.1), layer("relu"),
        layer("avg_pool2d", kernel_size=[2, 3], stride=[1, 2]),
        layer("conv2d", out_channels=3, kernel_size=[2, 1], stride=[2, 1], padding=[1, 2], bias=True), layer("tanh"),
        layer("max_pool2d", kernel_size=[2, 2], stride=[1, 1]),
        layer("low_rank", out_features=3, bias=False, rank=2, alpha=2.0), layer("flatten"),
        layer("linear", out_features=2, bias=True),
    ]),
    "tokens": ([7], [
        layer("embedding", tokens=7, size=4), layer("lstm", hidden_size=6, return_sequences=True),
        layer("gru", hidden_size=5, return_sequences=True), layer("layer_norm", epsilon=1e-5),
        layer("lstm", hidden_size=3, return_sequences=False),
    ]),
    "sequence": ([6, 3], [
        layer("gru", hidden_size=5, return_sequences=False), layer("linear", out_features=2, bias=True),
    ]),
}
TRAINING = {"epochs": 1, "batch_size": 2, "optimizer": {"kind": "sgd", "learning_rate": 0.1}}


def shapes_of(shape, layers):
    """Shapes of the parameters by name, written from the formulas."""
    shapes, shape = {}, list(shape)
    for index, one in enumerate(layers):
        kind, last, name = one["kind"], shape[-1], f"layers.{index}."
        if kind in ("linear", "low_rank"):
            outputs = one["out_features"]
            shapes[name + "weight"] = (outputs, last)
            if one["bias"]:
                shapes[name + "bias"] = (outputs,)
            if kind == "low_rank":
                shapes[name + "lora_A"], shapes[name + "lora_B"] = (one["rank"], last), (outputs, one["rank"])
            shape = [*shape[:-1], outputs]
        elif kind == "conv2d":
            shapes[name + "weight"] = (one["out_channels"], shape[0], *one["kernel_size"])
            if one["bias"]:
                shapes[name + "bias"] = (one["out_channels"],)
            zeros = [0, 0] if one["padding"] == "same" else [2 * side for side in one["padding"]]
            lengths = zip(shape[1:], one["kernel_size"], one["stride"], zeros)
            sides = [(length + more - size) // step + 1 for length, size, step, more in lengths]
            shape = [one["out_channels"], *(shape[1:] if one["padding"] == "same" else sides)]
        elif kind.endswith("pool2d"):
            lengths = zip(shape[1:], one["kernel_size"], one["stride"])
            shape = [shape[0], *((length - size) // step + 1 for length, size, step in lengths)]
        elif kind == "layer_norm":
            shapes |= {name + each: (last,) for each in ("weight", "bias")}
        elif kind == "batch_norm":
            shapes |= {name + each: (shape[0],) for each in ("weight", "bias", "running_mean", "running_var")}
        elif kind == "embedding":
            shapes[name + "weight"] = (one["tokens"], one["size"])
            shape = [*shape, one["size"]]
        elif kind == "flatten":
            shape = [int(np.prod(shape))]
        elif kind in ("lstm", "gru"):
            hidden, rows = one["hidden_size"], one["hidden_size"] * (4 if kind == "lstm" else 3)
            each = {"weight_ih_l0": (rows, last), "weight_hh_l0": (rows, hidden)}
            shapes |= {name + of: size for of, size in {**each, "bias_ih_l0": (rows,), "bias_hh_l0": (rows,)}.items()}
            shape = [shape[0], hidden] if one["return_sequences"] else [hidden]
    return shapes


def weights_of(name):
    """Random weights, whose running variances are positive."""
    random = np.random.default_rng(9)
    shapes = shapes_of(*NETWORKS[name])
    least = {each: 0.5 if each.endswith("running_var") else -0.5 for each in shapes}
    return {each: random.uniform(least[each], least[each] + 1, shape).astype("<f4") for each, shape in shapes.items()}


class Modules(unittest.TestCase):
    def test_every_kind_of_layer_is_tried(self):
        kinds = {one["kind"] for _, layers in NETWORKS.values() for one in layers}
        self.assertEqual(len(kinds), 16)

    def test_a_module_of_layers_computes_their_formulas(self):
        for name, (shape, layers) in NETWORKS.items():
            weights = weights_of(name)
            module = module_from({"model": {"input": shape, "layers": layers}}, weights).double().eval()
            random = np.random.default_rng(3)
            inputs = random.integers(7, size=(3, *shape)) if name == "tokens" else random.uniform(-1, 1, (3, *shape))
            wide = {each: value.astype(np.float64) for each, value in weights.items()}
            expected = forward.forward(inputs.astype(np.float64), layers, wide)
            with torch.no_grad():
                outputs = module(torch.from_numpy(inputs)).numpy()
            self.assertEqual(outputs.shape, expected.shape, name)
            self.assertLess(np.abs(outputs - expected).max(), 1e-6, name)

    def test_the_way_back_gives_the_same_layers_and_weights(self):
        for name, (shape, layers) in NETWORKS.items():
            weights = weights_of(name)
            module = module_from({"input": shape, "layers": layers}, weights)
            job = tributary.job_from(module, name, "p", training=TRAINING, input=shape, layers="require")
            self.assertEqual(job.file["model"], {"input": shape, "layers": layers}, name)
            self.assertEqual(job.initial, to_safetensors(weights), name)
            again = module_from(job, job.initial).state_dict()
            for each, value in module.state_dict().items():
                self.assertTrue(torch.equal(again[each], value), (name, each))

    def test_files_are_read_and_defaults_are_those_of_job_files(self):
        layers = [layer("low_rank", out_features=3, rank=2), layer("max_pool2d", kernel_size=2)]
        weights = {"weight": (3, 4), "bias": (3,), "lora_A": (2, 4), "lora_B": (3, 2)}
        weights = {f"layers.0.{name}": np.full(shape, 0.5, "<f4") for name, shape in weights.items()}
        with tempfile.TemporaryDirectory() as folder:
            file = {"name": "n", "population": "p", "model": {"input": [1, 2, 4], "layers": layers}, "training": TRAINING}
            tributary.Job(file, to_safetensors(weights)).save(path := pathlib.Path(folder) / "job.toml")
            module = module_from(path, path.with_suffix(".safetensors"))
        # Each output is 0.5 of the weight, 0.5 of the product, times 4 ones, and the bias.
        self.assertEqual(module.eval()(torch.ones(1, 1, 2, 4)).tolist(), [[[[4.5]]]])

    def test_what_does_not_fit_is_refused(self):
        model = {"input": [4], "layers": [layer("linear", out_features=3)]}
        good = {"layers.0.weight": np.zeros((3, 4)), "layers.0.bias": np.zeros(3)}
        for weights in ({}, {**good, "layers.1.weight": np.zeros(1)}, {"layers.0.weight": np.zeros((3, 4))}):
            with self.assertRaises(tributary.DoesNotFit):
                module_from(model, weights)
        with self.assertRaises(ValueError):
            module_from({"model": {"parameters": [{"name": "w", "shape": [2]}]}}, good)


if __name__ == "__main__":
    unittest.main()
