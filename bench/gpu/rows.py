"""Holds instructions of the table, on a GPU of compute capability 9.0, against sums in double precision.

    TILEWRIGHT_RECORD=$PWD/target/rows.jsonl cargo test -p tilewright-tests --test rows record -- --ignored
    python3 bench/gpu/rows.py target/rows.jsonl

Prints, for each family of rows and kind of numbers, how far results lie from exact sums, for each 1 of the greatest term;
fails where a row is off by more than it says, or makes an infinity or no number where it should not. Needs torch and
cuda-python (cuda.bindings).
"""
import collections
import ctypes
import json
import math
import re
import sys

import torch
from cuda.bindings import driver

TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "i32": torch.int32}

# Between subnormal numbers.
STEPS = {"f32": 2.0**-149, "f16": 2.0**-24}


def must(result):
    code, *rest = result
    if int(code) != 0:
        raise RuntimeError(str(code))
    return rest[0] if rest else None


def buffer(text):
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8).cuda()


torch.cuda.init()
torch.zeros(1, device="cuda")
worst, wrong, rows, shown = collections.defaultdict(float), 0, 0, collections.Counter()
for line in open(sys.argv[1]):
    row = json.loads(line)
    module = must(driver.cuModuleLoadData(bytes.fromhex(row["cubin"])))
    function = must(driver.cuModuleGetFunction(module, row["entry"].encode()))
    family = re.sub(r"n\d+k", "nNk", row["row"])
    rows += 1
    for run in row["runs"]:
        tensors = [buffer(text) for text in run["given"]]
        values = tuple(tensor.data_ptr() for tensor in tensors)
        must(driver.cuLaunchKernel(function, 1, 1, 1, row["threads"], 1, 1, 0, 0, (values, (ctypes.c_void_p,) * 3), 0))
        torch.cuda.synchronize()
        got = tensors[0].view(TYPES[row["elem"]]).double().cpu().tolist()
        most = {"f32": 3.4028234663852886e38, "f16": 65504.0}.get(row["elem"], math.inf)
        for at, (x, sum, greatest) in enumerate(zip(got, run["wanted"], run["greatest"])):
            if math.isnan(sum):
                fine = math.isnan(x)
            elif math.isinf(sum):
                fine = x == sum
            elif abs(sum) > most or greatest > most:
                fine = True  # overflows on the way, in one order of terms and not in another
            elif math.isinf(x) or math.isnan(x):
                fine = False
            else:
                off = max(abs(x - sum) - STEPS.get(row["elem"], 0), 0) / (greatest or 1)
                worst[family, run["kind"]] = max(worst[family, run["kind"]], off)
                fine = off <= row["within"]
            if not fine:
                wrong += 1
                shown[row["row"]] += 1
                if shown[row["row"]] < 3:
                    print(f"{row['row']}, {run['kind']}: element {at} is {x}, not {sum}; greatest term {greatest}")
    must(driver.cuModuleUnload(module))
for (family, kind), off in sorted(worst.items()):
    print(f"{family:36} {kind:10} {off:.3e} = 2^{math.log2(off):.1f}" if off else f"{family:36} {kind:10} exact")
print(f"{rows} rows, {wrong} elements wrong")
sys.exit(bool(wrong))
