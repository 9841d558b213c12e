"""Parton distribution functions fitted with neural networks on JAX and Keras 3.

The public names are those in ``__all__``; every other module may change.
"""

import os as _os
import sys as _sys

# Keras reads its backend once, at import: everything here is written for JAX.
_os.environ.setdefault("KERAS_BACKEND", "jax")
if _os.environ["KERAS_BACKEND"] != "jax" or (
    "keras" in _sys.modules and _sys.modules["keras"].backend.backend() != "jax"
):
    _message = (
        "partonfit runs Keras on JAX, but another Keras backend is chosen. Set the environment variable "
        "KERAS_BACKEND=jax, or import partonfit before keras."
    )
    raise ImportError(_message)

__version__ = "0.1.0"
