"""Chooses an example of each call of the OpenAPI document from recorded exchanges.

Usage: python3 scripts/examples.py FILE (one exchange to a line, as tests/tests/system/support/recorder.rs writes them).
Writes server/src/api/examples.json. scripts/examples calls it.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OF_ID = re.compile(r"\b([a-z]+)_([0-9a-f]{32})\b")
OF_SECRET = re.compile(r"\b(tributary_[a-z]+)_[0-9a-f]{64}\b")
# Lists are cut to so many items.
ITEMS = 2


def calls():
    """Pattern of the path, method, operation id, whether the request is JSON, and the schema of a JSON answer."""
    document = json.loads((ROOT / "dashboard/web/openapi.json").read_text())
    for path, methods in document["paths"].items():
        pattern = re.compile(re.sub(r"\\\{[a-z]+\\\}", "[^/]+", re.escape(path)))
        # Braces are escaped by some releases of Python and not by others.
        pattern = re.compile(re.sub(r"\{[a-z]+\}", "[^/]+", pattern.pattern))
        for method, call in methods.items():
            takes = "application/json" in call.get("requestBody", {}).get("content", {})
            successes = [answer for status, answer in call["responses"].items() if status.startswith("2")]
            contents = [answer.get("content", {}).get("application/json") for answer in successes]
            schemas = [json.dumps(content["schema"]) for content in contents if content]
            answers = schemas[0] if schemas else None
            yield pattern, method.upper(), call["operationId"], takes, answers


def cut(value):
    if isinstance(value, list):
        return [cut(item) for item in value[:ITEMS]] if value and isinstance(value[0], dict) else value[:8]
    return {name: cut(member) for name, member in value.items()} if isinstance(value, dict) else value


def empty(value):
    """Members that say nothing: the example with fewest of them tells most."""
    if isinstance(value, dict):
        return sum(empty(member) for member in value.values())
    return 1 if value in (None, [], {}, "") else 0


def rank(exchange, takes):
    """Small and full exchanges first; before them those with the request that the call takes, and jobs that train."""
    request, answer = exchange["request"], exchange["answer"]
    size = len(json.dumps(answer)) + len(json.dumps(request))
    text = json.dumps(exchange, sort_keys=True)
    return (takes and not request, '"analysis"' in text, empty(answer) + empty(request), abs(size - 600), text)


def plain(text):
    """Ids are counted and secrets are zeros, so that the same tests write nearly the same file."""
    numbers = {}

    def number(found):
        kind = found.group(1)
        known = numbers.setdefault(kind, {})
        return f"{kind}_{known.setdefault(found.group(2), len(known) + 1):032x}"

    return OF_ID.sub(number, OF_SECRET.sub(lambda found: f"{found.group(1)}_{'0' * 64}", text))


def main(arguments):
    if len(arguments) != 1:
        sys.exit(__doc__)
    exchanges = [json.loads(line) for line in Path(arguments[0]).read_text().splitlines()]
    chosen, missing, of_type = {}, [], {}
    for pattern, method, call, takes, answers in calls():
        own = [one for one in exchanges if one["method"] == method and pattern.fullmatch(one["path"])]
        own = [one for one in own if not answers or one["answer"] is not None]
        if not (takes or answers):
            continue
        if not own:
            missing.append((call, answers))
            continue
        best = min(own, key=lambda one: rank(one, takes))
        example = {"request": best["request"] if takes else None, "answer": best["answer"] if answers else None}
        example = {name: cut(value) for name, value in example.items()}
        chosen[call] = {name: value for name, value in example.items() if value is not None}
        of_type.setdefault(answers, example["answer"])
    # SDKs alone make these calls; another call has the same answer.
    for call, answers in list(missing):
        if of_type.get(answers) is not None:
            chosen[call] = {"answer": of_type[answers]}
            missing.remove((call, answers))
    text = json.dumps(dict(sorted(chosen.items())), indent=1, ensure_ascii=False)
    (ROOT / "server/src/api/examples.json").write_text(plain(text) + "\n")
    print(f"{len(chosen)} examples, {len(text)} bytes; none of: {', '.join(call for call, _ in missing) or '-'}")


if __name__ == "__main__":
    main(sys.argv[1:])
