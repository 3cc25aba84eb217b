"""The one table of options, as a notebook's magics show it."""

from __future__ import annotations

from rlm_jupyter.frontends.run_options import OPTIONS


def test_a_value_is_written_as_it_is_typed() -> None:
    for option in OPTIONS:
        text = option.settings("magic")["help"]
        first = text.partition(":")[0]
        assert first in option.choices or first.lower() not in option.choices, option.name
    shown = {option.name: option.settings("magic")["help"] for option in OPTIONS}
    assert shown["sandbox"].startswith("bwrap: ")
    assert shown["model"][0].isupper()
