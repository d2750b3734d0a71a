# SPDX-License-Identifier: MIT
"""Do the three formats say the same, to prometheus_client's strict parser and to a JSON parser?

	export_parse.py PREFIX		reads PREFIX.openmetrics, PREFIX.prometheus, PREFIX.json
"""
import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus


def read(suffix):
    # As bytes, so that no line end is changed on the way.
    with open(f"{sys.argv[1]}.{suffix}", "rb") as file:
        return file.read().decode("utf-8")


def expected(data):
    """(family, kind, unit, help, {path: value}) per statistic, from the JSON document."""
    for stat in data["stats"]:
        family = "_".join(filter(None, (data["tree"], stat["name"], stat["unit"])))
        values = {node["path"]: node["values"][stat["name"]] for node in data["nodes"]}
        yield family, stat["kind"], stat["unit"] or "", stat["help"] or "", values


def check(families, data, exact):
    wanted = list(expected(data))
    assert len(families) == len(wanted), (len(families), len(wanted))
    for got, (family, kind, unit, text, values) in zip(families, wanted):
        assert got.name == family, (got.name, family)
        assert got.type == kind, (family, got.type)
        assert got.documentation == text, (family, got.documentation, text)
        assert not exact or got.unit == unit, (family, got.unit)
        assert len(got.samples) == len(values), (family, len(got.samples))
        for sample in got.samples:
            assert sample.name == family + ("_total" if kind == "counter" else ""), sample
            assert list(sample.labels) == ["node"], sample
            value = values[sample.labels["node"]]
            if exact:
                assert isinstance(sample.value, int), sample
            assert sample.value == (value if exact else float(value)), (sample, value)


json_text = read("json")
data = json.loads(json_text)
assert data["schema"] == 1 and json_text.count("\n") == 1
paths = [node["path"] for node in data["nodes"]]
assert len(set(paths)) == len(paths) and paths[0] == ""
assert 'quote " here/line\nfeed' in paths and "# EOF/both \\\" and \\n" in paths
levels = {node["path"]: node["local"]["level"] for node in data["nodes"]}
assert levels['quote " here'] == -(2**63) and levels["back\\slash"] == 2**63 - 1
assert levels['both \\" and \\n'] == 2**53 + 1
assert all(node["values"]["fallen"] == 0 for node in data["nodes"])

openmetrics = read("openmetrics")
lines = openmetrics.split("\n")
assert lines[-2:] == ["# EOF", ""] and lines.count("# EOF") == 1
assert not any(line.startswith("# HELP net_open") for line in lines)
check(list(parse_openmetrics(openmetrics)), data, exact=True)

prometheus = read("prometheus")
assert "# EOF" not in prometheus.split("\n")
check(list(parse_prometheus(prometheus)), data, exact=False)
