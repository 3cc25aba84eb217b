"""`OptionTraits`: what `%config` sets of a run, a trait for each of `OPTIONS` that is taken there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traitlets import Bool, Dict, Enum, Float, HasTraits, Integer, List, TraitType, Unicode, Union

from rlm_jupyter.frontends.run_options import Option, help_of, options_of
from rlm_jupyter.run.settings import COMPACT_AT

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
    return _UNSET[option.kind](None, allow_none=True)


def _traits() -> dict[str, TraitType[Any, Any]]:
    traits = {option.argument or option.name: _trait(option) for option in options_of("config")}
    traits |= {
        # in Python more is taken for these, or another default than none
        "termination": Union([Unicode(), Dict()], default_value=None, allow_none=True),
        "reward": Union([Unicode(), Dict()], default_value=None, allow_none=True),
        "save": Union([Bool(), Unicode()], default_value=True),
        "samples": Integer(1, min=1),
        "compact_at": Float(COMPACT_AT, min=0, max=1, allow_none=True),
    }
    for option in options_of("config"):
        trait = traits[option.argument or option.name]
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
