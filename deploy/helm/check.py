#!/usr/bin/env python3
"""Renders the chart with Helm's own engine in the ways in which it is installed, and checks what comes out.

It needs the packages helm-python-sdk and pyyaml, and no cluster. `scripts/test` runs it.
"""

from pathlib import Path

import helm_python as helm
import yaml

HERE = Path(__file__).resolve().parent


def render(**values):
    """The objects of a release, by kind and name."""
    with helm.Chart.load(str(HERE / "tributary")) as chart:
        files = chart.render(values, name="tributary", namespace="fl")
    documents = [yaml.safe_load_all(text) for path, text in files.items() if path.endswith(".yaml")]
    objects = [document for documents_of_file in documents for document in documents_of_file if document]
    found = {(thing["kind"], thing["metadata"]["name"]): thing for thing in objects}
    assert len(found) == len(objects), "two objects of a kind have one name"
    return found


def environment(objects):
    (container,) = objects["StatefulSet", "tributary"]["spec"]["template"]["spec"]["containers"]
    return container, {entry["name"]: entry.get("value") for entry in container["env"]}


def backends(ingress):
    paths = [path for rule in ingress["spec"]["rules"] for path in rule["http"]["paths"]]
    return [path["backend"]["service"] for path in paths]


def fails(because, **values):
    try:
        render(**values)
    except helm.HelmError as error:
        assert because in str(error), error
    else:
        raise AssertionError(f"{values} should be refused")


def by_default():
    objects = render()
    assert {kind for kind, _ in objects} == {"Secret", "Service", "StatefulSet"}, objects.keys()
    container, env = environment(objects)
    assert env["TRIBUTARY_LISTEN_OPERATORS"] == "0.0.0.0:7301"
    assert env["TRIBUTARY_CLIENTS_URL"] == "http://tributary.fl:80"
    assert "TRIBUTARY_BEHIND_PROXY" not in env, "nobody may write the header without a proxy"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": 7300, "operators": 7301}
    for name, target in [("tributary", "http"), ("tributary-operators", "operators")]:
        (port,) = objects["Service", name]["spec"]["ports"]
        assert port["targetPort"] == target
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"]:
        assert container[probe]["httpGet"]["port"] == "http"


def behind_an_ingress():
    ingress = {"enabled": True, "host": "fl.example.org", "tlsSecret": "tls"}
    objects = render(ingress=ingress)
    _, env = environment(objects)
    assert env["TRIBUTARY_CLIENTS_URL"] == "https://fl.example.org"
    assert env["TRIBUTARY_BEHIND_PROXY"] == "true"
    assert env["TRIBUTARY_CONNECTIONS_PER_ADDRESS"] == "100000"
    (service,) = backends(objects["Ingress", "tributary"])
    assert service == {"name": "tributary", "port": {"name": "http"}}, "the Ingress of devices leads to the device API"
    assert ("Ingress", "tributary-operators") not in objects
    operators = {"ingress": {"enabled": True, "host": "operators.example.org", "tlsSecret": "tls"}}
    (service,) = backends(render(ingress=ingress, operators=operators)["Ingress", "tributary-operators"])
    assert service == {"name": "tributary-operators", "port": {"name": "operators"}}


def with_everything():
    fails("more than one coordinator needs PostgreSQL", replicas=2)
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    objects = render(
        replicas=2,
        config={"database": "postgres://tributary@database/tributary"},
        persistence={"enabled": False},
        serviceMonitor={"enabled": True, "labels": {"release": "prometheus"}},
        networkPolicy={"enabled": True, "operatorsFrom": [monitoring]},
    )
    monitor = objects["ServiceMonitor", "tributary"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = {name: thing["metadata"]["labels"] for (kind, name), thing in objects.items() if kind == "Service"}
    selected = [name for name, labels in services.items() if wanted <= labels.items()]
    assert selected == ["tributary-operators"], selected
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"], endpoint["scheme"]) == ("operators", "/metrics", "http")
    budget = objects["PodDisruptionBudget", "tributary"]["spec"]
    pods = objects["StatefulSet", "tributary"]["spec"]["template"]["metadata"]["labels"]
    assert budget["maxUnavailable"] == 1 and budget["selector"]["matchLabels"].items() <= pods.items()
    devices, operators = objects["NetworkPolicy", "tributary"]["spec"]["ingress"]
    assert devices == {"ports": [{"port": "http"}]}
    assert operators == {"ports": [{"port": "operators"}], "from": [monitoring]}
    closed = render(networkPolicy={"enabled": True})["NetworkPolicy", "tributary"]["spec"]["ingress"]
    assert closed == [{"ports": [{"port": "http"}]}], "without a list nobody reaches the operators' port"


def the_compose_file():
    compose = yaml.safe_load((HERE.parent / "compose.yaml").read_text())
    coordinator = compose["services"]["coordinator"]
    published = [port.rsplit(":", 1) for port in coordinator["ports"]]
    assert {target for _, target in published} == {"7300", "7301"}
    assert all(host.startswith("127.0.0.1:") for host, _ in published), "other machines come through the proxy"
    env = coordinator["environment"]
    assert env["TRIBUTARY_BEHIND_PROXY"] == "true" and env["TRIBUTARY_LISTEN_OPERATORS"] == "0.0.0.0:7301"
    assert int(env["TRIBUTARY_CONNECTIONS_PER_ADDRESS"]) >= coordinator["ulimits"]["nofile"]


if __name__ == "__main__":
    for check in [by_default, behind_an_ingress, with_everything, the_compose_file]:
        check()
        print(f"{check.__name__.replace('_', ' ')}: ok")
