"""Repeats recorded runs of the tests on a GPU, and compares the results.

    TILEWRIGHT_RECORD=$PWD/target/runs.jsonl cargo test -p tilewright-codegen
    python3 bench/gpu/replay.py target/runs.jsonl

Needs torch and cuda-python (cuda.bindings).
"""
import collections
import ctypes
import json
import sys

import torch
from cuda.bindings import driver, nvrtc

TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32, "i8": torch.int8, "u8": torch.uint8}
WITHIN = {"f64": 1e-6, "f32": 1e-4, "f16": 2e-2, "bf16": 5e-2}
SCALARS = {"f64": ctypes.c_double, "f32": ctypes.c_float, "i32": ctypes.c_int32, "u32": ctypes.c_uint32}


def must(result):
    code, *rest = result
    if int(code) != 0:
        raise RuntimeError(str(code))
    return rest[0] if rest else None


def compiled(source, entry, shared):
    major, minor = torch.cuda.get_device_capability()
    arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    program = must(nvrtc.nvrtcCreateProgram(source.encode(), b"k.cu", 0, [], []))
    options = [f"--gpu-architecture={arch}".encode(), b"--fmad=false", b"--std=c++17"]
    code = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
    if int(code) != 0:
        log = b" " * must(nvrtc.nvrtcGetProgramLogSize(program))
        must(nvrtc.nvrtcGetProgramLog(program, log))
        raise RuntimeError(log.decode())
    cubin = b" " * must(nvrtc.nvrtcGetCUBINSize(program))
    must(nvrtc.nvrtcGetCUBIN(program, cubin))
    function = must(driver.cuModuleGetFunction(must(driver.cuModuleLoadData(cubin)), entry.encode()))
    dynamic = shared if shared > 48 * 1024 else 0
    if dynamic:
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        must(driver.cuFuncSetAttribute(function, attribute, dynamic))
    return function, dynamic


def aligned(run, tensors):
    """Facts about addresses are not recorded: torch's allocations are aligned to 512 bytes."""
    return all(t.data_ptr() % 16 == 0 for t in tensors)


torch.cuda.init()
torch.zeros(1, device="cuda")
known, failed, count = {}, collections.Counter(), 0
for line in open(sys.argv[1]):
    run = json.loads(line)
    key = run["source"]
    if key not in known:
        known[key] = compiled(run["source"], run["entry"], run["shared"])
    function, dynamic = known[key]
    values, types, checks, tensors = [], [], [], []
    for p in run["params"]:
        if "elem" in p:
            tensor = torch.tensor(p["given"], dtype=torch.float64).nan_to_num(77.0).to(TYPES[p["elem"]]).cuda()
            tensors.append(tensor)
            values.append(tensor.data_ptr())
            types.append(ctypes.c_void_p)
            if p["wanted"] is not None:
                checks.append((tensor, p["wanted"], p["elem"]))
        elif "scalar" in p:
            kind = SCALARS[p["scalar"]]
            values.append(p["given"][0] if kind in (ctypes.c_double, ctypes.c_float) else int(p["given"][0]))
            types.append(kind)
        else:
            values.append(p["int"])
            types.append(ctypes.c_int64 if p["wide"] else ctypes.c_int32)
    assert aligned(run, tensors)
    must(driver.cuLaunchKernel(function, *run["grid"], run["threads"], 1, 1, dynamic, 0, (tuple(values), tuple(types)), 0))
    torch.cuda.synchronize()
    count += 1
    for tensor, wanted, elem in checks:
        got = tensor.cpu().to(torch.float64)
        wanted = torch.tensor(wanted, dtype=torch.float64).nan_to_num(77.0)
        near = (got - wanted).abs() <= WITHIN.get(elem, 0) * (1 + wanted.abs())
        same = near | (got == wanted)
        if not bool(same.all()):
            at = int((~same).nonzero()[0])
            failed[run["entry"]] += 1
            if failed[run["entry"]] < 4:
                print(f"{run['entry']}, {run['threads']} threads, {elem}: element {at} is {got[at]}, not {wanted[at]}")
print(f"{count} runs of {len(known)} kernels, {sum(failed.values())} wrong")
sys.exit(bool(failed))
