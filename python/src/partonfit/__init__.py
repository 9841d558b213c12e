"""Parton distribution functions fitted with neural networks on JAX and Keras 3.

The public names are those in ``__all__``; every other module may change.
"""

import os as _os

# Keras reads its backend once, at import: everything here is written for JAX.
_os.environ.setdefault("KERAS_BACKEND", "jax")

__version__ = "0.1.0"
