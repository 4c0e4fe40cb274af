"""The Python package without a coordinator. What needs PyTorch is skipped without it.

Usage: python -m unittest package_alone
"""

import hashlib
import http.server
import io
import json
import multiprocessing
import os
import queue
import signal
import ssl
import tempfile
import threading
import tracemalloc
import unittest
import urllib.error
import weakref
from unittest import mock

import numpy as np

import tributary
from tributary.arrays import PIECE_VALUES, pieces, to_safetensors
from tributary.client import _Watcher
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
    "job": "points",
    "data": None,
    "loss": "cross_entropy",
}


class Never:
    """A round that stays open."""

    def is_set(self):
        return False

    def is_over(self):
        return False

    def checkpoint_is_due(self):
        return False


class Due(Never):
    """A session that asks for a checkpoint before the first step."""

    def __init__(self):
        self.kept = []

    def checkpoint_is_due(self):
        return not self.kept

    def keep(self, *checkpoint):
        self.kept.append(checkpoint)


def untold(done, of):
    pass


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

    ended = queue.SimpleQueue()

    def call():
        # Python then knows the thread as a `_DummyThread`.
        threading.current_thread()
        try:
            ended.put((work(), None))
        except BaseException as error:
            ended.put((None, error))

    _thread.start_new_thread(call, ())
    result, error = ended.get()
    if error is not None:
        raise error
    return result


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

        model, bridge = np.zeros(2, "<f4").tobytes(), Bridge(Calls(fork), untold)
        on_a_thread_of_the_native_part(lambda: bridge.train(model, None, None, json.dumps(TASK), Never()))
        on_a_thread_of_the_native_part(lambda: bridge.evaluate(model, json.dumps(TASK), Never()))
        self.assertEqual(codes, [0, 0])

    def test_what_a_trainer_raises_arrives(self):
        def fail():
            raise KeyError("on purpose")

        with self.assertRaisesRegex(KeyError, "on purpose"):
            Bridge(Calls(fail), untold).train(np.zeros(2, "<f4").tobytes(), None, None, json.dumps(TASK), Never())

    def test_a_checkpoint_is_kept_when_it_is_due_and_the_training_goes_on(self):
        class Steps(Calls):
            def train(self, task):
                for step in range(3):
                    task.check(lambda: tributary.Checkpoint(step, 0.5, bytes([step])))
                    task.progress(step + 1, 3)
                return super().train(task)

        stop, told = Due(), []
        bridge = Bridge(Steps(nothing), lambda done, of: told.append((done, of)))
        bridge.train(np.zeros(2, "<f4").tobytes(), None, None, json.dumps(TASK), stop)
        self.assertEqual(stop.kept, [(0, 0.5, b"\x00")])
        self.assertEqual(told, [(1, 3), (2, 3), (3, 3)])


class Complex(unittest.TestCase):
    def test_complex_parameters_are_refused_by_name_and_not_stripped_of_a_part(self):
        for given in ([1 + 2j, 0.0], np.array([1, 2], np.complex64)):
            with self.assertRaisesRegex(TypeError, "'w' is complex(64|128): parameters are real numbers"):
                list(pieces({"w": given}, PARAMETERS))
            with self.assertRaisesRegex(TypeError, "'w' is complex"):
                to_safetensors({"w": given})
        self.assertEqual(list(pieces({"w": [1, 2]}, PARAMETERS)), [np.array([1, 2], "<f4").tobytes()])


class Pieces(unittest.TestCase):
    def test_pieces_are_the_values_row_by_row_whatever_holds_them(self):
        random = np.random.default_rng(3)
        rows = random.normal(size=(192, PIECE_VALUES // 64)).astype("<f4")
        parameters = [{"name": "w", "shape": list(rows.shape)}, {"name": "s", "shape": []}]
        for given in (rows, rows.astype(np.float64), rows.astype(">f4"), np.asfortranarray(rows), rows.tolist()):
            made = list(pieces({"s": 0.5, "w": given}, parameters))
            self.assertEqual(b"".join(made), rows.tobytes() + np.array(0.5, "<f4").tobytes())
            self.assertEqual([len(piece) for piece in made], 3 * [4 * PIECE_VALUES] + [4])

    def test_what_does_not_fit_the_model_is_named(self):
        for given, told in [({}, "no parameter 'w'"), ({"w": [1], "v": 1}, "no parameter 'v'"), ({"w": [1]}, "shape")]:
            with self.assertRaisesRegex(tributary.DoesNotFit, told):
                list(pieces(given, PARAMETERS))

    def test_arrays_that_only_the_result_has_are_freed_as_they_are_read(self):
        parameters = [{"name": name, "shape": [1 << 20]} for name in "abcd"]
        kept = np.ones(1 << 20, "<f4")

        class Forgets(Calls):
            def train(self, task):
                self.result = {**{name: np.ones(1 << 20, "<f4") for name in "abc"}, "d": kept}
                alive.extend(weakref.ref(self.result[name]) for name in "abc")
                result, self.result = self.result, None
                return tributary.Trained(result, 1, 1, 0.5)

        alive, seen = [], []
        native = mock.Mock(add=lambda piece: seen.append(sum(one() is not None for one in alive)))
        with mock.patch("tributary.trainer._core.LocalModel", lambda total: native):
            task = json.dumps({**TASK, "parameters": parameters})
            Bridge(Forgets(nothing), untold).train(bytes(4 << 22), None, None, task, Never())
        # The one that is read is alive.
        self.assertEqual([seen[0], seen[len(seen) // 4], seen[len(seen) // 2], seen[-1]], [3, 2, 1, 0])

    def test_a_result_that_the_trainer_keeps_stays_whole(self):
        result = {"w": np.ones(2, "<f4")}

        class Keeps(Calls):
            def train(self, task):
                return tributary.Trained(result, 1, 1, 0.5)

        bridge = Bridge(Keeps(nothing), untold)
        bridge.train(bytes(8), None, None, json.dumps(TASK), Never())
        self.assertEqual(list(result), ["w"])

    def test_python_makes_no_copy_of_a_model_or_a_result(self):
        """A model of 16 MiB: Python's and numpy's own memory stays below four pieces. There are three at a time: one as
        an array of f32, its bytes, and those of the one before."""
        shape = [4, 1 << 20]
        task = {**TASK, "parameters": [{"name": "w", "shape": shape}]}
        model = bytes(4 * shape[0] * shape[1])
        for kind in (np.float32, np.float64):
            result = np.ones(shape, kind)

            class Keeps(Calls):
                def train(self, task):
                    assert not task.parameters["w"].flags.writeable
                    return tributary.Trained({"w": result}, 1, 1, 0.5)

            bridge = Bridge(Keeps(nothing), untold)
            tracemalloc.start()
            bridge.train(model, None, None, json.dumps(task), Never())
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            self.assertLess(most, 4 * 4 * PIECE_VALUES, kind)


class Settings(unittest.TestCase):
    def client(self, **settings):
        return tributary.Client("https://fl.example.org", "tributary_enrolment_" + "0" * 64, **settings)

    def test_a_wrong_setting_is_named(self):
        with self.assertRaisesRegex(TypeError, "attributes are texts by name, not 'a': 3"):
            self.client(attributes={"a": 3})
        for wait_s in (-1, 61, float("nan")):
            with self.assertRaisesRegex(ValueError, "wait_s is from 0 to 60 seconds"):
                self.client(wait_s=wait_s)
        with self.assertRaisesRegex(tributary.TributaryError, "named with 1 to 128 bytes"):
            self.client(consent=("", 0))
        with self.assertRaisesRegex(ValueError, "unknown field `secure`"):
            self.client(privacy_floor={"secure": True})
        for every_s in (-1, 0.5, None):
            with self.assertRaisesRegex(ValueError, "checkpoint_every_s is a number of whole seconds"):
                self.client(checkpoint_every_s=every_s)


def in_a_child(clients, told):
    """A child's calls with a client of its parent, and the client's end."""
    try:
        clients[0].enrol()
    except RuntimeError as error:
        told.send(str(error))
    clients.clear()
    told.send("the end")


def exported(inputs, loss="cross_entropy", outputs=2, width=4):
    """The file of a linear network whose output i is its input i."""
    weight = np.eye(outputs, width, dtype="<f4")
    card = {
        "job": "stays",
        "version": 3,
        "sha256": "0" * 64,
        "plan_sha256": "0" * 64,
        "loss": loss,
        "model": {"input": [width], "layers": [{"kind": "linear", "out_features": outputs}], "inputs": inputs},
    }
    header = {
        "__metadata__": {"format": "pt", "tributary": json.dumps(card)},
        "layers.0.weight": {"dtype": "F32", "shape": [outputs, width], "data_offsets": [0, weight.nbytes]},
        "layers.0.bias": {
            "dtype": "F32",
            "shape": [outputs],
            "data_offsets": [weight.nbytes, weight.nbytes + 4 * outputs],
        },
    }
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + weight.tobytes() + bytes(4 * outputs)


class Models(unittest.TestCase):
    """An exported file predicts alone."""

    WARDS = {
        "columns": [
            {"name": "age", "mean": 40.0, "deviation": 10.0, "missing": "replace"},
            {"name": "admitted", "kind": "date"},
            {"name": "ward", "kind": "category", "categories": ["east", "west"]},
        ],
        "target": {"name": "stays", "classes": ["no", "yes"]},
    }

    def test_rows_are_lists_or_mappings(self):
        model = tributary.load(exported(self.WARDS))
        self.assertEqual(model.columns, ["age", "admitted", "ward"])
        [one, other] = model.predict([[60, "1970-01-02", "west"], {"ward": 0, "admitted": 3.0, "age": None, "x": 1}])
        self.assertEqual((one.outputs, one.label), ([2.0, 1.0], "no"))
        self.assertAlmostEqual(one.probabilities["no"], 1 / (1 + np.exp(-1)), places=6)
        self.assertEqual((other.outputs, other.label, other.numbers), ([0.0, 3.0], "yes", []))

    def test_numbers_have_the_unit_of_the_target(self):
        inputs = {"columns": [{"name": "x"}], "target": {"name": "days", "mean": 4.0, "deviation": 2.0}}
        model = tributary.load(exported(inputs, "mse", 1, 1))
        self.assertEqual(model.predict([[3]])[0].numbers, [10.0])

    def test_what_does_not_fit_is_named(self):
        model = tributary.load(exported(self.WARDS))
        for row, said in [
            ([60, "1970-01-02"], "2 values, where the model has 3 columns"),
            ({"age": 1, "ward": "east"}, "the row has no 'admitted'"),
            ([60, "1970-01-02", "north"], "ward: 'north' is none of east, west"),
            (["old", "1970-01-02", "west"], "age: 'old' is not a number"),
            ([60, "yesterday", "west"], "admitted: 'yesterday' is not a date"),
            ([60, None, "west"], "admitted is missing"),
        ]:
            with self.assertRaisesRegex(ValueError, said):
                model.predict([row])
        with self.assertRaisesRegex(ValueError, "not a model file"):
            tributary.load(b"no model")


class Forks(unittest.TestCase):
    def test_a_client_of_the_parent_is_refused_and_ends_in_a_child(self):
        hears, told = multiprocessing.Pipe(duplex=False)
        clients = [tributary.Client("http://127.0.0.1:1", "tributary_enrolment_" + "0" * 64)]
        child = multiprocessing.get_context("fork").Process(target=in_a_child, args=(clients, told))
        child.start()
        self.assertTrue(hears.poll(60) and "made in another process" in hears.recv())
        self.assertTrue(hears.poll(60), "its end waits for threads that are not there")
        self.assertEqual(hears.recv(), "the end")
        child.join()
        self.assertEqual(child.exitcode, 0)


class Sessions:
    """Stands for the native part: the sessions end as these say, an exception or an outcome."""

    def __init__(self, *ends):
        self.ends = list(ends)

    def run_once(self, *_):
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end


def refused(kind):
    error = tributary.Refused("no")
    error.kind, error.retry_after_s = kind, None
    return error


class Runs(unittest.TestCase):
    def run_with(self, *ends):
        client, stop = tributary.Client.__new__(tributary.Client), threading.Event()
        client._session, client._reports_text, client._watcher = Sessions(*ends), False, _Watcher()
        outcomes = []

        def on_outcome(outcome):
            outcomes.append(outcome.kind)
            if not client._session.ends:
                stop.set()

        with mock.patch("tributary.client.PAUSE_S", 0.0):
            client.run(Calls(nothing), stop=stop, on_outcome=on_outcome)
        return outcomes

    def test_a_refusal_that_stays_ends_the_run_and_others_do_not(self):
        with self.assertLogs("tributary", "WARNING"):
            with self.assertRaises(tributary.Refused):
                self.run_with(refused("too-many-requests"), refused("client-revoked"))

    def test_a_run_says_what_it_waits_for_once(self):
        def waits(available, ends_in_ms):
            told = {"kind": "clients", "available": available, "needed": 3, "ends_in_ms": ends_in_ms}
            return ("nothing_to_do", None, 0.0, json.dumps(told))

        with self.assertLogs("tributary", "INFO") as logged:
            self.run_with(waits(1, 9), waits(1, 5), waits(2, 4), ("contributed", 1, 0.0, None))
        self.assertEqual(len(logged.output), 3)
        self.assertIn('"available": 1', logged.output[0])
        self.assertIn("contributed: round 1", logged.output[2])

    def test_sigterm_ends_a_run_as_ctrl_c_does(self):
        class Killed(Sessions):
            def run_once(self, *_):
                os.kill(os.getpid(), signal.SIGTERM)
                return super().run_once()

        client = tributary.Client.__new__(tributary.Client)
        client._session = Killed(("nothing_to_do", None, 0.0, None))
        client._reports_text, client._watcher = False, _Watcher()
        with self.assertRaises(SystemExit) as raised:
            client.run(Calls(nothing))
        self.assertEqual(raised.exception.code, 143)
        self.assertIs(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)


class Watching(unittest.TestCase):
    def test_what_a_session_does_is_logged_and_told_and_steps_are_rare(self):
        watcher, told = _Watcher(), []
        watcher.on_progress = told.append
        with mock.patch("tributary.client.time.monotonic", side_effect=[100.0, 101.0, 110.0, 110.0, 111.0]):
            with self.assertLogs("tributary", "INFO") as logged:
                watcher.hear("downloading", 400e6)
                watcher.hear("downloading", None)
                watcher.hear("training", 3.0)
                watcher.steps(7, 500)
                watcher.steps(120, 500)
                watcher.steps(121, 500)
                watcher.hear("retrying", 0.25, "it is away")
        texts = [
            "downloading 400 MB",
            "downloading",
            "training for round 3",
            "step 120 of 500",
            "a request is repeated in 0.2 s: it is away",
        ]
        self.assertEqual([line.split(":", 2)[2] for line in logged.output], texts)
        self.assertEqual([progress.kind for progress in told][2:4], ["training", "step"])

    def test_one_who_watches_and_fails_does_not_end_a_training(self):
        watcher = _Watcher()
        watcher.on_progress = lambda progress: 1 / 0
        with self.assertLogs("tributary", "ERROR") as logged:
            watcher.steps(7, None)
        self.assertIn("ZeroDivisionError", logged.output[0])

    def test_a_request_that_is_repeated_is_told_by_the_native_part(self):
        def heard(progress):
            if progress.kind == "retrying":
                kinds.append(progress)

        kinds = []
        client = tributary.Client("http://127.0.0.1:1", "tributary_enrolment_" + "0" * 64)
        client._watcher.on_progress = heard
        with self.assertLogs("tributary", "INFO"), self.assertRaises(tributary.Unreachable):
            client.open_jobs()
        self.assertEqual(len(kinds), 5)
        self.assertTrue(kinds[0].reason and kinds[0].number > 0)


class Attesters(unittest.TestCase):
    def test_an_attester_that_fails_says_so_and_no_client_enrols(self):
        def fail(key):
            asked.append(key)
            raise OSError("no TPM here")

        asked = []
        client = tributary.Client("http://127.0.0.1:1", "tributary_enrolment_" + "0" * 64, attest=fail)
        with self.assertRaisesRegex(tributary.TributaryError, "no TPM here"):
            client.enrol()
        self.assertEqual(asked, [None])


class Coordinator(http.server.BaseHTTPRequestHandler):
    """Answers a path with what `answers` has for it, one after the other; `None` closes the connection."""

    answers = {}
    asked = []

    def do_GET(self):
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append((self.command, self.path.removeprefix("/operator/v1"), sent))
        answer = self.answers[self.path.split("?")[0].removeprefix("/operator/v1")].pop(0)
        if answer is None:
            return
        status, body = (200, answer) if not isinstance(answer, tuple) else answer
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, *_):
        pass


class Operators(unittest.TestCase):
    def setUp(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Coordinator)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.operator = tributary.Operator(f"http://127.0.0.1:{server.server_port}", "token")

    def test_a_closed_connection_is_a_coordinator_that_does_not_answer(self):
        Coordinator.answers = {"/jobs/job_1": [None]}
        with self.assertRaises(tributary.Unreachable):
            self.operator.job("job_1")

    def test_a_certificate_that_is_not_trusted_is_an_error_of_its_own(self):
        untrusted = ssl.SSLCertVerificationError(1, "unable to get local issuer certificate")
        untrusted.verify_message = "unable to get local issuer certificate"
        with mock.patch.object(self.operator, "_open", side_effect=urllib.error.URLError(untrusted)):
            with self.assertRaisesRegex(tributary.Untrusted, "unable to get local issuer"):
                self.operator.job("job_1")

    def test_a_watch_outlives_a_restart_and_misses_no_round(self):
        ended = {"sequence": 7, "became": "committed", "task": "train", "round": 1}
        problem = {"title": "a", "detail": "b", "type": "urn:tributary:problem:busy"}
        Coordinator.answers = {
            "/jobs/job_1": [{"state": "running"}, None, {"state": "completed"}],
            "/events": [(503, problem), {"items": [ended]}, {"items": []}],
            "/jobs/job_1/rounds/1": [None, {"round": {"number": 1}, "explanation": "all is well"}],
        }
        with mock.patch("tributary.operator.PAUSE_S", 0.0), self.assertLogs("tributary", "WARNING"):
            rounds = list(self.operator.watch("job_1"))
        self.assertEqual(rounds, [{"number": 1, "explanation": "all is well"}])

    def test_an_upload_has_time_by_its_length(self):
        job = tributary.Job({"name": "a", "initial_model": "upload"}, b"0" * (64 << 20))
        answers = [{"id": "job_1"}, None, {"id": "job_1"}]
        bodies = [io.BytesIO(b"" if one is None else json.dumps(one).encode()) for one in answers]
        with mock.patch.object(self.operator, "_open", side_effect=bodies) as opened:
            self.assertEqual(self.operator.create(job), {"id": "job_1"})
        times = [call.kwargs["timeout"] for call in opened.call_args_list]
        self.assertEqual([int(time) for time in times], [60, 60 + 1024, 60])

    def test_an_exported_file_says_what_it_is_and_is_whole_or_not_there(self):
        plain = to_safetensors({"layers.0.weight": np.array([[1.0, 2.0], [3.0, -1.0]])})
        network = {"input": [2], "layers": [{"kind": "linear", "out_features": 2, "bias": False}]}
        job = {
            "id": "job_1",
            "plan_hash": "0" * 64,
            "file": {"name": "points", "training": {"loss": "mse"}, "model": network},
        }
        versions = [{"version": one, "sha256": hashlib.sha256(plain).hexdigest()} for one in (2, 3)]
        versions.append({"version": 4, "deleted_at_ms": 1})
        of = "/jobs/job_1"
        half = b"half"
        sent = {of: job, f"{of}/models": {"items": versions}, f"{of}/models/3": plain, f"{of}/models/2": plain[:-1] + b"!"}
        sent[f"{of}/models/2?form=f16"] = half

        def answered(method, path, *rest):
            answer = sent[path]
            return answer if isinstance(answer, bytes) else json.dumps(answer).encode()

        with tempfile.TemporaryDirectory() as folder, mock.patch.object(self.operator, "_call", side_effect=answered):
            path = os.path.join(folder, "points.safetensors")
            self.operator.export("job_1", None, path)
            model = tributary.load(path)
            self.assertEqual((model.card["version"], model.card["job"]), (3, "points"))
            self.assertEqual(model.predict([[1.0, 1.0]])[0].outputs, [3.0, 2.0])
            with self.assertRaisesRegex(tributary.Unreachable, "its SHA-256 is another"):
                self.operator.export("job_1", 2, path)
            self.assertEqual(tributary.load(path).card["version"], 3, "a wrong file replaced nothing")
            self.operator.export("job_1", 2, path, form="f16")
            with open(path, "rb") as file:
                self.assertEqual(file.read(), half)
            for version, form, said in ((4, "f32", "no version 4"), (3, "onnx", "job export --form onnx")):
                with self.assertRaisesRegex(ValueError, said):
                    self.operator.export("job_1", version, path, form=form)
            self.assertEqual(os.listdir(folder), ["points.safetensors"])

    def test_calls_are_those_of_the_operator_api(self):
        Coordinator.asked.clear()
        Coordinator.answers = {
            "/jobs/job_1/round-policy": [{}],
            "/jobs/job_1/models/3/pin": [{}, {}],
            "/tokens": [{"token": {}, "secret": "tributary_enrolment_x"}],
            "/clients": [{"items": [{"id": 1}], "next": "a b"}, {"items": [{"id": 2}]}],
            "/clients/client_1/standing": [{}],
        }
        self.operator.policy("job_1", deadline_ms=5)
        self.operator.pin("job_1", 3)
        self.operator.pin("job_1", 3, pinned=False)
        self.assertEqual(self.operator.enrolment_token("shop", uses_max=2), "tributary_enrolment_x")
        self.assertEqual(self.operator.clients("shop"), [{"id": 1}, {"id": 2}])
        self.operator.set_standing("client_1", "revoked", "lost")
        token = b'{"kind": "enrolment", "population": "shop", "uses_max": 2}'
        expected = [
            ("PATCH", "/jobs/job_1/round-policy", b'{"deadline_ms": 5}'),
            ("PUT", "/jobs/job_1/models/3/pin", b""),
            ("DELETE", "/jobs/job_1/models/3/pin", b""),
            ("POST", "/tokens", token),
            ("GET", "/clients?population=shop", b""),
            ("GET", "/clients?population=shop&after=a+b", b""),
            ("PUT", "/clients/client_1/standing", b'{"standing": "revoked", "reason": "lost"}'),
        ]
        self.assertEqual(Coordinator.asked, expected)

    def test_a_watch_ends_with_a_refusal(self):
        problem = {"title": "a", "detail": "b", "type": "urn:tributary:problem:unauthorized"}
        Coordinator.answers = {"/jobs/job_1": [(401, problem)]}
        with self.assertRaises(tributary.Refused):
            list(self.operator.watch("job_1"))


class Preparing(unittest.TestCase):
    """Goal: a trainer of an app trains on what the others train on. Method: rows by the inputs of a job's file."""

    def task(self, inputs):
        model = {"parameters": PARAMETERS, **inputs}
        return tributary.EvaluateTask(parameters={}, model=model, loss="mse", stop=Never())

    def test_rows_become_inputs(self):
        columns = [
            {"name": "age", "mean": 40.0, "deviation": 10.0, "missing": "replace"},
            {"name": "ward", "kind": "category", "categories": ["east", "west"]},
        ]
        task = self.task({"inputs": {"columns": columns}})
        prepared = task.prepare([[60.0, 1.0], [float("nan"), 0.0]])
        self.assertEqual(prepared.tolist(), [[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
        self.assertEqual(prepared.dtype, np.float32)
        with self.assertRaisesRegex(ValueError, "ward is 5"):
            task.prepare([[60.0, 5.0]])
        with self.assertRaisesRegex(ValueError, "rows are an array"):
            task.prepare([60.0, 1.0])
        self.assertEqual(self.task({}).prepare([[1.5, 2.0]]).tolist(), [[1.5, 2.0]])


if __name__ == "__main__":
    unittest.main()
