"""Measures Tributary beside other programs on this machine. See scripts/compare.

Progress goes to standard error. Standard output has tables in Markdown, and on its last line the rows as JSON.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator

import processes
import rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["rounds", "training", "predictions", "privacy", "masking", "rings", "all"])
    parser.add_argument("program", help="the release build of tributary")
    parser.add_argument("cycles", type=int, help="how often each figure is measured")
    parser.add_argument("folder", help="the folder of MNIST's four IDX files")
    parser.add_argument("only", nargs="?", default="", help="trains the cells whose name contains this, such as 'CNN'")
    measured: list[rows.Row] = []
    try:
        measured.extend(measure(parser.parse_args()))
    except processes.Failed as error:
        sys.exit(f"error: {error}")
    finally:
        # Rows that were measured before a failure count, too.
        print(rows.table(measured))
        print(json.dumps([dataclasses.asdict(row) for row in measured]), flush=True)


def measure(options: argparse.Namespace) -> Iterator[rows.Row]:
    # A part is imported when it is wanted, because it imports what is installed for it.
    if options.part in ("rounds", "all"):
        import rounds

        yield from rounds.measure(options.program, options.cycles)
    if options.part in ("training", "all"):
        import training

        yield from training.measure(options.program, options.folder, options.cycles, options.only)
    if options.part in ("predictions", "all"):
        import predictions

        yield from predictions.measure(options.program, options.cycles)
    if options.part in ("privacy", "all"):
        import privacy

        yield from privacy.measure(options.program, options.folder, options.cycles)
    if options.part in ("masking", "all"):
        import masking

        yield from masking.measure(options.program, options.cycles)
    if options.part in ("rings", "all"):
        import rings

        yield from rings.measure(options.program, options.cycles)


if __name__ == "__main__":
    main()
