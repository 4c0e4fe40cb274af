"""PyTorch modules as trainers, without a coordinator.

Usage: python -m unittest package_torch
"""

import unittest

import numpy as np
import torch

import tributary
from package_alone import Never
from tributary.torch import LoopTrainer, TorchTrainer, load


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


if __name__ == "__main__":
    unittest.main()
