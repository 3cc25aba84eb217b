"""`PolicyRegistry`: policies by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeVar, cast

from rlm_jupyter.errors import ConfigurationError
from rlm_jupyter.policies.base import Policy, RewardPolicy, TerminationPolicy

Kind = Literal["termination", "reward"]
_P = TypeVar("_P", bound=Policy)
_BASES: dict[Kind, type[Policy]] = {"termination": TerminationPolicy, "reward": RewardPolicy}


class PolicyRegistry:
    """Policies by name, for the whole process. The built-in ones are there without an import."""

    _policies: ClassVar[dict[Kind, dict[str, type[Policy]]]] = {"termination": {}, "reward": {}}
    _defaults: ClassVar[dict[Kind, str]] = {"termination": "final_pattern", "reward": "default"}

    @classmethod
    def register_termination(cls, name: str | None = None) -> Callable[[type[_P]], type[_P]]:
        """A decorator: register a `TerminationPolicy` under `name`, else under its own `name`.

        Raises
        ------
        ConfigurationError
            The class is of another kind or abstract, has no name, or takes the name of a built-in policy.
        """
        return cls._register("termination", name)

    @classmethod
    def register_reward(cls, name: str | None = None) -> Callable[[type[_P]], type[_P]]:
        """A decorator: register a `RewardPolicy`, as `register_termination` does."""
        return cls._register("reward", name)

    @classmethod
    def get_termination(cls, name: str | None = None, config: dict[str, Any] | None = None) -> TerminationPolicy:
        """A new termination policy.

        Parameters
        ----------
        name
            As registered; `None`: the default, `final_pattern` unless it was changed.
        config
            Settings that differ from the policy's own.

        Raises
        ------
        ConfigurationError
            There is no such policy or no such setting (the known ones are named), or a value is wrong.
        """
        return cast("TerminationPolicy", cls._create("termination", name, config))

    @classmethod
    def get_reward(cls, name: str | None = None, config: dict[str, Any] | None = None) -> RewardPolicy:
        """A new reward policy, as `get_termination` gives one; the default is `default`."""
        return cast("RewardPolicy", cls._create("reward", name, config))

    @classmethod
    def set_default_termination(cls, name: str) -> None:
        """What `get_termination()` gives from now on. A run's own default stays `declared`."""
        cls._find("termination", name)
        cls._defaults["termination"] = name

    @classmethod
    def set_default_reward(cls, name: str) -> None:
        """What `get_reward()` gives from now on."""
        cls._find("reward", name)
        cls._defaults["reward"] = name

    @classmethod
    def list_termination_policies(cls) -> list[dict[str, str]]:
        """`name` and `description` of each, in the order of registration."""
        return cls._listing("termination")

    @classmethod
    def list_reward_policies(cls) -> list[dict[str, str]]:
        """`name` and `description` of each, in the order of registration."""
        return cls._listing("reward")

    @classmethod
    def list_all(cls) -> dict[str, list[dict[str, str]]]:
        """Both listings, by kind."""
        return {kind: cls._listing(kind) for kind in _BASES}

    @classmethod
    def create_from_config(cls, config: Mapping[str, object]) -> dict[str, Policy]:
        """Policies from plain data, such as a settings file.

        Parameters
        ----------
        config
            `{"termination": {"name": …, "config": {…}}, "reward": {…}}`, each part optional.

        Returns
        -------
        dict
            A policy for each kind that is named.

        Raises
        ------
        ConfigurationError
            Something in it is unknown; the known ones are named.
        """
        policies: dict[str, Policy] = {}
        for kind, entry in config.items():
            if kind not in _BASES:
                raise ConfigurationError(f"Unknown kind of policy {kind!r}. Known: {', '.join(_BASES)}.")
            if not isinstance(entry, Mapping) or set(entry) - {"name", "config"}:
                raise ConfigurationError(f"{kind}: a dict with `name` and `config` is needed, not {entry!r}.")
            policies[kind] = cls._create(kind, entry.get("name"), entry.get("config"))
        return policies

    @classmethod
    def _register(cls, kind: Kind, name: str | None) -> Callable[[type[_P]], type[_P]]:
        def register(policy: type[_P]) -> type[_P]:
            if not issubclass(policy, _BASES[kind]) or inspect.isabstract(policy):
                raise ConfigurationError(f"{policy!r} is no {_BASES[kind].__name__} with all its methods.")
            known = cls._known(kind)
            registered = name or policy.name
            if not registered:
                raise ConfigurationError(f"{policy.__name__}: a name is needed: @register_{kind}('name').")
            # a cell is run again, and defines its policy anew; a built-in one is nobody else's
            if registered in known and known[registered].__module__.startswith(f"{__package__}."):
                raise ConfigurationError(f"{registered!r} is a built-in {kind} policy; choose another name.")
            policy.name = registered
            known[registered] = policy
            return policy

        return register

    @classmethod
    def _known(cls, kind: Kind) -> dict[str, type[Policy]]:
        known = cls._policies[kind]
        if "default" not in cls._policies["reward"]:
            from rlm_jupyter.policies import reward, termination

            cls._policies["termination"].update({policy.name: policy for policy in termination.BUILT_IN})
            cls._policies["reward"].update({policy.name: policy for policy in reward.BUILT_IN})
        return known

    @classmethod
    def _find(cls, kind: Kind, name: str) -> type[Policy]:
        known = cls._known(kind)
        if name not in known:
            raise ConfigurationError(f"Unknown {kind} policy {name!r}. Available: {', '.join(known)}.")
        return known[name]

    @classmethod
    def _create(cls, kind: Kind, name: str | None, config: dict[str, Any] | None) -> Policy:
        policy = cls._find(kind, name or cls._defaults[kind])(config)
        problems = policy.validate_config()
        if problems:
            raise ConfigurationError(f"{policy.name}: {problems[0]}")
        return policy

    @classmethod
    def _listing(cls, kind: Kind) -> list[dict[str, str]]:
        return [{"name": name, "description": policy.description} for name, policy in cls._known(kind).items()]
