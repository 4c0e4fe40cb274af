"""The Python package without a coordinator. What needs PyTorch is skipped without it.

Usage: python -m unittest package_alone
"""

import json
import multiprocessing
import threading
import unittest

import numpy as np

import tributary
from tributary.trainer import Bridge

PARAMETERS = [{"name": "w", "shape": [2]}]
TASK = {
    "parameters": PARAMETERS,
    "model": {"parameters": PARAMETERS},
    "training": {"epochs": 1},
    "seed": 7,
    "frozen": [],
    "pull": 0.0,
    "may_suspend": False,
    "steps": None,
    "losses": None,
    "loss": "cross_entropy",
}


class Never:
    """A round that stays open."""

    def is_set(self):
        return False

    def is_over(self):
        return False


class Calls:
    """A trainer that does `work` when it is called."""

    def __init__(self, work):
        self.work = work

    def examples(self):
        return 1

    def train(self, task):
        self.work()
        return tributary.Trained(task.parameters, 1, 1, 0.5)

    def evaluate(self, task):
        self.work()
        return tributary.Evaluated(1, 0.5)


def on_a_thread_of_the_native_part(work):
    """Calls `work` on a thread that `threading` did not make."""
    import _thread

    done, result = threading.Event(), []

    def call():
        # Python then knows the thread as a `_DummyThread`.
        threading.current_thread()
        result.append(work())
        done.set()

    _thread.start_new_thread(call, ())
    done.wait()
    return result[0]


def nothing():
    pass


class Trainers(unittest.TestCase):
    def test_a_child_that_a_trainer_forks_ends_with_0(self):
        codes = []

        def fork():
            child = multiprocessing.get_context("fork").Process(target=nothing)
            child.start()
            child.join()
            codes.append(child.exitcode)

        model, bridge = np.zeros(2, "<f4").tobytes(), Bridge(Calls(fork))
        on_a_thread_of_the_native_part(lambda: bridge.train(model, None, None, json.dumps(TASK), Never()))
        on_a_thread_of_the_native_part(lambda: bridge.evaluate(model, json.dumps(TASK), Never()))
        self.assertEqual(codes, [0, 0])

    def test_what_a_trainer_raises_arrives(self):
        def fail():
            raise KeyError("on purpose")

        with self.assertRaisesRegex(KeyError, "on purpose"):
            Bridge(Calls(fail)).train(np.zeros(2, "<f4").tobytes(), None, None, json.dumps(TASK), Never())


class Settings(unittest.TestCase):
    def client(self, **settings):
        return tributary.Client("https://fl.example.org", "tributary_enrolment_" + "0" * 64, **settings)

    def test_a_wrong_setting_is_named(self):
        with self.assertRaisesRegex(TypeError, "attributes are texts by name, not 'a': 3"):
            self.client(attributes={"a": 3})
        for wait_s in (-1, 61, float("nan")):
            with self.assertRaisesRegex(ValueError, "wait_s is from 0 to 60 seconds"):
                self.client(wait_s=wait_s)


if __name__ == "__main__":
    unittest.main()
