"""A client of Tributary in Python, written from docs/protocol.md: no SDK, only requests, numpy and cryptography.

Usage: client.py --server URL --token TOKEN --examples FILE.csv [--chunk-bytes N]

It enrols, does the work of one training round, prints a JSON object about it, and exits. The table has a line of names,
then one example a line; the last column is its class. Networks of linear and relu layers are trained with full batches
by plain SGD on cross-entropy. Any other plan is given back as `does_not_fit`.
"""

import argparse, base64, hashlib, json, socket, ssl, struct, tempfile, time, urllib.parse

import numpy as np
import requests

from secure.demands import Unsafe
from secure.exchange import exchange


class Refused(Exception):
    """A problem document."""

    def __init__(self, answer):
        problem = answer.json()
        super().__init__(f"{problem['title']}: {problem['detail']}")
        self.kind, self.retry_after_ms = problem["type"].rsplit(":", 1)[1], problem.get("retry_after_ms", 1000)
        self.is_temporary = answer.status_code >= 500 or answer.status_code == 429
        self.offset = int(answer.headers.get("Upload-Offset", 0))


def pinned_ca(server, fingerprint):
    """A file with the CA of this fingerprint, from the chain that the server sends. Nothing secret is sent yet."""
    url, unverified = urllib.parse.urlsplit(server), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    tcp = socket.create_connection((url.hostname, url.port or 443), timeout=10)
    with unverified.wrap_socket(tcp, server_hostname=url.hostname) as tls:
        if hasattr(tls, "get_unverified_chain"):
            chain = tls.get_unverified_chain()
        else:  # before Python 3.13
            chain = [ssl.PEM_cert_to_DER_cert(one.public_bytes()) for one in tls._sslobj.get_unverified_chain()]
    for der in chain:
        if hashlib.sha256(der).hexdigest() == fingerprint:
            with tempfile.NamedTemporaryFile("w", suffix=".pem", delete=False) as file:
                file.write(ssl.DER_cert_to_PEM_cert(der))
            return file.name
    raise SystemExit("no certificate of this server has the fingerprint of the token")


class Coordinator:
    def __init__(self, server, token):
        self.base, self.http = server.rstrip("/") + "/device/v1", requests.Session()
        self.bearer, _, fingerprint = token.partition("_ca_")
        self.http.trust_env = False  # no proxy, CA or password of the environment
        if fingerprint:
            self.http.verify = pinned_ca(server, fingerprint)
        self.bearer = self.call("POST", "/clients", json={}).json()["secret"]

    def call(self, method, path, headers=None, held_s=0, **options):
        """One request, repeated while it may succeed later."""
        options |= {"timeout": 60 + held_s, "allow_redirects": False}
        headers = {"Authorization": f"Bearer {self.bearer}", **(headers or {})}
        for attempts_left in range(5, -1, -1):
            try:
                answer = self.http.request(method, self.base + path, headers=headers, **options)
                if answer.headers.get("Content-Type") == "application/problem+json" and answer.content:
                    raise Refused(answer)
                answer.raise_for_status()
                return answer
            except (requests.RequestException, Refused) as error:
                if not attempts_left or not getattr(error, "is_temporary", True):
                    raise
                time.sleep(getattr(error, "retry_after_ms", 6400 >> attempts_left) / 1000)

    def check_in(self, examples):
        """Waits for an assignment."""
        request = {"attributes": {"platform": "python"}, "state": {"examples": examples}, "codecs": ["f32"]}
        request |= {"sdk_version": "python 1", "masks": True, "wait_ms": 30_000}
        while True:
            text = self.call("POST", "/checkins", held_s=30, json=request).text
            answer = json.loads(text)
            if answer["answer"] == "assigned":
                begin = text.index('"plan":') + len('"plan":')
                end = json.JSONDecoder().raw_decode(text, begin)[1]
                return answer | {"plan_sha256": hashlib.sha256(text[begin:end].encode()).digest()}
            time.sleep(answer["retry_after_ms"] / 1000)

    def model(self, work):
        """The tensors of the assignment's model by name, in their order."""
        if work.get("form") or work["task"] != "train":
            raise ValueError("this client reads models in f32 and trains them")
        file = self.call("GET", f"/jobs/{work['job']}/models/{work['model_version']}").content
        if hashlib.sha256(file).hexdigest() != work["model_sha256"]:
            raise ValueError("the model does not have its hash")
        return read_safetensors(file)

    def upload(self, path, figures, file, chunk_bytes):
        """Sends an update chunk by chunk, each from where the coordinator's bytes end."""
        offset = 0
        digest = f"sha-256=:{base64.b64encode(hashlib.sha256(file).digest()).decode()}:"
        while True:
            chunk, method, headers = file[offset : offset + chunk_bytes], "PUT", {}
            if offset:
                method = "PATCH"
                headers = {"Content-Type": "application/partial-upload", "Upload-Offset": str(offset)}
            headers["Upload-Complete"] = "?1" if offset + len(chunk) == len(file) else "?0"
            try:
                answer = self.call(method, path, {"Repr-Digest": digest, **headers}, params=figures, data=chunk)
                if answer.status_code == 200:
                    return
                offset = int(answer.headers["Upload-Offset"])
            except Refused as refused:
                if refused.kind != "upload-offset":
                    raise
                offset = refused.offset


def read_safetensors(file):
    length = 8 + struct.unpack_from("<Q", file)[0]
    header, data = json.loads(file[8:length]), file[length:]
    header.pop("__metadata__", None)
    values = lambda info: np.frombuffer(data[slice(*info["data_offsets"])], "<f4").reshape(info["shape"])
    return {name: values(info) for name, info in sorted(header.items(), key=lambda item: item[1]["data_offsets"])}


def write_safetensors(tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        values = tensor.astype("<f4").tobytes()
        offsets = [len(data), len(data) + len(values)]
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": offsets}
        data += values
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def train(plan, model, x, classes):
    """Follows the plan. Answers the local model, the mean loss and the number of steps."""
    layers, training, optimizer = plan["model"].get("layers"), plan["training"], plan["training"]["optimizer"]
    is_plain = optimizer["kind"] == "sgd" and not optimizer["momentum"] and not optimizer["weight_decay"]
    is_full_batch = training.get("batch_size", len(x)) >= len(x) and training["loss"] == "cross_entropy"
    if layers is None or not is_plain or not is_full_batch:
        raise ValueError("this client trains layers in full batches by plain SGD on cross-entropy")
    weights, losses = {name: tensor.astype(np.float64) for name, tensor in model.items()}, []
    for _ in range(training.get("steps") or training["epochs"]):
        loss, gradients = backward(layers, weights, x, classes)
        losses.append(loss)
        weights = {name: weights[name] - optimizer["learning_rate"] * gradients[name] for name in model}
    return {name: weights[name].astype(np.float32) for name in model}, float(np.mean(losses)), len(losses)


def backward(layers, weights, x, classes):
    """The mean cross-entropy and its gradients by name."""
    inputs, gradients = [x], {}
    for index, layer in enumerate(layers):
        if layer["kind"] == "linear":
            inputs.append(inputs[-1] @ weights[f"layers.{index}.weight"].T + weights.get(f"layers.{index}.bias", 0))
        elif layer["kind"] == "relu":
            inputs.append(np.maximum(inputs[-1], 0))
        else:
            raise ValueError(f"this client has no layer {layer['kind']}")
    scores, rows = inputs.pop(), np.arange(len(x))
    logs = scores - scores.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    back = np.exp(logs)
    back[rows, classes] -= 1
    back /= len(x)
    for index in reversed(range(len(layers))):
        if layers[index]["kind"] == "linear":
            weight = f"layers.{index}.weight"
            gradients |= {weight: back.T @ inputs[index], f"layers.{index}.bias": back.sum(axis=0)}
            back = back @ weights[weight]
        else:
            back = back * (inputs[index] > 0)
    return -logs[rows, classes].mean(), gradients


def work_on(coordinator, work, x, classes, chunk_bytes):
    """Does the work of an assignment. Answers the figures that it sent. A ValueError says what it cannot do."""
    started = time.monotonic()
    model = coordinator.model(work)
    local, loss, steps = train(work["plan"], model, x, classes)
    figures = {"weight": min(len(x), work["plan"]["weight_max"]), "loss": loss, "steps": steps}
    figures["train_ms"] = int((time.monotonic() - started) * 1000)
    delta, path = {name: local[name] - model[name] for name in model}, f"/assignments/{work['id']}"
    if "masking" in work["plan"]:
        exchange(coordinator, work, np.concatenate([delta[name].ravel() for name in model]), figures, chunk_bytes)
        return figures
    base, job = str(work["model_version"]), work["job"]
    metadata = {"format": "tributary-update-1", "codec": "f32", "job": job, "base_version": base}
    update = write_safetensors(delta, metadata)
    if not coordinator.call("GET", path).json()["reported"]:
        coordinator.upload(f"{path}/update", figures, update, chunk_bytes)
    return figures


parser = argparse.ArgumentParser()
for option in ("server", "token", "examples"):
    parser.add_argument(f"--{option}", required=True)
parser.add_argument("--chunk-bytes", type=int, default=1 << 20)
args = parser.parse_args()
table = np.loadtxt(args.examples, delimiter=",", skiprows=1, ndmin=2)
coordinator = Coordinator(args.server, args.token)
work = coordinator.check_in(len(table))
try:
    figures = work_on(coordinator, work, table[:, :-1], table[:, -1].astype(int), args.chunk_bytes)
except (ValueError, Unsafe) as reason:
    report = {"reason": "privacy" if isinstance(reason, Unsafe) else "does_not_fit", "detail": str(reason)}
    coordinator.call("POST", f"/assignments/{work['id']}/failure", json=report)
    raise SystemExit(reason)
print(json.dumps({"round": work["round"], **figures}))
