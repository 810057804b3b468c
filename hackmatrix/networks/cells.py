"""Attention: every cell of the board is a token, and the player is one more."""

from __future__ import annotations

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from hackmatrix.networks import Spec, board
from hackmatrix.networks.dense import Dense
from hackmatrix.networks.torso import Parts, Shapes, Torso

Array = jax.Array
HEAD_WIDTH = 16
_WIDER = 2  # the inner layer of a block


class Cells(Torso):
    """Tokens of `channels` numbers: one for each cell, of what is seen of it and of its place, and
    one for what is seen besides the board. `num_layers` blocks of attention and a dense layer add
    to them. A dense layer of `hidden_dim` reads the player's token, the token of its cell, and the
    mean of all.
    """

    samples_at_once = 128

    @classmethod
    def refuses(cls, spec: Spec, observation: Shapes) -> str | None:
        if spec.channels % HEAD_WIDTH:
            return f"channels={spec.channels} must be a multiple of {HEAD_WIDTH}"
        return board.refuses(observation)

    @nn.compact
    def __call__(self, parts: Parts) -> Array:
        spec = self.spec
        plane, numbers = board.player_plane(parts), board.numbers(parts)
        rows, columns = plane.shape[-3:-1]
        places = self.param(
            "places", nn.initializers.normal(0.1), (rows * columns, spec.channels), jnp.float32
        )
        of_cells = Dense(spec.channels, 1, spec.compute_dtype, name="embed_cells")
        of_player = Dense(spec.channels, 1, spec.compute_dtype, name="embed_player")
        cells = _in_a_row(of_cells(parts["cells"], plane))
        cells = cells + places.astype(cells.dtype)
        tokens = jnp.concatenate([of_player(numbers)[..., None, :], cells], axis=-2)
        for number in range(spec.num_layers):
            tokens = Block(spec.channels, spec.compute_dtype, name=f"Block_{number}")(tokens)
        tokens = Norm(name="norm")(tokens)
        here = (tokens[..., 1:, :] * _in_a_row(plane)).sum(-2)
        read = Dense(spec.hidden_dim, math.sqrt(2), spec.compute_dtype, name="read")
        return nn.relu(read(tokens[..., 0, :], here, tokens.mean(-2)))


class Block(nn.Module):
    """Attention among the tokens, then a dense layer of each; both add to what was there."""

    channels: int
    compute_dtype: str

    @nn.compact
    def __call__(self, tokens: Array) -> Array:
        """[..., tokens, channels] of the same."""
        tokens = tokens + self._attend(Norm(name="norm_0")(tokens))
        wide = self._dense(_WIDER * self.channels, math.sqrt(2), "wide")(
            Norm(name="norm_1")(tokens)
        )
        return tokens + self._dense(self.channels, 0.1, "narrow")(nn.relu(wide))

    def _attend(self, tokens: Array) -> Array:
        heads = self.channels // HEAD_WIDTH
        asked = self._dense(3 * self.channels, 1, "asked")(tokens)
        query, key, value = (
            part.reshape(*part.shape[:-1], heads, HEAD_WIDTH)
            for part in jnp.split(asked, 3, axis=-1)
        )
        scores = jnp.einsum("...qhd,...khd->...hqk", query, key) / math.sqrt(HEAD_WIDTH)
        weights = nn.softmax(scores.astype(jnp.float32)).astype(value.dtype)
        answers = jnp.einsum("...hqk,...khd->...qhd", weights, value)
        return self._dense(self.channels, 0.1, "answered")(
            answers.reshape(*answers.shape[:-2], self.channels)
        )

    def _dense(self, width: int, scale: float, name: str) -> Dense:
        return Dense(width, scale, self.compute_dtype, name=name)


class Norm(nn.Module):
    """Layer normalisation, in float32."""

    @nn.compact
    def __call__(self, tokens: Array) -> Array:
        """f32[..., channels] of the same in any type."""
        width = (tokens.shape[-1],)
        scale = self.param("scale", nn.initializers.ones, width)
        shift = self.param("shift", nn.initializers.zeros, width)
        tokens = tokens.astype(jnp.float32)
        centred = tokens - tokens.mean(-1, keepdims=True)
        variance = jnp.square(centred).mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-6) * scale + shift


def _in_a_row(grid: Array) -> Array:
    """[..., cells, N] of [..., rows, columns, N]."""
    return grid.reshape(*grid.shape[:-3], -1, grid.shape[-1])
