"""Prints the licence texts of everything that is linked into the binary: Rust crates, and the dashboard's packages.

Usage: licences.py TARGET NODE_MODULES
"""

import json
import pathlib
import subprocess
import sys

NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


def crates(target):
    """Name, version, licence and folder of each crate that the binary depends on, except build tools and our own."""
    command = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}"]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    edges = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    waiting = [package["id"] for package in packages.values() if package["name"] == "tributary"]
    reached = set(waiting)
    while waiting:
        for edge in edges[waiting.pop()]:
            is_linked = any(kind["kind"] is None for kind in edge["dep_kinds"])
            is_macro = any("proc-macro" in target["kind"] for target in packages[edge["pkg"]]["targets"])
            if is_linked and not is_macro and edge["pkg"] not in reached:
                reached.add(edge["pkg"])
                waiting.append(edge["pkg"])
    for package in sorted((packages[id] for id in reached), key=lambda package: (package["name"], package["version"])):
        if package["source"] is not None:
            folder = pathlib.Path(package["manifest_path"]).parent
            yield package["name"], package["version"], package["license"] or "see below", folder


def scripts(node_modules):
    """The packages whose code is in the dashboard's files; vite only builds them."""
    for name in ("preact", "uplot"):
        folder = pathlib.Path(node_modules) / name
        package = json.loads((folder / "package.json").read_text())
        yield name, package["version"], package["license"], folder


def main(target, node_modules):
    for name, version, licence, folder in [*crates(target), *scripts(node_modules)]:
        print(f"{'=' * 100}\n{name} {version}: {licence}\n")
        for file in sorted(folder.iterdir()):
            if file.is_file() and file.name.upper().startswith(NAMES):
                print(f"--- {file.name}\n{file.read_text(errors='replace').strip()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
