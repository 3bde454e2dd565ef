"""Policies from YAML, XML and Python; every error at once, at a bounded cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.errors import PolicyError, UsageError
from headgate.reduction import (
    DigestPlan,
    Kind,
    Policy,
    PolicyBuilder,
    digest_kinds,
    filter_kinds,
    load_policy,
    parse_policy,
    problems_with,
    use,
)
from headgate.reduction.parameters import parameters_of
from headgate.reduction.policy_file import MAX_POLICY_BYTES
from tests.reduction.test_packing import pulse

EXAMPLES = Path(__file__).parents[2] / "examples" / "policies"

YAML = """\
policy: pulse
attribute: PulseRate
digests: [MEAN, COUNT]
levels:
  - {filter: DELTA, sense: keep, change: 5}
  - - {filter: WITHIN, sense: drop, low: 50, high: 100}
  - {filter: LATEST, sense: keep, window: 3}
"""
XML = """\
<policy name="pulse" attribute="PulseRate">
  <summary>
    <digester name="MEAN"/>
    <digester name="COUNT"/>
  </summary>
  <level>
    <filter name="DELTA" sense="keep"><para name="change" value="5"/></filter>
  </level>
  <level>
    <filter name="WITHIN" sense="drop">
      <para name="low" value="50"/>
      <para name="high" value="100"/>
    </filter>
  </level>
  <level>
    <filter name="LATEST" sense="keep"><para name="window" value="3"/></filter>
  </level>
</policy>
"""


def problems(text: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, "p.yaml")
    return [str(problem) for problem in caught.value.problems]


def one_level(written: str) -> str:
    return f"policy: p\nattribute: v\nlevels:\n  - {written}\n"


def test_yaml_xml_and_python_give_the_same_policy() -> None:
    assert parse_policy(YAML) == parse_policy(XML) == pulse()


@pytest.mark.parametrize("path", sorted(EXAMPLES.iterdir()), ids=lambda p: p.name)
def test_every_example_loads(path: Path) -> None:
    if path.suffix in (".yaml", ".xml"):
        assert load_policy(path).levels


def test_every_problem_is_reported_with_line_field_and_nearest_name() -> None:
    found = problems(
        "policy: p\n"
        "atribute: v\n"
        "digests: [MEEN]\n"
        "levels:\n"
        "  - {filter: WITHN, sense: keep}\n"
        "  - {filter: GT, value: 5}\n"
        "  - - {filter: EVERY, sense: drop, count: 0}\n"
        "    - {filter: LATEST, sense: kepp, windw: 3}\n"
    )
    assert [line.split(":")[1] for line in found] == ["2", "3", "5", "6", "7", "8", "8", "8"]
    text = "\n".join(found)
    assert "p.yaml:2: atribute: unknown section; did you mean 'attribute'?" in text
    assert "p.yaml:3: digests.1.digest: unknown digest 'MEEN'; did you mean 'MEAN'?" in text
    assert "p.yaml:5: levels.1.filter: unknown filter 'WITHN'; did you mean 'WITHIN'?" in text
    assert "p.yaml:6: levels.2.sense: missing; say whether the selected events are kept" in text
    assert "p.yaml:7: levels.3.1.count: expected a whole number from 1" in text
    assert "levels.3.2.sense: expected keep or drop, got 'kepp'" in text
    assert "levels.3.2.windw: unknown parameter of LATEST; did you mean 'window'?" in text


@pytest.mark.parametrize("name", filter_kinds())
def test_a_filter_without_a_sense_is_refused(name: str) -> None:
    with pytest.raises(PolicyError) as caught:
        PolicyBuilder("p", attribute="v").level(use(name)).build()
    assert any(p.field[-1] == "sense" for p in caught.value.problems)


@pytest.mark.parametrize("kind", [*filter_kinds().values(), *digest_kinds().values()])
def test_every_parameter_refuses_nonsense_with_one_message(kind: Any) -> None:
    for name, (parameter, _) in parameters_of(kind).items():
        for value in (None, object(), float("nan"), [[]], {}, "\ud800", [], "x" * 100_000):
            message = ""
            try:
                parameter.accept(value)
            except ValueError as error:
                message = str(error)
            assert len(message) < 300, (kind, name)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{filter: MATCH, sense: keep, pattern: '(a'}", "RE2 can match in linear time: missing )"),
        ("{filter: MATCH, sense: keep, pattern: '(?=a)'}", "look-around and back-references"),
        ("{filter: MATCH, sense: keep, pattern: '((a{100}){100}){100}'}", "linear time"),
        ("{filter: WITHIN, sense: keep, low: 5, high: 1}", "low 5 is above high 1"),
        ("{filter: GT, sense: keep, value: true}", "use EQ or NE for true and false"),
        ("{filter: INSET, sense: keep, values: [1, a]}", "values of one kind"),
        ("{filter: RANDOM, sense: drop, fraction: 2}", "a fraction from 0 to 1"),
        ("{filter: OLDER_THAN, sense: drop, age: 5 parsecs}", "unknown unit"),
        ("{filter: OLDER_THAN, sense: drop, age: 5s}", "name the attribute with the time"),
        ("{filter: LATEST_PER_KEY, sense: keep}", "name the attribute that is the key"),
        ("{filter: DELTA, sense: keep, change: 0}", "above 0"),
        ("{filter: DELTA, sense: keep, change: 1, since: kept}", "one of previous, selected"),
        ("{filter: GT, sense: keep}", "missing; GT needs a number"),
        ("just text", "expected a filter such as"),
        ("[]", "expected 1 to 20 filters, got 0"),
    ],
)
def test_bad_filters_get_one_clear_error(written: str, message: str) -> None:
    found = problems(one_level(written))
    assert message in "\n".join(found)
    assert all(line.startswith("p.yaml:4:") for line in found)


def test_the_wrong_type_for_an_attribute_is_refused() -> None:
    text = "policy: p\nattributes: {host: text, rate: number, x: strange}\nlevels:\n"
    assert (
        "unknown type 'strange'"
        in problems(text + "  - {filter: LATEST, sense: keep, window: 1}")[0]
    )
    text = text.replace(", x: strange", "")
    [found] = problems(text + "  - {filter: MATCH, sense: keep, attribute: rate, pattern: a}")
    assert "MATCH judges text, but 'rate' is number" in found
    [found] = problems(text + "  - {filter: GT, sense: keep, attribute: hots, value: 1}")
    assert "no attribute 'hots'; did you mean 'host'?" in found


def test_a_policy_is_compared_with_the_data_it_meets() -> None:
    policy = PolicyBuilder("p", attribute="v").level(use("GT", "keep", value=1)).build()
    assert problems_with(policy, {"v": frozenset({Kind.NUMBER})}) == []
    [problem] = problems_with(policy, {"v": frozenset({Kind.TEXT})})
    assert "GT judges number or time, but 'v' is text" in str(problem)


def test_no_attribute_anywhere_is_said() -> None:
    [found] = problems("policy: p\nlevels:\n  - {filter: UNIQ, sense: keep}\n")
    assert "name the attribute, here or for the whole policy" in found


def test_a_million_levels_cost_one_error() -> None:
    level = "- {filter: LATEST, sense: keep, window: 1}\n"
    assert "larger than" in problems("policy: p\nlevels:\n" + level * 1_000_000)[0]
    [found] = problems("policy: p\nlevels:\n" + "- []\n" * 5000)
    assert "at most 100 levels, got 5,000" in found
    builder = PolicyBuilder("p")
    builder._levels = [(use("LATEST"),)] * 1_000_000
    with pytest.raises(PolicyError, match="at most 100 levels, got 1,000,000") as caught:
        builder.build()
    assert len(caught.value.problems) == 1
    xml = "<policy>" + "<level/>" * 5000 + "</policy>"
    assert "at most 100 levels, got 5,000" in problems(xml)[0]


def test_yaml_bombs_are_refused() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    for letter, before in zip("bcdefgh", "abcdefg", strict=True):
        bomb += f"{letter}: &{letter} [{', '.join([f'*{before}'] * 9)}]\n"
    [found] = problems(bomb)
    assert "values, with aliases written out" in found
    assert "network" not in found
    assert "deeper" in problems("policy: " + "[" * 100)[0]
    assert "not allowed" in problems("policy: !!python/object:os.system x\nlevels: []")[0]


LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;&lol;&lol;&lol;">]>
<policy name="&lol2;"/>
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "p.yaml:2: a document type (<!DOCTYPE>) is not allowed"),
        ('<!DOCTYPE p SYSTEM "file:///etc/passwd"><policy/>', "a document type"),
        ("<policy>&x;</policy>", "not valid XML: undefined entity"),
        ("<policy><?php x ?></policy>", "a processing instruction"),
        ("<policy>" + "<level>" * 50, "nested deeper than 8"),
        ("<policy><level></policy>", "close each element"),
        ("<policy", "not valid XML"),
        ("<network/>", "expected <policy>"),
        ("<policy><levl/></policy>", "unknown element in <policy>; did you mean 'level'?"),
        ('<policy x="1"/>', "unknown field of <policy>"),
        ("<policy/>", "give at least one level"),
        ('<policy attribute="v"><level><filter name="GT" sense="keep"/></level></policy>',
         "levels.1.value: missing"),
        ('<policy><level><filter name="LATEST" sense="keep"><para name="window"/></filter>'
         "</level></policy>", "expected a name and a value"),
    ],
)  # fmt: skip
def test_bad_xml_gets_one_clear_error(text: str, message: str) -> None:
    assert message in "\n".join(problems(text))


def test_xml_lists_and_texts_that_look_like_numbers() -> None:
    policy = parse_policy(
        '<policy attribute="v"><level><filter name="INSET" sense="drop">'
        '<para name="values" value="1" type="text"/><para name="values" value="2" type="text"/>'
        "</filter></level></policy>"
    )
    assert policy.levels[0][0].values == ("1", "2")  # type: ignore[attr-defined]


def test_quotes_make_texts_in_yaml() -> None:
    policy = parse_policy(one_level("{filter: INSET, sense: keep, values: ['1', no]}"))
    assert policy.levels[0][0].values == ("1", "no")  # type: ignore[attr-defined]


def test_what_is_named_for_the_policy_is_inherited() -> None:
    policy = (
        PolicyBuilder("p", attribute="v", group="g", time="t", identity="id")
        .level(use("DEDUPLICATE", "keep", within="2s"), use("RANDOM", "drop", fraction="10%"))
        .level(use("RANDOM", "drop", fraction=0.1, identity="other"))
        .digest("MAX")
        .build()
    )
    first, second, third = [f for _, f in policy.filters(2)]
    assert (first.attribute, first.group, first.time, first.within) == ("v", "g", "t", 2.0)
    assert (second.identity, third.identity) == ("id", "other")
    assert second.seed != third.seed, "two RANDOM filters decide independently"
    assert policy.digests.kinds[0].attribute == "v"


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        load_policy(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="cannot read the policy"):
        load_policy(tmp_path)
    large = tmp_path / "large.yaml"
    large.write_text("#" * (MAX_POLICY_BYTES + 1))
    with pytest.raises(PolicyError, match="larger than"):
        load_policy(large)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"policy: \xe9")
    with pytest.raises(PolicyError, match="not UTF-8"):
        load_policy(latin)
    for text in ("", "# nothing", "[]", "5", "\x00", "levels: 5", "policy:"):
        assert problems(text)


def test_a_policy_made_by_hand_has_defaults() -> None:
    assert Policy("empty", ()).digests == DigestPlan()


def test_every_filter_and_digest_is_described_on_the_page() -> None:
    page = (EXAMPLES.parents[1] / "docs" / "policies.md").read_text()
    for name in (*filter_kinds(), *digest_kinds()):
        assert f"`{name}`" in page
    for kind in filter_kinds().values():
        for name in parameters_of(kind):
            assert f"`{name}`" in page
