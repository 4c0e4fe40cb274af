"""Prints the licence texts of everything in the binary: Rust crates, those of its SDK for browsers too, and the packages
of the dashboard.

Usage: licences.py TARGET NODE_MODULES
"""

import json
import pathlib
import subprocess
import sys

NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


def lines(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def crates(target):
    """Name, version, licence and folder of each crate in the binary, except our own."""
    # `cargo metadata` alone also lists what optional features would add.
    linked = set()
    for package, target in (("tributary", target), ("tributary-browser", "wasm32-unknown-unknown")):
        of = (f"--package={package}", f"--target={target}", "--edges=normal,no-proc-macro")
        tree = lines("cargo", "tree", "--locked", *of, "--prefix=none")
        linked |= {tuple(line.split()[:2]) for line in tree}
    metadata = json.loads("".join(lines("cargo", "metadata", "--locked", "--format-version=1")))
    packages = sorted(metadata["packages"], key=lambda package: (package["name"], package["version"]))
    for package in packages:
        if (package["name"], f"v{package['version']}") in linked and package["source"] is not None:
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
        files = [file for file in sorted(folder.iterdir()) if file.is_file() and file.name.upper().startswith(NAMES)]
        for file in files:
            print(f"--- {file.name}\n{file.read_text(errors='replace').strip()}\n")
        if not files:
            print("The package has no licence file.\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
