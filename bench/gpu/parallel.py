"""The pair of layers of `tilewright-parallel bench` in PyTorch with NCCL: torch.mm and all_reduce, one process a device.

python3 parallel.py: plain calls and CUDA graphs, for 8192 and 64 rows, on one and two devices. Lines of JSON go to $OUT/parallel_torch.json.
python3 parallel.py summary: both programs' best times.
"""

import json
import os
import statistics
import sys

WIDTH, HIDDEN, REPEATS = 8192, 28672, 7
FOLDER = os.environ.get("OUT", ".")


def summary():
    """Times of the fastest of each kind, and the quotients that matter."""
    lines = []
    for name in ("parallel.json", "parallel_torch.json"):
        path = os.path.join(FOLDER, name)
        if os.path.exists(path):
            lines += [json.loads(line) for line in open(path)]

    def best(rows, devices, kind):
        return min((l for l in lines if l["rows"] == rows and l["devices"] == devices and l["name"].startswith(kind)),
                   key=lambda l: l["us"], default=None)

    for rows in (8192, 64):
        one, two = best(rows, 1, "pair"), best(rows, 2, "pair")
        torch_one, torch_two = best(rows, 1, "torch"), best(rows, 2, "torch")
        if one and two:
            print("%d rows: one %.1f us, two %.1f us (%s, blocks %s): %.3f of one device"
                  % (rows, one["us"], two["us"], two["name"], two["blocks"], one["us"] / two["us"]))
        if torch_one and torch_two:
            print("%d rows, PyTorch: one %.1f us, two %.1f us (%s): %.3f of one device"
                  % (rows, torch_one["us"], torch_two["us"], torch_two["name"], torch_one["us"] / torch_two["us"]))
        if two and torch_two:
            print("%d rows: %.3f of PyTorch on two devices, %.3f on one"
                  % (rows, torch_two["us"] / two["us"], torch_one["us"] / one["us"]))


if sys.argv[1:] == ["summary"]:
    summary()
    sys.exit()

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def median_time(work, count):
    times = []
    for _ in range(REPEATS):
        work()
        torch.cuda.synchronize()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(count):
            work()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / count)
    return statistics.median(times)


def measure(rank, ranks, rows):
    torch.manual_seed(rank)
    part = HIDDEN // ranks
    make = lambda *shape: (torch.rand(*shape, device="cuda") * 2 - 1).to(torch.bfloat16)
    x, up, down = make(rows, WIDTH), make(part, WIDTH), make(WIDTH, part)
    between = torch.empty(rows, part, device="cuda", dtype=torch.bfloat16)
    y = torch.empty(rows, WIDTH, device="cuda", dtype=torch.bfloat16)

    def pair():
        torch.mm(x, up.t(), out=between)
        torch.mm(between, down.t(), out=y)
        if ranks > 1:
            dist.all_reduce(y)

    count = 4 if rows > 1000 else 100
    results = {"plain": median_time(pair, count)}
    try:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            pair()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            pair()
        results["graph"] = median_time(graph.replay, count)
    except Exception as why:
        print("no graph:", str(why).splitlines()[0])
    return results


def run(rank, ranks, port, path):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    if ranks > 1:
        dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank))
    for rows in (8192, 64):
        for name, time in measure(rank, ranks, rows).items():
            if ranks > 1:
                slowest = torch.tensor([time], device="cuda")
                dist.all_reduce(slowest, dist.ReduceOp.MAX)
                time = slowest.item()
            if rank == 0:
                print("PyTorch, %d rows, devices %d, %s: %.1f us" % (rows, ranks, name, time), flush=True)
                with open(path, "a") as file:
                    line = {"rows": rows, "devices": ranks, "name": "torch " + name, "us": float("%.2f" % time)}
                    file.write(json.dumps(line) + "\n")
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__, "NCCL", torch.cuda.nccl.version())
    path = os.path.join(FOLDER, "parallel_torch.json")
    for ranks in (1, 2):
        mp.spawn(run, args=(ranks, 29431 + ranks, path), nprocs=ranks)
