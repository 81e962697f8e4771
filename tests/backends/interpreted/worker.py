"""A process of its own that runs emitted modules in Triton's interpreter: a switch that is thrown before the import.

It reads (source, function, arguments, whether blocks are copied) from its input, and writes the outputs as arrays, or
the text of an error.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from typing import Any

import numpy as np

os.environ["TRITON_INTERPRET"] = "1"

from repairs import repair, units
from tilewright.backends.load import load_module


def serve() -> None:
    """Answer until the input ends."""
    repair()
    answers = os.fdopen(os.dup(1), "wb")
    # What a kernel prints is no answer.
    sys.stdout = sys.stderr
    while True:
        try:
            source, name, arguments, tma = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: Any
        try:
            with np.errstate(all="ignore"):
                units[0] = "require_unit(" in source
                module = load_module(source, name)
                if tma:
                    module["has_tma"] = lambda device: True
                result = module[name](**{n: _tensor(a) for n, a in arguments.items()})
            answer = [_array(t) for t in (result if isinstance(result, tuple) else (result,))]
        except Exception:
            answer = traceback.format_exc()
        pickle.dump(answer, answers)
        answers.flush()


def _tensor(value: Any) -> Any:
    """A torch tensor of an array; torch knows the narrow floats by their words only."""
    import torch

    if not isinstance(value, np.ndarray):
        return value
    special = {
        "bfloat16": (np.int16, torch.bfloat16),
        "float8_e4m3fn": (np.uint8, torch.float8_e4m3fn),
        "float8_e5m2": (np.uint8, torch.float8_e5m2),
    }
    plain = np.ascontiguousarray(value).reshape(value.shape)
    if value.dtype.name in special:
        words, kind = special[value.dtype.name]
        return torch.from_numpy(plain.view(words).copy()).view(kind)
    return torch.from_numpy(plain.copy())


def _array(tensor: Any) -> tuple[str, Any]:
    """(name of the type, words or numbers) of a tensor."""
    import torch

    words = {torch.bfloat16: torch.int16, torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}
    names = {torch.bfloat16: "bfloat16", torch.float8_e4m3fn: "float8_e4m3fn", torch.float8_e5m2: "float8_e5m2"}
    if tensor.dtype in words:
        return names[tensor.dtype], tensor.view(words[tensor.dtype]).numpy()
    return "", tensor.numpy()


serve()
