"""PyTorch's times for the works of `tilewright-bench memory`: JSON on standard output.

Device time by CUDA graphs, medians, rotating data that exceed the cache; a copy of as many bytes in the same run.
"""
import json
import statistics
import sys

import torch
import torch.nn.functional as F

ROWS = [(16384, 8192), (65536, 128), (64, 262144), (4096, 4097)]
CACHE = 3 * torch.cuda.get_device_properties(0).L2_cache_size


def seconds(run, sets):
    """The median of a launch's time, from graphs that go through all sets."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for one in sets:
            run(*one)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for one in sets:
            run(*one)
    times = []
    for _ in range(7):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        graph.replay()
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e-3 / len(sets))
    return statistics.median(times)


def works():
    """Name, element type, size, bytes, input generator, function to time."""
    for dtype in (torch.float32, torch.bfloat16):
        size = dtype.itemsize

        def matrix(m, n, dtype=dtype):
            return torch.randn(m, n, device="cuda", dtype=dtype)

        for m, n in [(16384, 8192), (4096, 4097)]:
            make = lambda m=m, n=n: (matrix(m, n), matrix(n, m))
            yield "transpose", dtype, (m, n), 2 * m * n * size, make, lambda x, y: y.copy_(x.t())
        for m, n in ROWS:
            one = lambda m=m, n=n: (matrix(m, n),)
            more = lambda m=m, n=n: (matrix(m, n), matrix(1, n)[0], matrix(1, n)[0])
            yield "softmax", dtype, (m, n), 2 * m * n * size, one, lambda x: torch.softmax(x, 1)
            yield "layernorm", dtype, (m, n), 2 * m * n * size, more, lambda x, w, b: F.layer_norm(x, w.shape, w, b)
            yield "rmsnorm", dtype, (m, n), 2 * m * n * size, more, lambda x, w, b: F.rms_norm(x, w.shape, w, 1e-5)
            yield "row_sums", dtype, (m, n), m * n * size, one, lambda x: x.sum(1)
        for m, n in [(16384, 8192), (65536, 128)]:
            one = lambda m=m, n=n: (matrix(m, n),)
            yield "column_sums", dtype, (m, n), m * n * size, one, lambda x: x.sum(0)
        one = lambda: (matrix(16384, 8192),)
        yield "sum", dtype, (16384, 8192), (1 << 27) * size, one, lambda x: x.sum()
        for m, n in [(4096, 4096), (28672, 8192)]:
            make = lambda m=m, n=n: (matrix(m, n), matrix(n, 1)[:, 0])
            yield "gemv", dtype, (m, n), (m * n + m + n) * size, make, lambda a, x: torch.mv(a, x)
    for m, n in [(16384, 8192), (64, 262144), (1, 1 << 27)]:
        one = lambda m=m, n=n: (torch.randn(m, n, device="cuda"),)
        yield "cumulative_sums", torch.float32, (m, n), 8 * m * n, one, lambda x: torch.cumsum(x, 1)
    make = lambda: (torch.randn(131072, 1024, device="cuda"), torch.randperm(131072, device="cuda")[:32768])
    yield "gather", torch.float32, (32768, 1024), 8 * 32768 * 1024, make, lambda x, at: x[at]
    for name, below in [("histogram", 256), ("histogram_of_equal", 1)]:
        make = lambda below=below: (torch.randint(below, (1 << 26,), device="cuda", dtype=torch.int32),)
        yield name, torch.int32, (2048, 32768), 4 << 26, make, lambda x: torch.histc(x, 256, 0, 255)


def main():
    wanted = sys.argv[1:]
    results = []
    for name, dtype, size, moved, make, run in works():
        if wanted and name not in wanted:
            continue
        count = max(2, min(16, -(-CACHE // moved)))
        taken = seconds(run, [make() for _ in range(count)])
        half = moved // 2
        copies = [[torch.empty(half, dtype=torch.uint8, device="cuda") for _ in range(2)] for _ in range(count)]
        copied = seconds(lambda a, b: b.copy_(a), copies)
        del copies
        results.append({
            "work": name, "dtype": str(dtype).split(".")[1], "size": list(size), "seconds": taken,
            "bytes_per_second": moved / taken, "of_the_copy": copied / taken,
        })
    json.dump({"device": torch.cuda.get_device_name(0), "torch": torch.__version__, "results": results}, sys.stdout, indent=1)
    print()


main()
