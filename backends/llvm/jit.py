"""LLVM text as a function in this process."""

from __future__ import annotations

import ctypes
import itertools
import weakref
from functools import cache
from typing import TYPE_CHECKING, Any

from .cache import kept, key

if TYPE_CHECKING:
    from collections.abc import Callable

    from .target import Processor

_numbers = itertools.count()
# Level 3 gives the same speed within what can be measured, and takes up to three times as long (a convolution).
LEVEL = 2


@cache
def _linker() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler(llvm.Target.from_default_triple().create_target_machine(jit=True))


def machine(processor: Processor) -> Any:
    """LLVM's code generator for a processor."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(processor.triple)
    return target.create_target_machine(
        cpu=processor.name, features=processor.features, opt=LEVEL, reloc="pic", codemodel="default"
    )


def optimised(source: str, processor: Processor) -> tuple[Any, Any]:
    """The module of a text after LLVM's passes, and the code generator.

    Raises:
        RuntimeError: LLVM does not take the text: a fault of the emission.
    """
    import llvmlite.binding as llvm

    generator = machine(processor)
    module = llvm.parse_assembly(source)
    module.triple, module.data_layout = processor.triple, str(generator.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=LEVEL)
    options.slp_vectorization = True
    passes = llvm.create_pass_builder(generator, options)
    passes.getModulePassManager().run(module, passes)
    return module, generator


def assembly(source: str, processor: Processor) -> str:
    """The text's instructions for a processor."""
    module, generator = optimised(source, processor)
    return generator.emit_assembly(module)


def object_name(source: str, processor: Processor) -> str:
    """The name of a text's object file in the cache."""
    return key(source, processor, LEVEL)


def object_of(source: str, processor: Processor, name: str = "") -> bytes:
    """The text as an object file, from the cache if it was compiled before. *name*: its name there, if it is known."""

    def compiled() -> bytes:
        module, generator = optimised(source, processor)
        return generator.emit_object(module)

    return kept(name or object_name(source, processor), compiled)


class Linked:
    """An object file in this process. *function*: its kernel, which takes the address of a frame, or a number;
    *release*: frees what it keeps; *addresses*: of other functions, by name."""

    def __init__(self, object_: bytes, *more: str) -> None:
        import llvmlite.binding as llvm

        builder = llvm.JITLibraryBuilder().add_object_img(object_).add_current_process()
        for name in ("kernel", "release", *more):
            builder.export_symbol(name)
        # The code lives as long as this does.
        self._library = builder.link(_linker(), f"kernel{next(_numbers)}")
        made = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
        self.function: Callable[[int], int] = made(self._library["kernel"])
        self.release: Callable[[], None] = ctypes.CFUNCTYPE(None)(self._library["release"])
        self.addresses: dict[str, int] = {name: self._library[name] for name in ("kernel", *more)}
        if not more:
            # What is kept goes while the code is still there; not that of the pool, whose threads never end.
            weakref.finalize(self, _release, self._library)


def _release(library: Any) -> None:
    ctypes.CFUNCTYPE(None)(library["release"])()
