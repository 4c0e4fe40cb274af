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


def calls(document):
    """Pattern of the path, method, operation id, whether it takes JSON, and the schemas of JSON answers by status."""
    for path, methods in document["paths"].items():
        pattern = re.compile("[^/]+".join(re.escape(part) for part in re.split(r"\{[a-z]+\}", path)))
        for method, call in methods.items():
            takes = "application/json" in call.get("requestBody", {}).get("content", {})
            contents = {status: answer.get("content", {}) for status, answer in call["responses"].items()}
            answers = {
                status: content["application/json"]["schema"]
                for status, content in contents.items()
                if status.startswith("2") and "application/json" in content
            }
            yield pattern, method.upper(), call["operationId"], takes, answers


def fits(document, schema, answer):
    """Whether an answer has the members that a schema needs: calls have few kinds of success, which differ by them."""
    if "$ref" in schema:
        return fits(document, document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], answer)
    return answer is not None and all(name in answer for name in schema.get("required", []))


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
    # Texts of limits: a letter again and again, and attributes with numbers.
    is_contrived = re.search(r'([a-z])\1{15}|"a0\d"', text) is not None
    return (takes and not request, '"analysis"' in text or is_contrived, empty(answer) + empty(request), abs(size - 600), text)


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
    document = json.loads((ROOT / "dashboard/web/openapi.json").read_text())
    chosen, of_type, missing = {}, {}, []
    for pattern, method, call, takes, answers in calls(document):
        own = [one for one in exchanges if one["method"] == method and pattern.fullmatch(one["path"])]
        own.sort(key=lambda one: rank(one, takes))
        example = {"answers": {}}
        if takes and own:
            example["request"] = cut(own[0]["request"])
        for status, schema in answers.items():
            answer = next((cut(one["answer"]) for one in own if fits(document, schema, one["answer"])), None)
            if answer is None:
                missing.append((call, status, schema))
            else:
                example["answers"][status] = answer
                of_type.setdefault(json.dumps(schema), answer)
        if takes or answers:
            chosen[call] = example
    # SDKs alone make some calls; another call has the same answer.
    for call, status, schema in list(missing):
        if json.dumps(schema) in of_type:
            chosen[call]["answers"][status] = of_type[json.dumps(schema)]
            missing.remove((call, status, schema))
    text = json.dumps(dict(sorted(chosen.items())), indent=1, ensure_ascii=False)
    (ROOT / "server/src/api/examples.json").write_text(plain(text) + "\n")
    print(f"{len(chosen)} examples, {len(text)} bytes; none of: {', '.join(call for call, _, _ in missing) or '-'}")


if __name__ == "__main__":
    main(sys.argv[1:])
