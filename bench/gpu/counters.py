"""Compares the simulator's counts with the hardware's counters, launch by launch.

    cargo build --release -p tilewright-bench-gpu
    python3 bench/gpu/counters.py --bench target/release/tilewright-bench --out counters

Runs `tilewright-bench counters` once under Nsight Compute (`ncu`), which reports for every instruction how often it was
executed, its wavefronts in shared memory and its sectors in global memory; sums them by kind of instruction; and prints
a table beside the simulator's counts of the same launches. Totals of the hardware's counters are printed below each
kernel. All raw data are kept in the folder `--out`.

Standard library only. Exits with 1 if something differs, with 2 if nothing could be compared.
"""
import argparse
import collections
import csv
import glob
import io
import json
import os
import re
import shutil
import subprocess
import sys

SOURCE = [
    "inst_executed",
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
    "memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_global_ideal",
]
# The same in the table that `ncu --page source --csv` prints, by the beginning of a column's name.
COLUMNS = {
    "inst_executed": ["inst_executed", "# Inst Executed", "Instructions Executed", "# Instructions Executed", "Warp Instructions Executed"],
    "memory_l1_wavefronts_shared": ["memory_l1_wavefronts_shared", "L1 Wavefronts Shared"],
    "memory_l1_wavefronts_shared_ideal": ["memory_l1_wavefronts_shared_ideal", "L1 Wavefronts Shared Ideal"],
    "memory_l2_theoretical_sectors_global": ["memory_l2_theoretical_sectors_global", "L2 Theoretical Sectors Global"],
    "memory_l2_theoretical_sectors_global_ideal": ["memory_l2_theoretical_sectors_global_ideal", "L2 Theoretical Sectors Global Ideal"],
}
TOTALS = [
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "smsp__inst_executed_op_ldgsts.sum",
    "smsp__inst_executed_op_ldsm.sum",
    "smsp__inst_executed_op_global_ld.sum",
    "smsp__inst_executed_op_global_st.sum",
    "smsp__sass_inst_executed_op_shared_ld.sum",
    "smsp__sass_inst_executed_op_shared_st.sum",
    "smsp__sass_inst_executed_op_ldgsts.sum",
]
# Kinds of instructions: their SASS opcodes, and the simulator's name of the same access.
KINDS = [
    ("load shared", r"LDS(\.|$)", ("load", "shared")),
    ("store shared", r"STS(\.|$)", ("store", "shared")),
    ("copy to shared", r"LDGSTS(\.|$)", ("copy", "shared")),
    ("matrix shared", r"LDSM(\.|$)|STSM(\.|$)", ("matrix", "shared")),
    ("load global", r"LDG(\.|$)", ("load", "global")),
    ("copy from global", r"LDGSTS(\.|$)", ("copy", "global")),
    ("store global", r"STG(\.|$)", ("store", "global")),
]


def run(command, log=None, check=True):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if log:
        with open(log, "w") as file:
            file.write("$ " + " ".join(command) + "\n" + done.stdout)
    if check and done.returncode:
        sys.stderr.write(done.stdout[-4000:])
        raise RuntimeError(f"{command[0]} ended with {done.returncode}")
    return done.stdout


def find_ncu():
    places = [shutil.which("ncu"), "/usr/local/cuda/bin/ncu", *sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu"), reverse=True)]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def known_metrics(ncu, names, out):
    """Those that this version and this GPU know: one unknown name would stop everything."""
    text = run([ncu, "--query-metrics", "--query-metrics-mode", "base"], os.path.join(out, "metrics.txt"), check=False)
    listed = set(re.findall(r"^([a-z0-9_]+)\b", text, re.M))
    if len(listed) < 100:
        return names[:4] + names[6:8]
    return [name for name in names if name.split(".")[0] in listed]


def from_module(ncu, report):
    """By the Python module that comes with the profiler: for each launch its name, instructions and totals."""
    root = os.path.dirname(os.path.realpath(ncu))
    places = glob.glob(os.path.join(root, "**/extras/python"), recursive=True)
    places += sorted(glob.glob("/opt/nvidia/nsight-compute/*/extras/python"), reverse=True)
    for place in places:
        sys.path.insert(0, place)
    import ncu_report

    actions = []
    context = ncu_report.load_report(report)
    for r in range(context.num_ranges()):
        part = context.range_by_idx(r)
        for a in range(part.num_actions()):
            action = part.action_by_idx(a)
            instructions = collections.defaultdict(dict)
            for name in SOURCE:
                metric = action.metric_by_name(name)
                if metric is None or not metric.has_correlation_ids():
                    continue
                ids = metric.correlation_ids()
                for i in range(metric.num_instances()):
                    instructions[ids.as_uint64(i)][name] = metric.as_uint64(i)
            rows = [(action.sass_by_pc(pc), values) for pc, values in sorted(instructions.items())]
            totals = {}
            for name in TOTALS:
                metric = action.metric_by_name(name)
                if metric is not None:
                    totals[name] = metric.as_double()
            actions.append((action.name(), rows, totals))
    return actions


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def from_tables(ncu, report, out, count):
    """By the tables that the profiler prints: one call for each launch."""
    raw = run([ncu, "--import", report, "--page", "raw", "--csv", "--print-units", "base"], os.path.join(out, "raw.csv"))
    rows = list(csv.reader(io.StringIO(raw[raw.index('"ID"'):])))
    head, launches = rows[0], [row for row in rows[1:] if row and row[0].isdigit()]
    actions = []
    for at in range(min(count, len(launches))):
        totals = {name: number(launches[at][head.index(name)]) for name in TOTALS if name in head}
        name = launches[at][head.index("Kernel Name")]
        command = [ncu, "--import", report, "--page", "source", "--csv", "--launch-skip", str(at), "--launch-count", "1"]
        text = run(command + ["--print-units", "base"], os.path.join(out, f"source_{at:02}.csv"), check=False)
        instructions, columns = [], None
        for row in csv.reader(io.StringIO(text)):
            if "Source" in row:
                columns = {"Source": row.index("Source")}
                for metric, names in COLUMNS.items():
                    found = [i for i, title in enumerate(row) if title.strip() in names]
                    if found:
                        columns[metric] = found[0]
            elif columns and len(row) > columns["Source"]:
                values = {m: number(row[i]) for m, i in columns.items() if m != "Source" and number(row[i]) is not None}
                instructions.append((row[columns["Source"]], values))
        actions.append((name, instructions, totals))
    return actions


def opcode(sass):
    """`@!P0 LDS.128 R4, [R2]` is LDS.128."""
    words = re.sub(r"^\s*@!?U?P\w+\s+", "", sass.strip()).split()
    return words[0].rstrip(";") if words else ""


def measured(instructions):
    """For each kind: instructions, wavefronts in shared memory, sectors of global memory, and instructions without counts
    in the profiler."""
    sums = {kind: [0, 0, 0, 0] for kind, _, _ in KINDS}
    opcodes = collections.Counter()
    for sass, values in instructions:
        op = opcode(sass)
        for kind, pattern, _ in KINDS:
            if re.match(pattern, op):
                sums[kind][0] += values.get("inst_executed", 0)
                sums[kind][1] += values.get("memory_l1_wavefronts_shared", 0)
                sums[kind][2] += values.get("memory_l2_theoretical_sectors_global", 0)
                if not values.get("memory_l1_wavefronts_shared") and not values.get("memory_l2_theoretical_sectors_global"):
                    sums[kind][3] += values.get("inst_executed", 0)
        if any(re.match(pattern, op) for _, pattern, _ in KINDS):
            opcodes[op] += int(values.get("inst_executed", 0))
    return sums, opcodes


def simulated(case):
    sums = {kind: [0, 0, 0] for kind, _, _ in KINDS}
    for access in case["accesses"]:
        for kind, _, (what, memory) in KINDS:
            if (access["access"], access["memory"]) == (what, memory):
                sums[kind][0] += access["executed"]
                sums[kind][1] += access["wavefronts"]
                sums[kind][2] += access["sectors"]
    return sums


def judged(kind, hardware, model):
    """`equal`, an explanation within its bounds, or `DIFFERS`. Both are instructions, wavefronts and sectors by kind."""
    at = 1 if kind.endswith("shared") else 2
    cost, expected = hardware[kind][at], model[kind][at]
    if cost == expected:
        return "equal"
    if kind.startswith("load") and 0 < hardware[kind][0] < model[kind][0] and cost < expected:
        return "the compiler merged several loads into one"
    uncounted = hardware[kind][3]
    if kind.startswith("copy") and uncounted and (expected - cost) * hardware[kind][0] == uncounted * expected:
        # The instruction table lacks memory counts for some predicated copies, which the unit's total includes.
        return f"the profiler counts nothing for {uncounted:.0f} predicated copies"
    if kind.startswith("copy"):
        # The model assumes that all lines of an instruction arrive at once. In shared memory each sector may land
        # separately: one more wavefront for each after an instruction's first. Copies of 16 bytes bypass L1, and the
        # two halves of a sector may be requested separately.
        instructions, _, sectors = model["copy from global"]
        most = expected + sectors - instructions if at == 1 else 2 * sectors
        if expected < cost <= most:
            return f"cp.async lands as its lines arrive, {most:.0f} at most"
    return "DIFFERS"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", default="tilewright-bench", help="the program that measures")
    parser.add_argument("--out", default="counters", help="the folder for everything that was read")
    parser.add_argument("--report", help="a report of ncu that is there already: nothing is launched")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    ncu = find_ncu()
    if not ncu:
        print("skipped: no ncu")
        return 2

    expected = os.path.join(options.out, "simulated.json")
    run([options.bench, "counters", "--simulated", expected], os.path.join(options.out, "simulate.log"))
    cases = json.load(open(expected))
    report = options.report or os.path.join(options.out, "launches.ncu-rep")
    if not options.report:
        totals = known_metrics(ncu, TOTALS, options.out)
        command = [ncu, "--clock-control", "none", "--cache-control", "none", "--section", "SourceCounters"]
        command += ["--metrics", ",".join(SOURCE + totals), "--force-overwrite", "--export", report]
        command += [options.bench, "counters"]
        print(" ".join(command), flush=True)
        said = run(command, os.path.join(options.out, "ncu.log"))
        print("\n".join(line for line in said.splitlines() if "==ERROR==" in line or "==WARNING==" in line))
    try:
        actions = from_module(ncu, report)
    except Exception as why:  # depends on the module's version
        print(f"the profiler's Python module failed ({why!r}); using its tables")
        actions = from_tables(ncu, report, options.out, len(cases))
    if len(actions) != len(cases):
        print(f"{len(actions)} launches were profiled, and {len(cases)} were simulated")
        return 2

    with open(os.path.join(options.out, "instructions.json"), "w") as file:
        json.dump([{"kernel": n, "instructions": i, "totals": t} for n, i, t in actions], file, indent=1)
    equal = others = differing = 0
    print(f"{'launch':<28} {'access':<17} {'instructions':>21} {'wavefronts':>21} {'sectors':>21}")
    for case, (_, instructions, totals) in zip(cases, actions):
        said = f"{case['name']}"
        size = case["sizes"]
        hardware, opcodes = measured(instructions)
        model = simulated(case)
        for kind, _, (_, memory) in KINDS:
            (e, w, s, _), (me, mw, ms) = hardware[kind], model[kind]
            if not (e or me):
                continue
            # Memory traffic is compared, instruction counts are not: the compiler adds fully predicated-off loads
            # after each cp.async, skips accesses that no lane of a warp needs, and merges several into one.
            cells = [f"{me:.0f} / {e:.0f}"]
            cost, model_cost = (w, mw) if memory == "shared" else (s, ms)
            pair = f"{model_cost:.0f} / {cost:.0f}"
            cells += [pair, ""] if memory == "shared" else ["", pair]
            verdict = judged(kind, hardware, model)
            equal += verdict == "equal"
            differing += verdict == "DIFFERS"
            others += verdict not in ("equal", "DIFFERS")
            print(f"{said:<28} {kind:<17} {cells[0]:>21} {cells[1]:>21} {cells[2]:>21}  {verdict}")
            said = ""
        print(f"  {case['kernel']}, {size}; {', '.join(f'{n} {op}' for op, n in sorted(opcodes.items()))}")
        for name, value in totals.items():
            if value:
                print(f"    {name} {value:.0f}")
    print(f"\nsimulator / hardware: {equal} equal, {others} explained, {differing} differing, in {len(cases)} launches")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
