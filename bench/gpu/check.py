"""Runs exported kernels on a GPU: results against a 64-bit reference on poisoned outputs, and times against cuBLAS.

    cargo run -p tilewright-tests --example export > kernels.json
    python3 bench/gpu/check.py kernels.json [out.txt]

Needs torch and cuda-python (cuda.bindings). Sizes include ones that no tile divides.
"""
import ctypes
import json
import re
import sys

import torch
from cuda.bindings import driver, nvrtc

TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32, "i8": torch.int8}
SIZES = [(256, 256, 128), (64, 2048, 64), (512, 384, 256), (100, 77, 33), (129, 257, 65), (1, 1, 1), (1000, 1000, 1000)]
TIMED = [(2048, 2048, 256), (4096, 4096, 4096), (8192, 8192, 8192)]
out = open(sys.argv[2], "w") if len(sys.argv) > 2 else None


def say(text):
    print(text, flush=True)
    if out:
        out.write(text + "\n")
        out.flush()


def must(result):
    code, *rest = result
    if int(code) != 0:
        raise RuntimeError(str(code))
    return rest[0] if rest else None


def value(text, symbols):
    """`3*ceil(M/128)` and the like."""
    times, _, rest = text.rpartition("*")
    match = re.fullmatch(r"ceil\((\w+)/(\d+)\)", rest)
    if match:
        n = -(-symbols[match[1]] // int(match[2]))
    else:
        n = symbols[rest] if rest in symbols else int(rest)
    return n * int(times or 1)


def compile_(variant):
    major, minor = torch.cuda.get_device_capability()
    arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    program = must(nvrtc.nvrtcCreateProgram(variant["source"].encode(), b"k.cu", 0, [], []))
    options = [f"--gpu-architecture={arch}".encode(), b"--fmad=false", b"--std=c++17", b"--ptxas-options=-v"]
    code = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
    size = must(nvrtc.nvrtcGetProgramLogSize(program))
    log = b" " * size
    must(nvrtc.nvrtcGetProgramLog(program, log))
    if int(code) != 0:
        raise RuntimeError(log.decode())
    size = must(nvrtc.nvrtcGetCUBINSize(program))
    cubin = b" " * size
    must(nvrtc.nvrtcGetCUBIN(program, cubin))
    registers = re.search(r"Used (\d+) registers", log.decode())
    spills = re.search(r"(\d+) bytes spill stores", log.decode())
    module = must(driver.cuModuleLoadData(cubin))
    function = must(driver.cuModuleGetFunction(module, variant["entry"].encode()))
    dynamic = variant["shared"] if variant["shared"] > 48 * 1024 else 0
    if dynamic:
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        must(driver.cuFuncSetAttribute(function, attribute, dynamic))
    return function, dynamic, registers and registers[1], spills and spills[1]


def operands(variant, m, n, k, pad=0):
    """Random tensors for the pointers, laid out as the strides say, and the value of every symbol."""
    symbols = {"M": m, "N": n, "K": k}
    tensors = {}
    for p in variant["params"]:
        if p["kind"] != "pointer":
            continue
        shape = [value(s, symbols) for s in p["shape"]]
        major = p["stride"].index("1")
        ld = shape[major] + pad
        for stride in p["stride"]:
            if stride != "1":
                symbols[stride] = ld
        dtype = TYPES[p["elem"]]
        other = shape[1 - major]
        if dtype.is_floating_point:
            flat = torch.randn(other, ld, device="cuda", dtype=torch.float32).to(dtype)
        else:
            flat = torch.randint(-9, 9, (other, ld), device="cuda", dtype=dtype)
        tensors[p["name"]] = flat[:, : shape[major]] if major == 1 else flat[:, : shape[major]].T
        tensors[p["name"] + ".flat"] = flat
    return symbols, tensors


def holds(variant, symbols, tensors):
    pointers = [p for p in variant["params"] if p["kind"] == "pointer"]
    for need in variant["needs"]:
        if "divisor" in need and value(need["of"], symbols) % need["divisor"]:
            return False
        if "bytes" in need and tensors[pointers[need["param"]]["name"] + ".flat"].data_ptr() % need["bytes"]:
            return False
    return True


def tensor_map(p, variant, symbols, tensors):
    pointer = variant["params"][p["tensor"]]
    flat = tensors[pointer["name"] + ".flat"]
    dims = [value(pointer["shape"][mode], symbols) for mode in p["modes"]]
    strides = [value(pointer["stride"][mode], symbols) * flat.element_size() for mode in p["modes"][1:]]
    swizzle = {
        0: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
        32: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_32B,
        64: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_64B,
        128: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
    }[p["swizzle"]]
    return must(
        driver.cuTensorMapEncodeTiled(
            driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            len(dims),
            flat.data_ptr(),
            [driver.cuuint64_t(d) for d in dims],
            [driver.cuuint64_t(s) for s in strides],
            [driver.cuuint32_t(t) for t in p["tile"]],
            [driver.cuuint32_t(1) for _ in dims],
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )


def launcher(variant, compiled, symbols, tensors, scalars):
    function, dynamic, _, _ = compiled
    holders, addresses = [], []
    for p in variant["params"]:
        if p["kind"] == "pointer":
            held = ctypes.c_void_p(tensors[p["name"] + ".flat"].data_ptr())
        elif p["kind"] == "int":
            held = (ctypes.c_longlong if p["wide"] else ctypes.c_int)(symbols[p["symbol"]])
        elif p["kind"] == "scalar":
            held = (ctypes.c_double if p["elem"] == "f64" else ctypes.c_float)(scalars[p["name"]])
        else:
            held = tensor_map(p, variant, symbols, tensors)
            holders.append(held)
            addresses.append(int(held.getPtr()))
            continue
        holders.append(held)
        addresses.append(ctypes.addressof(held))
    array = (ctypes.c_void_p * len(addresses))(*addresses)
    grid = []
    for axis in variant["grid"]:
        n = 1
        for factor in axis:
            n *= value(factor, symbols)
        grid.append(n)
    stream = torch.cuda.current_stream().cuda_stream

    def launch():
        must(driver.cuLaunchKernel(function, *grid, variant["threads"], 1, 1, dynamic, stream, ctypes.addressof(array), 0))

    launch.keep = (holders, array)
    return launch


def check(kernel):
    for number, variant in enumerate(kernel["variants"]):
        compiled = compile_(variant)
        worst, ran = 0.0, 0
        for m, n, k in SIZES:
            symbols, tensors = operands(variant, m, n, k, pad=8 if number else 0)
            if not holds(variant, symbols, tensors):
                continue
            if "x" in tensors:
                tensors["y.flat"].fill_(float("nan"))
                launcher(variant, compiled, symbols, tensors, {})()
                torch.cuda.synchronize()
                expected = torch.softmax(tensors["x"].double(), dim=1)
                worst = max(worst, ((tensors["y"].double() - expected).norm() / expected.norm()).item())
                ran += 1
                continue
            a, b, c = tensors["a"], tensors["b"], tensors["c"]
            scalars, before = {"alpha": 1.5, "beta": -0.5}, c.double().clone()
            product = a.double() @ b.double().T
            beta = any(p["kind"] == "scalar" for p in variant["params"])
            expected = 1.5 * product - 0.5 * before if beta else product
            if not beta:
                tensors["c.flat"].fill_(float("nan") if c.dtype.is_floating_point else -777)
            launcher(variant, compiled, symbols, tensors, scalars)()
            torch.cuda.synchronize()
            error = ((c.double() - expected).norm() / expected.norm().clamp(min=1e-30)).item()
            worst = max(worst, error) if error == error else float("nan")
            ran += 1
            if worst != worst:
                break
        spills = compiled[3]
        say(f"{kernel['name']:40} variant {number}: {ran} sizes, worst error {worst:.2e}, {compiled[2]} registers, {spills} bytes spilled")


def median(launches, repeat):
    times = [[] for _ in launches]
    for _ in range(repeat):
        for at, launch in enumerate(launches):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            launch()
            end.record()
            end.synchronize()
            times[at].append(start.elapsed_time(end))
    return [sorted(t)[len(t) // 2] for t in times]


def time(kernels):
    torch.backends.cuda.matmul.allow_tf32 = False
    for m, n, k in TIMED:
        names, launches, keep = ["cuBLAS f32"], [], []
        x, y = torch.randn(k, m, device="cuda"), torch.randn(k, n, device="cuda")
        result = torch.empty(n, m, device="cuda")
        launches.append(lambda: torch.matmul(y.T, x, out=result))
        for kernel in kernels:
            if kernel["name"] == "softmax" or m > 4096 and kernel["name"] in ("naive", "coalesced", "shared_tile"):
                continue
            for variant in kernel["variants"]:
                if any(p.get("elem") in ("f64", "i32", "f16", "i8") for p in variant["params"]):
                    continue
                symbols, tensors = operands(variant, m, n, k)
                if holds(variant, symbols, tensors):
                    break
            else:
                continue
            names.append(kernel["name"])
            launches.append(launcher(variant, compile_(variant), symbols, tensors, {"alpha": 1.0, "beta": 0.0}))
            keep.append(tensors)
        for launch in launches:
            launch()
        repeat = 15 if m * n * k < 1 << 33 else 7
        times = median(launches, repeat)
        for name, ms in zip(names, times):
            say(f"{m}x{n}x{k} {name:40} {ms:9.3f} ms {2e-9 * m * n * k / ms:8.2f} TFLOP/s, {times[0] / ms:5.2f} of cuBLAS f32")


if __name__ == "__main__":
    torch.zeros(1, device="cuda")  # makes the context that kernels are loaded into
    say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    kernels = json.load(open(sys.argv[1]))
    for kernel in kernels:
        try:
            check(kernel)
        except Exception as error:  # one broken kernel must not hide the others
            say(f"{kernel['name']}: {error}")
    time(kernels)
