"""PyTorch's times for the problems of `tilewright-bench attention`: JSON on standard output.

`scaled_dot_product_attention` by its flash and cuDNN backends, bf16. Device time by CUDA graphs, medians, rotating data
that exceed the cache. A causal mask counts as half of the operations.

    python3 bench/gpu/peers_attention.py [HEADSxQUERIESxKEYSxD …]
"""
import json
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
USUAL = ["16x4096x4096x64", "16x4096x4096x128"]
CACHE = 3 * torch.cuda.get_device_properties(0).L2_cache_size
ROUNDS = 9


def graph_of(run, sets):
    """A graph that goes through all sets, after a warm-up on another stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for one in sets:
            run(*one)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for one in sets:
            run(*one)
    return graph


def seconds(graphs, count):
    """Medians of a launch's time; the graphs alternate."""
    times = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            graph.replay()
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times[name].append(start.elapsed_time(end) * 1e-3 / count)
    return {name: statistics.median(all) for name, all in times.items()}


def measure(heads, m, n, d, causal):
    """Rows of results for one problem."""
    moved = 2 * heads * d * (2 * m + 2 * n)
    count = max(2, min(16, -(-CACHE // moved)))
    tensor = lambda rows: torch.rand(1, heads, rows, d, device="cuda").mul_(2).sub_(1).to(torch.bfloat16)
    sets = [(tensor(m), tensor(n), tensor(n)) for _ in range(count)]
    graphs, missing = {}, {}
    for name, backend in BACKENDS.items():
        def run(q, k, v, backend=backend):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        try:
            graphs[name] = graph_of(run, sets)
        except RuntimeError as why:
            missing[name] = str(why).splitlines()[0]
    operations = (2 if causal else 4) * heads * m * n * d
    row = {"heads": heads, "queries": m, "keys": n, "d": d, "causal": causal}
    for name, taken in seconds(graphs, count).items():
        yield {**row, "backend": name, "seconds": taken, "tflops": operations / taken / 1e12}
    for name, why in missing.items():
        yield {**row, "backend": name, "missing": why}


def main():
    sizes = [[int(part) for part in text.split("x")] for text in sys.argv[1:] or USUAL]
    results = [row for size in sizes for causal in (True, False) for row in measure(*size, causal)]
    device = torch.cuda.get_device_name(0)
    json.dump({"device": device, "torch": torch.__version__, "results": results}, sys.stdout, indent=1)
    print()


main()
