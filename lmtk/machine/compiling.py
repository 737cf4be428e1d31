"""A kernel's machine code, by numba, which is imported with this module. See `jit`, which loads and calls it."""

from contextlib import suppress
from types import FunctionType, NoneType

import numba
import numpy as np
from numba import carray, types
from numba.extending import intrinsic
from numpy.lib.stride_tricks import as_strided

from lmtk.machine.images import address_of
from lmtk.machine.objects import llvmlite


def dispatcher_of(function, settings):
    """The function as numba's, with the kernels that it calls."""
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        if found := getattr(scope.get(name), "in_numba", None):
            scope[name] = found()
    own = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    return numba.njit(**settings)(own)


def cached_dispatcher_of(function, settings, folder):
    """The same with numba's own cache in a folder, or with none. It does not see changes in other modules."""
    if folder:
        numba.config.CACHE_DIR = str(folder)
    return dispatcher_of(function, settings | {"cache": folder is not None})


def compiled(kernel, kinds):
    """(image, results, machine code) of a function around a kernel: it takes the values of `jit.kinds_of` and the
    address of the results, and returns 1 if all went well. image: as `image_of` has it, or the symbol of an object
    file. results: how Python's struct reads them, a text, or for a tuple a list of one text.
    """
    results = []
    scope = {"carray": carray, "as_strided": as_strided, "pointer_to": pointer_to, "int64": np.int64}
    scope |= {"kernel": kernel.in_numba(), "put": put_to(results), "HEAD": object.__basicsize__}
    lines, parameters = [], []
    arguments = ", ".join(argument(kind, lines, parameters, scope) for kind in kinds)
    names = ", ".join([*(f"x{i}" for i in range(len(parameters))), "out"])
    lines += [f"put(out, kernel({arguments}))", "return 1"]
    exec(f"def entry({names}):\n    " + "\n    ".join(lines), scope)
    code = numba.cfunc(types.int64(*parameters, types.int64), error_model="numpy")(scope["entry"])
    made = object_file(code.inspect_llvm())
    image, bytes_of_it = image_of(made, code.native_name) or (code.native_name, made)
    return image, results[-1], bytes_of_it


def argument(kind, lines, parameters, scope):
    """How numba's code makes an argument of this kind of its parameters, whose types are appended to `parameters`."""
    x = f"x{len(parameters)}"
    if isinstance(kind, type):
        if kind is NoneType:
            return "None"
        if kind is bytes:
            parameters += types.int64, types.int64
            scope["uint8"] = np.uint8
            return f"carray(pointer_to({x}, uint8), x{len(parameters) - 1})"
        parameters.append(numba.from_dtype(np.dtype(kind)))
        return x
    if not isinstance(kind[0], np.dtype):
        return f"({''.join(argument(inner, lines, parameters, scope) + ', ' for inner in kind)})"
    parameters.append(types.int64)
    dtype, n, contiguous = kind
    scope[f"{x}_dtype"] = dtype
    # numpy's PyArrayObject: where the data are, the number of dimensions, where they and the strides are
    lines.append(f"{x}_fields = carray(pointer_to({x} + HEAD, int64), 4)")
    lines += [f"{x}_{name} = carray(pointer_to({x}_fields[{at}], int64), {n})" for name, at in (("n", 2), ("step", 3))]
    shape, steps = (f"({''.join(f'{x}_{name}[{i}], ' for i in range(n))})" for name in ("n", "step"))
    array = f"carray(pointer_to({x}_fields[0], {x}_dtype), {shape})"
    return array if contiguous else f"as_strided({array}, {shape}, {steps})"


@intrinsic
def pointer_to(typing, address, kind):
    """pointer_to(address, np.int32), of which numba's carray makes an array."""

    def build(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(kind.dtype)(address, kind), build


def put_to(found):
    """For kernels: put(address, results), which writes a number, or each of a tuple, in 8 bytes. Its compilation
    appends to `found` how they are read.
    """

    @intrinsic
    def put(typing, address, result):
        kinds = result.types if isinstance(result, types.BaseTuple) else [result] if result is not types.none else []
        read = "".join(map(form, kinds))
        found.append(read if [*kinds] == [result] else [read])

        def build(context, builder, signature, arguments):
            at = builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(types.int64)))
            for i, kind in enumerate(kinds):
                value = builder.extract_value(arguments[1], i) if kind is not result else arguments[1]
                wide = context.cast(builder, value, kind, types.float64 if form(kind) == "d" else types.int64)
                wide = builder.bitcast(wide, context.get_value_type(types.int64))
                builder.store(wide, builder.gep(at, [context.get_constant(types.int64, i)]))
            return context.get_dummy_value()

        return types.void(types.int64, result), build

    return put


def form(kind):
    """How Python's struct reads 8 bytes with a number of numba's type `kind`."""
    for some, letters in ((types.Boolean, "?7x"), (types.Float, "d"), (types.Integer, "q")):
        if isinstance(kind, some):
            return letters
    raise TypeError(f"a kernel returns {kind}, which is no number")


def object_file(text):
    """The machine code, for this processor, of a module in LLVM's language."""
    llvm = llvmlite()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="static" if target.name.startswith("x86") else "default",
        codemodel="jitdefault",
        jit=True,
    )
    return machine.emit_object(llvm.parse_assembly(text))


SECTION = np.dtype("u4, u4, u8, u8, u8, u8, u4, u4, u8, u8")  # of the format ELF: Elf64_Shdr
SECTION.names = "name", "kind", "flags", "address", "offset", "size", "link", "info", "align", "each"
SYMBOL = np.dtype([("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("value", "u8"), ("size", "u8")])
BYTE = np.dtype(np.uint8)
RELOCATION = np.dtype([("offset", "u8"), ("kind", "u4"), ("symbol", "u4"), ("addend", "i8")])
X86_64, PROGBITS, SYMTAB, RELA, NOBITS = 62, 1, 2, 4, 8
WRITE, ALLOC = 1, 2  # flags of sections
OUTSIDE, COMMON = 0, 0xFFF2  # sections of symbols that are elsewhere, and of those that the linker makes room for
ADDRESS = 1  # R_X86_64_64: eight bytes for an address
PAGE, WIDEST = 4096, 64  # bytes: what may be written or not; what a number is aligned to


def image_of(code, symbol):
    """(image, bytes) of an object file in the format ELF; None of one with other relocations than addresses,
    or with names that this process does not know.

    The image says the size of the code in memory; how much of it, `fixed`, is never written; where the entry, the
    symbol, is; and how many places, `local`, that are listed behind the code, int64, are addresses in it, to which its
    begin is added; in `outside`, for each name elsewhere, the places to which its address is added.
    """
    if int.from_bytes(code[18:20], "little") != X86_64:
        return None
    sections = np.frombuffer(
        code, SECTION, int.from_bytes(code[60:62], "little"), int.from_bytes(code[40:48], "little")
    )
    table = next(s for s in sections if s["kind"] == SYMTAB)
    symbols, names = part(code, table, SYMBOL), bytes(part(code, sections[table["link"]]))
    begins, fixed, made = placed(code, sections)
    local, outside, common, entry = [], {}, {}, None
    for s in symbols:
        if text_at(names, s["name"]) == symbol:
            entry = begins[int(s["section"])] + int(s["value"])
    for s in sections[sections["kind"] == RELA]:
        for at, kind, which, addend in part(code, s, RELOCATION).tolist() if s["info"] in begins else ():
            name, section = text_at(names, symbols[which]["name"]), int(symbols[which]["section"])
            place = begins[s["info"]] + at
            if kind != ADDRESS or (section not in begins and section not in (OUTSIDE, COMMON)):
                return None
            if section == OUTSIDE and not is_here(name):
                return None
            if section == OUTSIDE:
                outside.setdefault(name, []).append(place)
            else:
                local.append(place)
            if section == COMMON:
                if name not in common:
                    common[name] = len(made)
                    made += bytes(-(-int(symbols[which]["size"]) // WIDEST) * WIDEST)
                addend += common[name]
            elif section in begins:
                addend += begins[section] + int(symbols[which]["value"])
            made[place : place + 8] = (addend % 2**64).to_bytes(8, "little")
    about = {"size": len(made), "fixed": fixed, "entry": entry, "local": len(local), "outside": outside}
    return about, bytes(made) + np.array(local, "<i8").tobytes()


def is_here(name):
    with suppress(ValueError):
        return address_of(name) != 0
    return False


def placed(code, sections):
    """({section: where it begins}, where those that are written begin, a bytearray of them all)."""
    begins, made, fixed = {}, bytearray(), None
    flags = sections["flags"].tolist()
    for written, i in sorted((bool(f & WRITE), i) for i, f in enumerate(flags) if f & ALLOC):
        s = sections[i]
        if s["kind"] not in (PROGBITS, NOBITS):
            continue  # tables for exceptions, of which kernels have none
        if written and fixed is None:
            made += bytes(-len(made) % PAGE)
            fixed = len(made)
        made += bytes(-len(made) % max(int(s["align"]), 1))
        begins[i] = len(made)
        made += bytes(part(code, s)) if s["kind"] == PROGBITS else bytes(int(s["size"]))
    made += bytes(-len(made) % PAGE)
    return begins, len(made) if fixed is None else fixed, made


def part(code, section, kind=BYTE):
    """What a section holds."""
    return np.frombuffer(code, kind, int(section["size"]) // kind.itemsize, int(section["offset"]))


def text_at(names, at):
    return names[at : names.index(b"\0", at)].decode()
