"""`OptionTraits`: what `%config` sets of a run, a trait for each of `OPTIONS` that is taken there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traitlets import Bool, Dict, Enum, Float, HasTraits, Integer, List, TraitType, Unicode, Union

from rlm_jupyter.frontends.run_options import Option, help_of, options_of

_UNSET = {int: Integer, float: Float, str: Unicode}


def _trait(option: Option) -> TraitType[Any, Any]:
    """Return the trait of an option by the kind of its value; not set is `None`, or no element."""
    if option.kind is bool:
        return Bool(False)
    if option.repeats:
        return List(Unicode())
    if option.choices:
        if option.default.startswith("$"):  # the environment has a word in it: not set
            return Enum(option.choices, None, allow_none=True)
        return Enum(option.choices, option.default)
    if option.part == "rlm" and option.kind in {int, float} and option.default[:1].isdigit():
        return _UNSET[option.kind](option.kind(option.default))
    return _UNSET[option.kind](None, allow_none=True)


def _traits() -> dict[str, TraitType[Any, Any]]:
    traits = {option.keyword: _trait(option) for option in options_of("config")}
    traits |= {
        # in Python more is taken for these, or another default than none
        "termination": Union([Unicode(), Dict()], default_value=None, allow_none=True),
        "reward": Union([Unicode(), Dict()], default_value=None, allow_none=True),
        "save": Union([Bool(), Unicode()], default_value=True),
    }
    for option in options_of("config"):
        trait = traits[option.keyword]
        trait.help = trait.__doc__ = trait.metadata["help"] = help_of(option.name)
        trait.tag(config=True)
    return traits


if TYPE_CHECKING:

    class OptionTraits(HasTraits):
        """Has a trait for each option of a run that a notebook configures, by the option's name."""

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

else:
    _DOC = "Has a trait for each option of a run that a notebook configures, by the option's name."
    OptionTraits = type("OptionTraits", (HasTraits,), {"__module__": __name__, "__doc__": _DOC, **_traits()})
