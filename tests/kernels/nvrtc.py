"""CUDA C without a GPU: compiled by NVRTC for a card, or by a C++ compiler and run on the CPU."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kernels import aot

# one thread a block: barriers have nothing to wait for, and blocks run one after another
SHIM = """
#include <math.h>
#define __global__
#define __device__ static
#define __shared__ static
#define __syncthreads()
struct Place { int x, y; };
static Place blockIdx, threadIdx = {0, 0}, blockDim = {1, 1};
static int atomicAdd(int* at, int value) { int old = *at; *at += value; return old; }
static int __float2int_rn(float value) { return (int)nearbyintf(value); }
"""


@dataclass(frozen=True)
class Usage:
    """What a kernel takes of a multiprocessor; `spilled` is its stack and its local loads and stores."""

    registers: int
    spilled: int
    shared: int


def compile_for(source: str, options: tuple[str, ...], target: int) -> Usage:
    """Compile for sm_`target` by NVRTC, from pip's nvidia-cuda-nvrtc, and read the cubin."""
    library = ctypes.CDLL(str(_library()))
    program = ctypes.c_void_p()
    made = library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    assert made == 0
    flags = [one.encode() for one in (f"--gpu-architecture=sm_{target}", *options)]
    failed = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
    log = _read(library, program, "ProgramLog").decode(errors="replace")
    assert failed == 0, log
    usage, assembly = aot.disassemble(_read(library, program, "CUBIN"))
    library.nvrtcDestroyProgram(ctypes.byref(program))
    found = {name: int(value) for name, value in re.findall(r"(REG|STACK|SHARED):(\d+)", usage)}
    spilled = found["STACK"] + len(re.findall(r"\b(?:LDL|STL)\b", assembly))
    return Usage(found["REG"], spilled, found["SHARED"])


def _read(library: Any, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    assert getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
    text = ctypes.create_string_buffer(size.value)
    assert getattr(library, f"nvrtcGet{what}")(program, text) == 0
    return text.raw


def _library() -> Path:
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [path for folder in folders for path in Path(folder).glob("**/libnvrtc.so.1*")]
    if not found:
        pytest.skip("no NVRTC: pip install nvidia-cuda-nvrtc")
    return found[0]


def on_cpu(source: str, options: tuple[str, ...], launcher: str, folder: Path) -> ctypes.CDLL:
    """Compile the kernel's own source for the CPU, with a `launcher` that runs its blocks."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler to run CUDA C on the CPU")
    file, library = folder / "kernel.cpp", folder / "kernel.so"
    file.write_text(SHIM + source + launcher)
    defines = [one for one in options if one.startswith("-D")]
    # products and sums rounded one by one, as __float2int_rn of a rounded product is
    command = [
        compiler,
        "-O1",
        "-ffp-contract=off",
        "-shared",
        "-fPIC",
        *defines,
        "-o",
        str(library),
        str(file),
    ]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ctypes.CDLL(str(library))
