"""A transformer with one token for each cell of the board and one for the player."""

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
_MLP_RATIO = 2  # the hidden layer of a block's MLP, in multiples of `channels`


class Cells(Torso):
    """`num_layers` pre-norm transformer blocks over tokens of width `channels`. Each cell has a
    token, with a learned position embedding; the player's token embeds the rest of the observation.
    A dense layer of width `hidden_dim` reads the player's token, the token of the player's cell and
    the mean of all tokens.
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
        embed_cells = Dense(spec.channels, 1, spec.compute_dtype, name="embed_cells")
        embed_player = Dense(spec.channels, 1, spec.compute_dtype, name="embed_player")
        cells = _flat_cells(embed_cells(parts["cells"], plane))
        cells = cells + places.astype(cells.dtype)
        tokens = jnp.concatenate([embed_player(numbers)[..., None, :], cells], axis=-2)
        for number in range(spec.num_layers):
            tokens = Block(spec.channels, spec.compute_dtype, name=f"Block_{number}")(tokens)
        tokens = Norm(name="norm")(tokens)
        player_cell = (tokens[..., 1:, :] * _flat_cells(plane)).sum(-2)
        read = Dense(spec.hidden_dim, math.sqrt(2), spec.compute_dtype, name="read")
        return nn.relu(read(tokens[..., 0, :], player_cell, tokens.mean(-2)))


class Block(nn.Module):
    """Self-attention, then an MLP on each token; both are residual."""

    channels: int
    compute_dtype: str

    @nn.compact
    def __call__(self, tokens: Array) -> Array:
        """Maps tokens [..., tokens, channels] to the same shape."""
        tokens = tokens + self._attend(Norm(name="norm_0")(tokens))
        wide = self._dense(_MLP_RATIO * self.channels, math.sqrt(2), "wide")(
            Norm(name="norm_1")(tokens)
        )
        return tokens + self._dense(self.channels, 0.1, "narrow")(nn.relu(wide))

    def _attend(self, tokens: Array) -> Array:
        heads = self.channels // HEAD_WIDTH
        qkv = self._dense(3 * self.channels, 1, "asked")(tokens)
        query, key, value = (
            part.reshape(*part.shape[:-1], heads, HEAD_WIDTH) for part in jnp.split(qkv, 3, axis=-1)
        )
        scores = jnp.einsum("...qhd,...khd->...hqk", query, key) / math.sqrt(HEAD_WIDTH)
        weights = nn.softmax(scores.astype(jnp.float32)).astype(value.dtype)
        attended = jnp.einsum("...hqk,...khd->...qhd", weights, value)
        return self._dense(self.channels, 0.1, "answered")(
            attended.reshape(*attended.shape[:-2], self.channels)
        )

    def _dense(self, width: int, scale: float, name: str) -> Dense:
        return Dense(width, scale, self.compute_dtype, name=name)


class Norm(nn.Module):
    """Layer normalisation, in float32."""

    @nn.compact
    def __call__(self, tokens: Array) -> Array:
        """Normalises tokens [..., channels] of any float type; returns f32[..., channels]."""
        width = (tokens.shape[-1],)
        scale = self.param("scale", nn.initializers.ones, width)
        shift = self.param("shift", nn.initializers.zeros, width)
        tokens = tokens.astype(jnp.float32)
        centred = tokens - tokens.mean(-1, keepdims=True)
        variance = jnp.square(centred).mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-6) * scale + shift


def _flat_cells(grid: Array) -> Array:
    """Reshapes [..., rows, columns, N] to [..., cells, N]."""
    *boards, rows, columns, features = grid.shape
    return grid.reshape(*boards, rows * columns, features)
