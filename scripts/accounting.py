"""Compares both accountants of the engine with dp-accounting. See scripts/accountants.

Standard output has a table in Markdown, in which a ratio is ours over theirs.
"""

import argparse
import json
import math
import random
import subprocess
import sys

import dp_accounting
from dp_accounting import pld, rdp

# Ours may be below theirs by what both round up, and above by what the grid of losses costs.
BELOW, ABOVE = 2e-3, 2e-2
# Epsilons are compared as if they were at least this.
SMALL = 0.05
# Beyond this the engine prints what the other accountant finds.
TIGHT_MAX = 150

# Noise multiplier, rate (1: no sampling), times, delta.
TABLE = [
    (1.5, 0.04, 2250, 1e-5), (1.3, 0.0025, 6000, 1e-5), (1.0, 0.001, 30_000, 1e-7), (4.0, 0.01, 10_000, 1e-5),
    (1.0, 0.1, 100, 1e-5), (1.1, 0.1, 50, 1e-3), (1.0, 0.001, 1000, 1e-6), (0.8, 0.001, 2000, 1e-9),
    (0.5, 0.01, 100, 1e-5), (2.0, 0.5, 20, 1e-5), (1.0, 1.0, 1, 1e-5), (5.0, 1.0, 10, 1e-5),
    (1.0, 0.001, 2000, 1e-8), (1.0, 0.001, 2000, 1e-6), (0.6, 0.001, 2000, 1e-8),
    (1.0, 6500 / 3e6, 2000, 1e-10), (1.0, 0.005, 1000, 1e-7), (1.0, 0.02, 500, 1e-6), (1.0, 0.1, 200, 1e-5),
    (2.0, 0.1, 200, 1e-5), (4.0, 0.2, 100, 1e-4), (10.0, 1.0, 50, 1e-3), (7.0, 1.0, 6, 1e-10), (20.0, 1.0, 100, 1e-6),
]  # fmt: skip
MIXED = [
    {"kind": "sampled", "noise_multiplier": 1.0, "rate": 0.01, "times": 500},
    {"kind": "sampled", "noise_multiplier": 1.2, "rate": 0.02, "times": 300},
    {"kind": "gaussian", "noise_multiplier": 10.0, "times": 1},
    {"kind": "laplace", "scale": 20.0, "times": 1},
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the release build of the engine's example `accountants`")
    parser.add_argument("random", type=int, help="number of random ledgers")
    parser.add_argument("seed", type=int, help="their seed")
    options = parser.parse_args()
    ledgers = [{"delta": delta, "charges": [charge(*what)]} for *what, delta in TABLE]
    ledgers.append({"delta": 1e-6, "charges": MIXED})
    drawn = random.Random(options.seed)
    ledgers.extend(any_ledger(drawn) for _ in range(options.random))
    lines = "".join(json.dumps(ledger) + "\n" for ledger in ledgers)
    ours = subprocess.run([options.program], input=lines, capture_output=True, text=True, check=True).stdout
    print("| ledger | delta | PLD | dp-accounting | ratio | RDP | dp-accounting | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    differ = [row for row in map(compared, ledgers, map(json.loads, ours.splitlines())) if row]
    if differ:
        sys.exit("error: these differ\n" + "\n".join(differ))


def charge(noise_multiplier: float, rate: float, times: int) -> dict:
    if rate == 1:
        return {"kind": "gaussian", "noise_multiplier": noise_multiplier, "times": times}
    return {"kind": "sampled", "noise_multiplier": noise_multiplier, "rate": rate, "times": times}


def any_ledger(drawn: random.Random) -> dict:
    """Noise, rates and numbers over the orders of magnitude that jobs have."""

    def between(low: float, high: float) -> float:
        return math.exp(drawn.uniform(math.log(low), math.log(high)))

    def any_charge() -> dict:
        kind = drawn.choice(["sampled", "sampled", "gaussian", "laplace"])
        if kind == "gaussian":
            return charge(between(2, 100), 1, round(between(1, 50)))
        if kind == "laplace":
            return {"kind": "laplace", "scale": between(5, 200), "times": round(between(1, 20))}
        return charge(between(0.5, 10), between(1e-5, 0.5), round(between(1, 10_000)))

    return {"delta": between(1e-10, 1e-4), "charges": [any_charge() for _ in range(drawn.choice([1, 1, 2, 3]))]}


def event(of: dict) -> dp_accounting.DpEvent:
    match of["kind"]:
        case "gaussian":
            one = dp_accounting.GaussianDpEvent(of["noise_multiplier"])
        case "laplace":
            one = dp_accounting.LaplaceDpEvent(of["scale"])
        case _:
            one = dp_accounting.PoissonSampledDpEvent(
                of["rate"], dp_accounting.GaussianDpEvent(of["noise_multiplier"])
            )
    return dp_accounting.SelfComposedDpEvent(one, of["times"])


def compared(ledger: dict, ours: dict) -> str | None:
    """Prints a row. Returns it if the epsilons differ by more than they may."""
    delta, charges = ledger["delta"], ledger["charges"]
    both = dp_accounting.ComposedDpEvent([event(charge) for charge in charges])
    tight = pld.PLDAccountant().compose(both).get_epsilon(delta)
    renyi = rdp.RdpAccountant().compose(both).get_epsilon(delta)
    text = "; ".join(
        f"{charge['kind']} {charge.get('noise_multiplier', charge.get('scale')):.4g}"
        + (f" q {charge['rate']:.4g}" if "rate" in charge else "")
        + f" x {charge['times']}"
        for charge in charges
    )
    ratios = [max(one, SMALL) / max(other, SMALL) for one, other in [(ours["epsilon"], tight), (ours["renyi"], renyi)]]
    row = (
        f"| {text} | {delta:.3g} | {ours['epsilon']:.6f} | {tight:.6f} | {ratios[0]:.5f} "
        f"| {ours['renyi']:.6f} | {renyi:.6f} | {ratios[1]:.5f} |"
    )
    print(row, flush=True)
    if tight > TIGHT_MAX:
        return None
    # dp-accounting leaves out orders whose series converges slowly, so ours may be a little smaller there.
    fits = 1 - BELOW <= ratios[0] <= 1 + ABOVE and 1 - ABOVE <= ratios[1] <= 1 + ABOVE
    return None if fits else row


if __name__ == "__main__":
    main()
