"""Makes Triton's interpreter, in which kernels run here, a third faster."""

from collections.abc import Iterator
from functools import cache

import pytest


@pytest.fixture(scope="session", autouse=True)
def language_prepared_once() -> Iterator[None]:
    """A function called by a kernel has Triton's language patched at its first call, and not at each.

    NumPy's types are looked up by name; the interpreter would make a dictionary of them for each operation.
    """
    try:
        from triton.runtime import interpreter
    except ImportError:
        yield
        return
    patch_language = cache(interpreter._patch_lang)

    def call(function: interpreter.InterpretedFunction[object], *args: object, **kwargs: object) -> object:
        patch_language(function.fn)
        return function.rewrite()(*args, **kwargs)

    find_dtype, dtypes = interpreter._get_np_dtype, dict[str, object]()

    def dtype_of(type_: object) -> object:
        if (name := str(type_)) not in dtypes:
            dtypes[name] = find_dtype(type_)
        return dtypes[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_get_np_dtype", dtype_of)
        patch.setattr(interpreter.InterpretedFunction, "__call__", call)
        yield
