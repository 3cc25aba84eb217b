"""`PolicyRegistry`: policies by name."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

from rlm_jupyter.policies.base import Policy, RewardPolicy, TerminationPolicy
from rlm_jupyter.policies.import_string import imported
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

if TYPE_CHECKING:
    from rlm_jupyter.policies.reward import RewardFunction

Kind = Literal["termination", "reward"]
_P = TypeVar("_P", bound=Policy)
_BASES: dict[Kind, type[Policy]] = {"termination": TerminationPolicy, "reward": RewardPolicy}


class PolicyRegistry:
    """Policies by name, for the whole process. The built-in ones are there without an import."""

    _policies: ClassVar[dict[Kind, dict[str, type[Policy]]]] = {"termination": {}, "reward": {}}
    _defaults: ClassVar[dict[Kind, str]] = {"termination": "final_pattern", "reward": "default"}

    @classmethod
    def register_termination(cls, name: str | None = None) -> Callable[[type[_P]], type[_P]]:
        """Return a decorator that registers a `TerminationPolicy` under `name`, else under its own `name`.

        Raises
        ------
        ConfigurationError
            The class is of another kind or abstract, has no name, or takes the name of a built-in policy.
        """
        return cls._register("termination", name)

    @classmethod
    def register_reward(cls, name: str | None = None) -> Callable[[type[_P]], type[_P]]:
        """Return a decorator that registers a `RewardPolicy`, as `register_termination` does."""
        return cls._register("reward", name)

    @classmethod
    def get_termination(cls, name: str | None = None, config: Mapping[str, Any] | None = None) -> TerminationPolicy:
        """Return a new termination policy.

        Parameters
        ----------
        name
            As registered, or `package.module:ClassName`; `None`: the default, `final_pattern` unless it was
            changed.
        config
            Settings that differ from the policy's own.

        Raises
        ------
        ConfigurationError
            There is no such policy or no such setting (the known ones are named), or a value is wrong.
        """
        return cast("TerminationPolicy", cls._create("termination", name, config))

    @classmethod
    def get_reward(cls, name: str | None = None, config: Mapping[str, Any] | None = None) -> RewardPolicy:
        """Return a new reward policy, as `get_termination` gives one; the default is `default`."""
        return cast("RewardPolicy", cls._create("reward", name, config))

    @classmethod
    def termination_from(
        cls, termination: str | TerminationPolicy | Mapping[str, Any] | None, default: str
    ) -> TerminationPolicy:
        """Return the termination policy that a user means.

        Parameters
        ----------
        termination
            A name, `package.module:ClassName`, `{"name": …, "config": {…}}` as a dict or as JSON text, or a
            policy, which is given back as it is; `None`: the policy of the name `default`.
        default
            A name.

        Raises
        ------
        ConfigurationError
            It is none of these, or what it names isn't there, or its settings are wrong.
        """
        return cast("TerminationPolicy", cls._resolve("termination", termination, default))

    @classmethod
    def reward_from(cls, reward: str | RewardPolicy | RewardFunction | Mapping[str, Any] | None) -> RewardPolicy:
        """Return the reward policy that a user means, as `termination_from` finds one; `None`: the registry's default.

        A function `(action, result, context) -> float | RewardSignal` serves as well, itself or by
        `package.module:function`.
        """
        return cast("RewardPolicy", cls._resolve("reward", reward, cls._defaults["reward"]))

    @classmethod
    def set_default_termination(cls, name: str) -> None:
        """Set what `get_termination()` gives from now on. A run's own default stays `declared`."""
        cls._find("termination", name)
        cls._defaults["termination"] = name

    @classmethod
    def set_default_reward(cls, name: str) -> None:
        """Set what `get_reward()` gives from now on."""
        cls._find("reward", name)
        cls._defaults["reward"] = name

    @classmethod
    def list_termination_policies(cls) -> list[dict[str, str]]:
        """Return `name` and `description` of each, in the order of registration."""
        return cls._listing("termination")

    @classmethod
    def list_reward_policies(cls) -> list[dict[str, str]]:
        """Return `name` and `description` of each, in the order of registration."""
        return cls._listing("reward")

    @classmethod
    def list_all(cls) -> dict[str, list[dict[str, str]]]:
        """Return both listings, by kind."""
        return {kind: cls._listing(kind) for kind in _BASES}

    @classmethod
    def create_from_config(cls, config: Mapping[str, object]) -> dict[str, Policy]:
        """Make policies from plain data, such as a settings file.

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
        if not isinstance(config, Mapping):
            raise ConfigurationError(f"A dict of kinds of policies is needed, not {quoted(config)}.")
        policies: dict[str, Policy] = {}
        for kind, entry in config.items():
            if kind not in _BASES:
                raise ConfigurationError(f"Unknown kind of policy {quoted(kind)}. Known: {', '.join(_BASES)}.")
            policies[kind] = cls._from_mapping(kind, entry, cls._defaults[kind])
        return policies

    @classmethod
    def _register(cls, kind: Kind, name: str | None) -> Callable[[type[_P]], type[_P]]:
        if name is not None and not isinstance(name, str):
            raise ConfigurationError(f"A name is needed: @PolicyRegistry.register_{kind}('name').")

        def register(policy: type[_P]) -> type[_P]:
            if not _is_concrete(policy, _BASES[kind]):
                raise ConfigurationError(f"{quoted(policy)} is no {_BASES[kind].__name__} with all its methods.")
            known = cls._known(kind)
            registered = name or policy.name
            if not registered:
                raise ConfigurationError(f"{policy.__name__}: a name is needed: @register_{kind}('name').")
            # a cell is run again, and defines its policy anew; a built-in one is nobody else's
            if registered in known and known[registered].__module__.startswith(f"{__package__}."):
                raise ConfigurationError(f"{quoted(registered)} is a built-in {kind} policy; choose another name.")
            policy.name = registered
            known[registered] = policy
            return policy

        return register

    @classmethod
    def _known(cls, kind: Kind) -> dict[str, type[Policy]]:
        known = cls._policies[kind]
        if "lenient" not in cls._policies["reward"]:  # one of ours: they are not there yet
            # imported late: `composite`, one of them, imports this module
            builtin = import_module("rlm_jupyter.policies.builtin")
            cls._policies["termination"].update({policy.name: policy for policy in builtin.TERMINATION})
            cls._policies["reward"].update({policy.name: policy for policy in builtin.REWARD})
        return known

    @classmethod
    def _find(cls, kind: Kind, name: object) -> type[Policy]:
        known = cls._known(kind)
        if not isinstance(name, str) or name not in known:
            raise ConfigurationError(f"Unknown {kind} policy {quoted(name)}. Available: {', '.join(known)}.")
        return known[name]

    @classmethod
    def _create(cls, kind: Kind, name: object, config: Mapping[str, Any] | None = None) -> Policy:
        name = cls._defaults[kind] if name is None else name
        if not isinstance(name, str) or ":" not in name or name in cls._known(kind):
            return cls._checked(cls._made(cls._find(kind, name), config))
        found = imported(name)
        if _is_concrete(found, _BASES[kind]):
            policy = cls._made(cast("type[Policy]", found), config)
            policy.name = policy.name or name
            return cls._checked(policy)
        if kind == "reward" and callable(found) and not isinstance(found, type | Policy) and not config:
            return cls._resolve(kind, found, "")
        raise ConfigurationError(f"{quoted(name)} is no {_BASES[kind].__name__} with all its methods.")

    @staticmethod
    def _made(policy: type[Policy], config: Mapping[str, Any] | None) -> Policy:
        try:
            made = policy(config)
            if isinstance(made, TerminationPolicy):
                made.reset()  # so that what a policy counts with may be set there alone
        except ConfigurationError:
            raise
        except Exception as error:
            told = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigurationError(
                f"{policy.name or policy.__name__} can't be made with {quoted(config)}: {told}"
            ) from error
        return made

    @staticmethod
    def _checked(policy: Policy) -> Policy:
        problems = policy.validate_config()
        if problems:
            raise ConfigurationError(f"{policy.name or type(policy).__name__}: {problems[0]}")
        return policy

    @classmethod
    def _resolve(cls, kind: Kind, given: object, default: str) -> Policy:
        if isinstance(given, str) and given.lstrip().startswith("{") and given not in cls._known(kind):
            try:
                given = json.loads(given)
            except ValueError as error:
                raise ConfigurationError(f"{kind}: {quoted(given)} is no JSON: {error}.") from None
        if given is None or isinstance(given, str):
            return cls._create(kind, default if given is None else given)
        if isinstance(given, _BASES[kind]):
            return cls._checked(given)
        if isinstance(given, Mapping):
            return cls._from_mapping(kind, given)
        if kind == "reward" and callable(given) and not isinstance(given, type | Policy):
            from rlm_jupyter.policies.reward import FunctionRewardPolicy

            return FunctionRewardPolicy(given)
        function = ", a function (action, result, context) -> float" if kind == "reward" else ""
        hint = (
            f": make an object of it, {getattr(given, '__name__', '')}()" if _is_concrete(given, _BASES[kind]) else ""
        )
        raise ConfigurationError(
            f"{kind}: pass a name ({', '.join(cls._known(kind))}), 'package.module:ClassName', a dict with `name` and "
            f"`config`{function} or a {_BASES[kind].__name__}, not {quoted(given)}{hint}."
        )

    @classmethod
    def _from_mapping(cls, kind: Kind, entry: object, default: str | None = None) -> Policy:
        if not isinstance(entry, Mapping) or set(entry) - {"name", "config"}:
            raise ConfigurationError(f"{kind}: a dict with `name` and `config` is needed, not {quoted(entry)}.")
        name = default if entry.get("name") is None else entry["name"]
        if not isinstance(name, str):
            raise ConfigurationError(f"{kind}: a dict with the `name` of a policy is needed, not {quoted(entry)}.")
        return cls._create(kind, name, entry.get("config"))

    @classmethod
    def _listing(cls, kind: Kind) -> list[dict[str, str]]:
        return [{"name": name, "description": policy.description} for name, policy in cls._known(kind).items()]


def _is_concrete(policy: object, base: type[Policy]) -> bool:
    return isinstance(policy, type) and issubclass(policy, base) and not inspect.isabstract(policy)
