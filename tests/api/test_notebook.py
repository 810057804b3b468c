"""The notebook in docs: its cells, run as plain Python in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.compiling import xla_flags

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs/from-nothing-to-a-replay.ipynb"
CELLS = [
    cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"
]
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg", "XLA_FLAGS": xla_flags(devices=1)}
# Two updates of CartPole, which compiles in seconds, have to do. The winner plays the game.
SMALL = """
from configs import cpu

def get_config():
    config = cpu.get_config()
    config.env = "gymnax:CartPole-v1"
    config.num_envs = config.num_steps = config.hidden_dim = 8
    config.num_minibatches = config.update_epochs = config.log_interval = 1
    config.total_timesteps = 2 * 8 * 8
    return config
"""
AT_THE_END = """
assert run.metrics["step"].tolist() == [64, 128]
assert list(results.players) == ["agent", "agent_greedy", "random"]
assert "winner" in repr(game) and game.turns > 9
assert mine.config.network == "__main__:Normed"
"""


def test_every_cell_of_the_notebook_works(tmp_path: Path) -> None:
    (parameters,) = (cell for cell in CELLS if "parameters" in cell["metadata"].get("tags", []))
    names = "".join(parameters["source"]).partition(" = ")[0]
    (tmp_path / "small.py").write_text(SMALL)
    cells = [
        f"{names} = 'small.py', 1.0, 4" if cell is parameters else "".join(cell["source"])
        for cell in CELLS
    ]
    (tmp_path / "cells.py").write_text("\n".join([*cells, AT_THE_END]))
    done = subprocess.run(
        [sys.executable, "cells.py"],
        cwd=tmp_path,
        env={**os.environ, **ENVIRONMENT},
        text=True,
        timeout=400,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "<script" in (tmp_path / "game.html").read_text("utf-8")


def test_the_outputs_in_the_notebook_are_text_and_the_notebook_is_small() -> None:
    outputs = [output for cell in CELLS for output in cell["outputs"]]
    assert all(output["output_type"] == "stream" for output in outputs)
    assert NOTEBOOK.stat().st_size < 30_000
