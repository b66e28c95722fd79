# SPDX-License-Identifier: MIT
"""The built-in filters by name: gconv.kernels.gaussian(size=9, sigma=2).

Each function has the parameters and defaults that `gconv filters` lists. It returns a gconv.Filter, or gconv.Filters if the
name stands for several, such as "sobel", which stands for two derivatives. A default may depend on other parameters: for
gaussian(sigma=...), size is 2 * ceil(3 * sigma) + 1.
"""
import inspect
import keyword

from . import _core
from ._filters import Filters, read_filters

__all__ = []


def _text(value):
    """Returns the text of a parameter as the program takes it: (5, 3) is 5x3."""
    if isinstance(value, (tuple, list)):
        return "x".join(_text(one) for one in value)
    return repr(float(value)) if isinstance(value, float) else str(value)


def _make(name, parameters, help_text):
    defaults = dict(pair.split("=") for pair in parameters.split(",")) if parameters else {}
    # a parameter named like a keyword of Python gets an underscore: lambda_
    words = {key + "_" if keyword.iskeyword(key) else key: key for key in defaults}

    def make(*values, **named):
        given = signature.bind_partial(*values, **named).arguments
        text = ",".join(f"{words[key]}={_text(value)}" for key, value in given.items() if value is not None)
        filters = read_filters(f"{name}:{text}")  # the colon makes sure that the text is not taken for the name of a file
        return filters[0] if len(filters) == 1 else Filters(filters, filters.gradient)

    signature = inspect.Signature([inspect.Parameter(word, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
                                   for word in words])
    make.__signature__ = signature
    make.__name__ = make.__qualname__ = name
    listed = ", ".join(f"{word}={defaults[key]}" for word, key in words.items()) or "none"
    make.__doc__ = f"{help_text}\n\nParameters: {listed}."
    return make


for _name, _parameters, _help, _ in _core.builtins():
    globals()[_name] = _make(_name, _parameters, _help)
    __all__.append(_name)
