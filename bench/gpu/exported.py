"""Exported kernels on PyTorch's tensors: results, speed, torch.compile, graphs, errors.

Run beside the modules that exported.sh writes: python3 exported.py
"""

import torch

import matmul_nt
import product
import softmax


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
    error = ((result.double() - expected.double()).norm() / expected.double().norm()).item()
    print("%s: error %.1e %s" % (name, error, "right" if error <= bound else "WRONG"))


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

for name, call in [
    ("extents", lambda: softmax.softmax(x, y[:, :999])),
    ("types", lambda: softmax.softmax(x.double(), y)),
    ("strides", lambda: softmax.softmax(x.t().contiguous().t(), y)),
    ("memory", lambda: softmax.softmax(x, x)),
    ("places", lambda: softmax.softmax(x.cpu(), y.cpu())),
]:
    try:
        call()
        print(name, "NOT REFUSED")
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        print(name, type(error).__name__, error)
