"""The declaration of every setting: its name, type, default, rule, and the edition that added it.

configs/default.py explains to users what each one means. An algorithm with settings of its own
declares them in a subclass of `Config`, which it names as its `config_class`.
"""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass, field, fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from hackmatrix.train.config import autoscale
from hackmatrix.train.config.rules import (
    ACTIONS,
    ALGORITHM,
    COUNT,
    COUNT_FROM_0,
    DTYPE,
    ENVIRONMENT,
    FLAG,
    FOLDER,
    GAMES,
    GAMES_FROM_0,
    INNER_SHARE,
    NAME,
    NETWORK,
    POSITIVE,
    RUN_NAME,
    SEED,
    SEEDS,
    SHARE,
    SIMULATIONS,
    SIZE,
    STEPS,
    TEXT,
    WEIGHT,
    Rule,
)

FIRST_EDITION = 1  # of the settings; 2 came with pods, 3 with networks and algorithms by name,
# 4 with expert iteration, 5 with milestones and limits of episodes, 6 with turned boards,
# 7 with a lasting reward for programs, 8 with an entropy weight that changes
_DECLARATION = "setting"
_SAME = object()


@dataclass(frozen=True)
class Setting:
    """The declaration of one setting. A default of None means no value until one is given. `since`
    is the edition of the settings that added it; runs saved with an earlier edition go on with the
    value `before`. A fixed setting keeps the value with which the run began.
    """

    kind: type
    default: Any
    rule: Rule
    since: int
    before: Any
    is_fixed: bool

    def allows(self, value: Any) -> bool:
        if value is None:
            return self.default is None
        is_of_kind = type(value) is self.kind or (self.kind is float and type(value) is int)
        return is_of_kind and self.rule.holds(value)


def setting(
    default: Any,
    rule: Rule,
    *,
    since: int = FIRST_EDITION,
    before: Any = _SAME,
    is_fixed: bool = False,
) -> Any:
    """Declares a setting as a field of Config or of a subclass."""
    declared = (default, rule, since, default if before is _SAME else before, is_fixed)
    return field(kw_only=True, metadata={_DECLARATION: declared})


@dataclass(frozen=True)
class Config:
    """Every setting of a run, resolved for the devices found. `chosen` names the settings that were
    not given and were chosen for the devices.
    """

    chosen: tuple[str, ...] = field(default=(), kw_only=True)

    env: str = setting("hackmatrix", ENVIRONMENT, is_fixed=True)
    episode_limit: int = setting(0, ACTIONS, since=5)
    kernels: bool | None = setting(None, FLAG, since=5)
    algorithm: str = setting("ppo", ALGORITHM, since=3, is_fixed=True)
    seed: int = setting(0, SEED, is_fixed=True)
    num_seeds: int = setting(1, SEEDS, since=4)

    auto_tune: bool = setting(True, FLAG)
    num_envs: int = setting(None, SIZE)
    num_steps: int = setting(None, SIZE)
    total_timesteps: int = setting(10_000_000, STEPS)
    time_limit_minutes: float | None = setting(None, POSITIVE)

    num_minibatches: int = setting(None, SIZE)
    update_epochs: int = setting(None, SIZE)
    lr: float = setting(None, POSITIVE)
    anneal_lr: bool = setting(False, FLAG)

    gamma: float = setting(0.99, SHARE)
    gae_lambda: float = setting(0.95, SHARE)
    clip_eps: float = setting(0.2, INNER_SHARE)
    vf_coef: float = setting(0.5, WEIGHT)
    ent_coef: float = setting(0.15, WEIGHT)
    ent_coef_end: float | None = setting(None, WEIGHT, since=8)
    max_grad_norm: float = setting(0.5, POSITIVE)
    skip_nonfinite: bool = setting(False, FLAG, since=5)
    scale_returns: bool = setting(True, FLAG, is_fixed=True)
    potential_shaping: bool = setting(False, FLAG, since=3)
    compress_rewards: bool = setting(False, FLAG, since=4)
    owned_reward: float = setting(0.0, WEIGHT, since=6)
    owned_reward_end: float = setting(0.0, WEIGHT, since=7)
    simulations: int = setting(16, SIMULATIONS, since=4)
    start_from: str | None = setting(None, TEXT, since=4, is_fixed=True)

    network: str = setting("mlp", NETWORK, since=3, is_fixed=True)
    hidden_dim: int = setting(256, SIZE, is_fixed=True)
    num_layers: int = setting(2, SIZE, is_fixed=True)
    channels: int = setting(32, SIZE, since=3, is_fixed=True)
    separate_critic: bool = setting(False, FLAG, since=3, is_fixed=True)
    turn_boards: bool = setting(False, FLAG, since=6, is_fixed=True)
    compute_dtype: str = setting("float32", DTYPE)

    log_interval: int = setting(10, COUNT)

    save_interval_minutes: float = setting(10.0, POSITIVE)
    save_interval: int | None = setting(None, COUNT)
    keep_checkpoints: int = setting(3, COUNT)
    keep_milestones: int = setting(10, COUNT_FROM_0, since=5, before=0)
    checkpoint_dir: str = setting("checkpoints", FOLDER, is_fixed=True)

    watchdog_minutes: float = setting(20.0, POSITIVE, since=2)
    replica_check_interval: int = setting(1000, COUNT, since=2)

    eval_interval_minutes: float = setting(10.0, WEIGHT, since=4, before=0.0)
    eval_games: int = setting(256, GAMES, since=4)
    eval_episodes: int = setting(256, GAMES_FROM_0, since=2)

    run_name: str | None = setting(None, RUN_NAME)
    run_suffix: str | None = setting(None, NAME, is_fixed=True)
    resume: str | None = setting(None, TEXT)

    wandb: bool = setting(False, FLAG)
    rewind: bool = setting(False, FLAG)
    project: str = setting("hackmatrix", TEXT)
    entity: str | None = setting(None, TEXT)
    no_artifact: bool = setting(False, FLAG)

    def settings(self) -> dict[str, Any]:
        """Returns the values of all settings by name."""
        return {name: getattr(self, name) for name in declared(type(self))}

    @property
    def batch_size(self) -> int:
        """The samples of an update."""
        return self.num_envs * self.num_steps

    @property
    def minibatch_size(self) -> int:
        return self.batch_size // self.num_minibatches

    def last_step(self, step: int) -> int:
        """Returns the step at which a run that has done `step` steps ends. They may have been taken
        in batches of other sizes.
        """
        left = max(self.total_timesteps - step, 0) // self.batch_size
        return step + left * self.batch_size

    @property
    def num_updates(self) -> int:
        return max(1, self.total_timesteps // self.batch_size)

    @property
    def extra_updates(self) -> float:
        """Always 0 here: only a run's schedule knows the value, see runs/schedule.py."""
        return 0.0

    @property
    def ent_coef_at_end(self) -> float:
        """The weight of the entropy at the end of the run: constant unless ent_coef_end is set."""
        return self.ent_coef if self.ent_coef_end is None else self.ent_coef_end

    @property
    def starts_from_another(self) -> bool:
        """Whether the network begins with the parameters of another policy."""
        return self.start_from is not None

    @property
    def gradient_steps(self) -> int:
        """The gradient steps of an update."""
        return self.num_minibatches * self.update_epochs

    @property
    def groups(self) -> int:
        """The number of groups that the environments form, which does not depend on the devices."""
        return autoscale.groups(self.num_envs)

    @property
    def group_envs(self) -> int:
        """The environments of a group."""
        return self.num_envs // self.groups


_type_hints = functools.cache(get_type_hints)  # uncached, they take most of the time of `resolve`


def declared(kind: type[Config]) -> dict[str, Setting]:
    """Returns the settings of a configuration class, in the order of their declaration."""
    hints = _type_hints(kind)  # type: ignore[arg-type] # a class has a hash, too
    return {
        each.name: Setting(_plain(hints[each.name]), *each.metadata[_DECLARATION])
        for each in fields(kind)
        if _DECLARATION in each.metadata
    }


def _plain(hint: Any) -> type:
    """Returns a type hint without None: `int` for `int | None`."""
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [each for each in get_args(hint) if each is not types.NoneType]
        hint = kinds[0] if len(kinds) == 1 else hint
    return hint
