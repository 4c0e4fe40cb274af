"""Turns the figures of soaks into the table of docs/soak.md and into curves in docs/images.

Usage: python3 scripts/soak.py [--write] JSON.. (outputs of `tributary-bench soak --json`). Without --write it prints the
table alone. scripts/soak calls it.
"""

import json
import sys
from pathlib import Path
from statistics import median

BEGIN, END = "<!-- figures of scripts/soak -->", "<!-- end of the figures -->"
ROOT = Path(__file__).resolve().parent.parent
WIDTH, PANEL, LEFT, TOP, GAP = 860, 96, 64, 30, 44
COLOURS = ("#1f6feb", "#d9480f", "#2b8a3e")


def name(run):
    how_many = {1: "one coordinator", 2: "two coordinators"}.get(run["coordinators"], f"{run['coordinators']} coordinators")
    return f"{how_many} on {'SQLite' if run['engine'] == 'sqlite' else 'PostgreSQL'}"


def number(value, digits=0):
    return "-" if value is None else f"{value:,.{digits}f}"


def growth(figure):
    if figure is None:
        return "-"
    return f"{number(figure['start'])}, {number(figure['middle'])}, {number(figure['end'])} MB; {figure['per_day']:+.1f} MB a day"


def outages(run, kind):
    own = [one for one in run["disturbances"] if one["kind"] == kind]
    silences = sorted(one["silence_s"] for one in own if one["silence_s"] is not None)
    if not silences:
        return str(len(own))
    return f"{len(own)}; {median(silences):.1f} s; {silences[-1]:.1f} s"


def survived(run):
    own = [one for one in run["disturbances"] if one["kind"] == "failover" and one["round"] is not None]
    return f"{sum(one['round_became'] == 'committed' for one in own)} of {len(own)}"


def share(run, outcome):
    ledger = run["ledger"]
    return f"{number(ledger[outcome])} ({100 * ledger[outcome] / max(ledger['assigned'], 1):.1f} %)"


def rows(run):
    ledger, seen = run["ledger"], run["seen"]
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(ledger["reasons"].items()))
    yield "devices; simulated days, each of", f"{number(run['devices'])}; {run['days']:g}, {run['day_s']} s"
    yield "rounds committed; abandoned", f"{number(ledger['committed'])}; {ledger['abandoned']}{f' ({reasons})' if reasons else ''}"
    yield "updates acknowledged", number(ledger["acknowledged"])
    yield "of them counted once in a committed round; in an abandoned round", f"{number(ledger['counted'])}; {ledger['in_abandoned']}"
    yield "updates stored whose device had no answer", number(ledger["stored_unanswered"])
    yield "assignments", number(ledger["assigned"])
    yield "not needed (`spare`)", share(run, "spare")
    yield "lost", share(run, "lost")
    yield "of these two, finished late", share(run, "late")
    yield "given up by the device (`failed`); `rejected`", f"{share(run, 'failed')}; {ledger['rejected']}"
    yield "connections cut; stalled by the proxy", f"{number(seen['cut'])}; {number(seen['stalled'])}"
    yield "calls that broke off; without an answer in time", f"{number(seen['broken'])}; {number(seen['timed_out'])}"
    yield "answers 429 or 503; answers that no device expects", f"{number(seen['refused'])}; {seen['unexpected']}"
    yield "failovers: number; median silence; longest", outages(run, "failover")
    yield "upgrades: number; median silence; longest", outages(run, "upgrade")
    yield "rounds that trained at a failover and were committed", survived(run)
    yield "p99 of a check-in, ms: median of the samples; largest", f"{number(run['checkin_ms_p99_median'], 1)}; {number(run['checkin_ms_p99_max'])}"
    yield "p99 of an update through the network, ms: median; largest", f"{number(run['update_ms_p99_median'])}; {number(run['update_ms_p99_max'])}"
    for place, figure in enumerate(run["memory_mb"], 1):
        of = "" if len(run["memory_mb"]) == 1 else f" of coordinator {place}"
        yield f"memory{of}: start, middle, end; growth", growth(figure)
    yield "database: start, middle, end; growth", growth(run["database_mb"])
    yield "database: growth for each assignment", f"{number(run['kb_per_assignment'], 2)} kB"
    yield "broken promises", number(len(ledger["broken"]))


def table(runs):
    """One row for each figure, in the order in which they first come up."""
    columns = [dict(rows(run)) for run in runs]
    names = list(dict.fromkeys(figure for column in columns for figure in column))
    lines = ["| | " + " | ".join(name(run) for run in runs) + " |", "|---|" + "---|" * len(runs)]
    lines += [f"| {figure} | " + " | ".join(column.get(figure, "-") for column in columns) + " |" for figure in names]
    return "\n".join(lines)


def rate(samples, of):
    """Per minute of real time, since the sample before."""
    pairs = zip(samples, samples[1:])
    return [None] + [60 * (of(b) - of(a)) / max(b["at_s"] - a["at_s"], 1e-9) for a, b in pairs]


def smooth(values, width=5):
    """The median of the values around each one: a single slow sample is no curve."""
    around = ([v for v in values[max(0, i - width // 2):i + width // 2 + 1] if v is not None] for i in range(len(values)))
    return [median(own) if own else None for own in around]


def panels(run):
    samples = run["samples"]
    coordinators = range(run["coordinators"])
    memory = [(f"coordinator {i + 1}" if len(coordinators) > 1 else "", [s["resident_mb"][i] for s in samples]) for i in coordinators]
    return [
        ("devices", [("awake", [s["devices"]["awake"] for s in samples]), ("connected", [s["devices"]["open"] for s in samples])]),
        ("updates a minute", [("", smooth(rate(samples, lambda s: s["devices"]["acknowledged"])))]),
        ("assignments lost a minute", [("", smooth(rate(samples, lambda s: s["lost_total"])))]),
        ("check-in, ms", [("p50", [s["checkin_ms_p50"] for s in samples]), ("p99", [s["checkin_ms_p99"] for s in samples])]),
        ("update, ms", [("p50", smooth([s["update_ms_p50"] for s in samples])), ("p99", smooth([s["update_ms_p99"] for s in samples]))]),
        ("memory, MB", memory),
        ("database, MB", [("", [s["database_mb"] for s in samples])]),
    ]


def rounded(top):
    """The least of 1, 2, 5, 10, .. that is not below the largest value."""
    step = 1.0
    while step < top:
        step = step * 2.5 if str(step)[0] == "2" else step * 2
    return step


def line(days, values, x, y, colour):
    """A polyline for each stretch without a gap."""
    parts, part = [], []
    for day, value in zip(days, values):
        if value is None:
            parts, part = parts + [part], []
        else:
            part.append(f"{x(day):.1f},{y(value):.1f}")
    drawn = [" ".join(part) for part in parts + [part] if len(part) > 1]
    return [f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.2"/>' for points in drawn]


def curves(run):
    """An SVG with a panel for each figure over the simulated days; lines mark failovers and upgrades."""
    days, drawn = [sample["day"] for sample in run["samples"]], panels(run)
    last = max(days + [run["days"]])
    height = TOP + len(drawn) * (PANEL + GAP)
    x = lambda day: LEFT + (WIDTH - LEFT - 20) * day / last
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="16" font-size="13">{name(run)}: simulated days; solid lines: failovers, dashed: upgrades</text>',
    ]
    for place, (title, series) in enumerate(drawn):
        top = TOP + place * (PANEL + GAP) + 16
        most = rounded(max([v for _, values in series for v in values if v is not None], default=1))
        y = lambda value: top + PANEL * (1 - value / most)
        svg.append(f'<text x="{LEFT}" y="{top - 5}" font-weight="bold">{title}</text>')
        for one in run["disturbances"]:
            dash = "" if one["kind"] == "failover" else ' stroke-dasharray="3 3"'
            at = x(one["day"])
            svg.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{top + PANEL}" stroke="#c0c0c0"{dash}/>')
        for value in (0, most / 2, most):
            svg.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#e4e4e4"/>')
            svg.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
        for day in range(int(last) + 1):
            svg.append(f'<text x="{x(day):.1f}" y="{top + PANEL + 13}" text-anchor="middle">{day}</text>')
        for order, (label, values) in enumerate(series):
            colour = COLOURS[order % len(COLOURS)]
            svg += line(days, values, x, y, colour)
            if label:
                svg.append(f'<text x="{LEFT + 170 + 100 * order}" y="{top - 5}" fill="{colour}">{label}</text>')
    return "\n".join(svg + ["</svg>"]) + "\n"


def write(runs):
    (ROOT / "docs/images").mkdir(exist_ok=True)
    page = ROOT / "docs/soak.md"
    text = page.read_text()
    pictures = [(f"soak-{run['engine']}.svg", run) for run in runs]
    for file, run in pictures:
        (ROOT / "docs/images" / file).write_text(curves(run))
    shown = "\n\n".join(f"![{name(run)}](images/{file})" for file, run in pictures)
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n\n{table(runs)}\n\n{shown}\n\n{END}{after}")


def main(arguments):
    files = [argument for argument in arguments if argument != "--write"]
    if not files:
        sys.exit(__doc__)
    runs = [json.loads(text) for text in (Path(file).read_text() for file in files) if text.strip()]
    if len(runs) < len(files):
        sys.exit("a soak printed nothing: its message is above")
    print(table(runs))
    for run in runs:
        for broken in run["ledger"]["broken"]:
            print(f"broken, {name(run)}: {broken}")
        for answer in run["unexpected_answers"]:
            print(f"unexpected, {name(run)}: {answer}")
    if "--write" in arguments:
        write(runs)


if __name__ == "__main__":
    main(sys.argv[1:])
