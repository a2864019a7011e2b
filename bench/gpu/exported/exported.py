"""Exported kernels on PyTorch's tensors: results, speed, torch.compile, graphs, errors.

Run beside the modules that exported.sh writes: python3 exported.py
"""

import ctypes
import os
import sys
import time as clock

import torch
import tvm_ffi

import attention_hopper
import matmul_nt
import product
import softmax


wrong = False


def time(work, repeats=50):
    work()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(repeats):
        work()
    end.record()
    torch.cuda.synchronize()
    return 1e3 * start.elapsed_time(end) / repeats


def close(name, result, expected, bound):
    global wrong
    error = ((result.double() - expected.double()).norm() / expected.double().norm()).item()
    wrong |= not error <= bound
    print("%s: error %.1e %s" % (name, error, "right" if error <= bound else "WRONG"))


def call_time(work, calls=2000):
    """Microseconds of the processor for a call, the least of some runs: each run fits the queue of launches."""
    work()
    best = float("inf")
    for _ in range(20):
        torch.cuda.synchronize()
        begin = clock.perf_counter()
        for _ in range(calls // 20):
            work()
        best = min(best, (clock.perf_counter() - begin) / (calls // 20))
    return 1e6 * best


for m, n, k in [(1024, 1024, 1024), (1000, 700, 304), (4096, 4096, 4096)]:
    a, b = torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
    c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    torch.ops.tilewright.product(a, b, c)
    close("product %dx%dx%d" % (m, n, k), c, a @ b.t(), 5e-3)
    ours, theirs = time(lambda: product.product(a, b, c)), time(lambda: torch.mm(a, b.t(), out=c))
    print("  %.1f us, PyTorch %.1f us" % (ours, theirs))
    columns = [x.float().t().contiguous().t() for x in (a, b, c)]
    matmul_nt.matmul_nt(*columns)
    close("matmul_nt", columns[2], columns[0].double() @ columns[1].double().t(), 1e-5)

x = torch.randn(4096, 1000, device="cuda")
y = torch.empty_like(x)
softmax.softmax(x, y)
close("softmax", y, torch.softmax(x, 1), 1e-5)
print("  %.1f us, PyTorch %.1f us" % (time(lambda: softmax.softmax(x, y)), time(lambda: torch.softmax(x, 1))))


@torch.compile
def layer(x):
    y = torch.empty_like(x)
    torch.ops.tilewright.softmax(x * 2, y)
    return y + 1


close("under torch.compile", layer(x), torch.softmax(x * 2, 1) + 1, 1e-5)
graph = torch.cuda.CUDAGraph()
y.zero_()
with torch.cuda.graph(graph):
    softmax.softmax(x, y)
graph.replay()
close("in a graph", y, torch.softmax(x, 1), 1e-5)

q, k, v = (torch.randn(32, 4096, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
o = torch.empty_like(q)
heads = [each.permute(1, 2, 0) for each in (q, k, v, o)]
attention_hopper.attention_hopper(*heads, 0.125)
attend = lambda: torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)
close("attention", o, attend()[0], 1e-2)
print("  %.1f us, PyTorch %.1f us" % (time(lambda: attention_hopper.attention_hopper(*heads, 0.125)), time(attend)))

small, out = torch.randn(64, 100, device="cuda"), torch.empty(64, 100, device="cuda")
parameter = torch.nn.Parameter(small)
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libsoftmax.so")
function = tvm_ffi.load_module(path)["softmax"]
print("microseconds of a call, 64 × 100:")
for name, call in [
    ("the function of TVM's FFI", lambda: function(small, out)),
    ("module", lambda: softmax.softmax(small, out)),
    ("module, a parameter", lambda: softmax.softmax(parameter, out)),
    ("operator", lambda: torch.ops.tilewright.softmax(small, out)),
    ("PyTorch", lambda: torch.softmax(small, 1, out=out)),
    ("PyTorch, with a new result", lambda: torch.softmax(small, 1)),
]:
    out.zero_()
    try:
        print("  %-28s %.2f" % (name, call_time(call)))
    except Exception as error:
        print("  %-28s %s" % (name, error))
    if "new" not in name:
        close("  " + name, out, torch.softmax(small, 1), 1e-5)
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    function(small, out.zero_())
stream.synchronize()
close("on another stream", out, torch.softmax(small, 1), 1e-5)

driver = ctypes.CDLL("libcuda.so.1")


def in_another_context(call):
    own, other = ctypes.c_void_p(), ctypes.c_void_p()
    driver.cuCtxGetCurrent(ctypes.byref(own))
    assert driver.cuCtxCreate_v2(ctypes.byref(other), 0, 0) == 0
    try:
        call()
    finally:
        driver.cuCtxSetCurrent(own)


short = torch.randn(64, 77, device="cuda")
result = torch.empty_like(short)
mistakes = [
    ("extents", lambda: softmax.softmax(x, y[:, :999])),
    ("types", lambda: softmax.softmax(x.double(), y)),
    ("strides", lambda: softmax.softmax(x.t().contiguous().t(), y)),
    ("memory", lambda: softmax.softmax(x, x)),
    ("places", lambda: softmax.softmax(x.cpu(), y.cpu())),
]
in_another_context(lambda: softmax.softmax(short, result))
close("called in another context", result, torch.softmax(short, 1), 1e-5)
if torch.cuda.device_count() > 1:
    there = torch.empty_like(x, device="cuda:1")
    mistakes.append(("devices", lambda: softmax.softmax(x, there)))
    mistakes.append(("devices of the operator", lambda: torch.ops.tilewright.softmax(x, there)))
else:
    print("devices: not tried, there is one")
for name, call in mistakes:
    try:
        call()
        print(name, "NOT REFUSED")
        wrong = True
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        print(name, type(error).__name__, error)
softmax.softmax(x, y)
close("after mistakes", y, torch.softmax(x, 1), 1e-5)
if torch.cuda.device_count() > 1:
    there = torch.empty_like(x, device="cuda:1")
    softmax.softmax(x.to("cuda:1"), there)
    close("on another device", there.to("cuda:0"), torch.softmax(x, 1), 1e-5)
sys.exit(wrong)
