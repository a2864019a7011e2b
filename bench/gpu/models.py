"""Kernels of models on PyTorch's tensors: results against double precision, and times beside PyTorch's.

Run beside the folders that models.sh writes: python3 models.py [NAME …]. Device time by CUDA graphs that rotate data which exceed the
cache; contenders alternate, and a speed is a quotient of medians of one run.
"""

import importlib.util
import os
import statistics
import sys

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = 3 * torch.cuda.get_device_properties(0).L2_cache_size
ROUNDS = 7
BF16 = torch.bfloat16


def kernel(folder, name=None):
    """The function of an exported kernel."""
    name = name or folder
    path = os.path.join(HERE, folder, name + ".py")
    spec = importlib.util.spec_from_file_location(folder + "_module", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def graph_of(work, sets):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for one in sets:
            work(*one)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for one in sets:
            work(*one)
    return graph


def times(contenders, sets):
    """Seconds of one call of each contender: functions of a set of arguments."""
    graphs = {}
    for name, work in contenders.items():
        try:
            graphs[name] = graph_of(work, sets)
        except Exception as why:
            torch.cuda.synchronize()
            print("    %s: %s" % (name, str(why).splitlines()[0][:150]))
    all_times = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            graph.replay()
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            all_times[name].append(1e-3 * start.elapsed_time(end) / len(sets))
    return {name: statistics.median(each) for name, each in all_times.items()}


def sets_of(make, moved, most=16):
    """As many sets of arguments as exceed the cache."""
    return [make() for _ in range(max(2, min(most, -(-CACHE // moved))))]


def report(title, seconds, operations=None, moved=None):
    ours = next(iter(seconds.values()))
    for name, each in seconds.items():
        text = "  %-44s %-12s %9.1f us" % (title, name, 1e6 * each)
        text += "  %7.1f TFLOP/s" % (operations / each / 1e12) if operations else ""
        text += "  %6.2f TB/s" % (moved / each / 1e12) if moved else ""
        print(text + ("" if name == next(iter(seconds)) else "  ours is %.2f" % (each / ours)))
    sys.stdout.flush()


def close(name, got, wanted, bound):
    error = ((got.double() - wanted.double()).norm() / wanted.double().norm()).item()
    print("  %-44s error %.1e %s" % (name, error, "right" if error <= bound else "WRONG"))
    return error <= bound


def nan(*shape, dtype=BF16):
    """Memory for a result, of which every element must be written."""
    return torch.full(shape, float("nan"), device="cuda", dtype=dtype)


def randn(*shape, dtype=BF16, scale=1.0):
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def copied(moved):
    """Seconds of a copy that reads and writes together this number of bytes."""
    count = max(2, min(16, -(-CACHE // moved)))
    sets = [tuple(torch.empty(moved // 2, dtype=torch.uint8, device="cuda") for _ in range(2)) for _ in range(count)]
    return times({"copy": lambda a, b: b.copy_(a)}, sets)["copy"]


def routed(experts, tokens):
    """Offsets of experts to which tokens are routed at random."""
    of = torch.randint(0, experts, (tokens,), device="cuda")
    counts = torch.bincount(of, minlength=experts)
    return torch.cat([torch.zeros(1, device="cuda", dtype=torch.int64), counts.cumsum(0)]).int()


def rows_of_tile(tokens, count):
    """Rows of a tile of `experts`, for the mean number of tokens of an expert."""
    mean = tokens // count
    return 16 if mean <= 12 else 64 if mean <= 128 else 160 if mean <= 512 else 96


def experts():
    for e, m, n, k in [(4, 300, 264, 200), (64, 16384, 1408, 4096), (8, 8192, 14336, 4096), (128, 4096, 768, 2048), (8, 64, 14336, 4096), (256, 8192, 2048, 7168)]:
        rows = rows_of_tile(m, e)
        plan, multiply = kernel("expert_tiles_%d" % rows, "expert_tiles"), kernel("experts_%d" % rows, "experts")
        make = lambda: (randn(m, k), randn(e, n, k, scale=k ** -0.5), routed(e, m), nan(m, n), torch.empty(m // rows + e, 3, device="cuda", dtype=torch.int32))
        sets = sets_of(make, 2 * (m * k + e * n * k + m * n), most=4)

        def ours(x, w, offsets, y, tiles):
            plan(offsets, tiles)
            multiply(tiles, x, w, y)

        theirs = lambda x, w, offsets, y, tiles: F.grouped_mm(x, w.transpose(1, 2), offs=offsets[1:])
        ours(*sets[0])
        x, w, offsets, y, _ = sets[0]
        ends = offsets.tolist()
        wanted = torch.cat([x[a:b].float() @ w[i].float().t() for i, (a, b) in enumerate(zip(ends, ends[1:]))])
        title = "experts %d: %dx%dx%d" % (e, m, n, k)
        close(title, y, wanted, 5e-3)
        used = sum(b > a for a, b in zip(ends, ends[1:]))
        if n > 300:
            report(title, times({"ours": ours, "grouped_mm": theirs}, sets), 2 * m * n * k, 2 * (m * k + used * n * k + m * n))


def gated_gemm():
    multiply = kernel("gated_gemm")
    for m, k, n in [(300, 200, 264), (8192, 4096, 14336), (1024, 4096, 14336), (256, 4096, 14336), (64, 4096, 14336)]:
        make = lambda: (randn(m, k), randn(n, k, scale=k ** -0.5), randn(n, k, scale=k ** -0.5), nan(m, n))
        sets = sets_of(make, 2 * (m * k + 2 * n * k + m * n), most=4)
        multiply(*sets[0])
        x, w, u, y = sets[0]
        title = "gated_gemm %dx%dx%d" % (m, n, k)
        close(title, y, F.silu(x.float() @ w.float().t()) * (x.float() @ u.float().t()), 5e-3)
        compiled = torch.compile(lambda x, w, u: F.silu(x @ w.t()) * (x @ u.t()))
        sets = [(*one, torch.cat(one[1:3])) for one in sets]
        contenders = {"ours": lambda x, w, u, y, _: multiply(x, w, u, y), "compiled": lambda x, w, u, y, _: compiled(x, w, u), "one GEMM": lambda x, w, u, y, both: x @ both.t()}
        report(title, times(contenders, sets), 4 * m * n * k, 2 * (m * k + 2 * n * k + m * n))


def decode_of(folder, page):
    attend, heads, group, d = kernel(folder, "paged_attention"), 8, 4, 128
    for b, length in [(3, 1000), (64, 1000), (32, 4096), (8, 32768), (1, 65536)]:
        pages = -(-length // page)
        parts = max(1, min(64, 264 * (32 // min(page, 32)) // (b * heads)))
        parts = parts // 8 * 8 if parts > 8 else parts
        scratch = (nan(parts, b, heads, group, d, dtype=torch.float32).permute(4, 3, 2, 1, 0), nan(2, b, heads, parts, group, dtype=torch.float32).permute(4, 3, 2, 1, 0),
                   torch.zeros(b, heads, device="cuda", dtype=torch.int32).t())
        make = lambda: (torch.full((b,), length - 1, device="cuda", dtype=torch.int32), torch.arange(b, device="cuda", dtype=torch.int32),
                        torch.randperm(b * pages, device="cuda").int().view(b, pages), randn(b, heads, group, d),
                        randn(b * pages, page, heads, d), randn(b * pages, page, heads, d), nan(b, heads, group, d))
        moved = 4 * b * length * heads * d
        sets = sets_of(make, moved, most=3)
        ours = lambda positions, sequences, table, q, k, v, o, *_: attend(d ** -0.5, positions, sequences, table, q, k, v, *scratch, o)
        ours(*sets[0])
        _, _, table, q, k, v, o = sets[0]
        dense = lambda x, table: x[table.long()].reshape(b, pages * page, heads, d)[:, :length].transpose(1, 2)
        wanted = F.scaled_dot_product_attention(q.float(), dense(k, table).float(), dense(v, table).float())
        title = "%s: %d sequences of %d" % (folder, b, length)
        close(title, o, wanted, 1e-2)
        sets = [(*one, *(dense(x, one[2]) for x in one[4:6])) for one in sets]
        theirs = lambda *a: F.scaled_dot_product_attention(a[3].flatten(1, 2)[:, :, None], a[7], a[8], enable_gqa=True)
        seconds = times({"ours": ours, "sdpa, no pages": theirs}, sets)
        report(title, {**seconds, "copy": copied(min(moved, 1 << 29)) * moved / min(moved, 1 << 29)}, moved=moved)


def decode():
    decode_of("decode", 64)


def decode_16():
    decode_of("decode_16", 16)


def linear_q4():
    by_warps, by_warpgroups, f16 = kernel("linear_q4"), kernel("linear_q4_hopper"), torch.float16
    for m, n, k in [(3, 704, 640), (1, 28672, 8192), (16, 28672, 8192), (64, 28672, 8192), (1024, 28672, 8192)]:
        def make():
            codes = torch.randint(0, 256, (n, k // 2), device="cuda", dtype=torch.uint8)
            packed = codes.view(n, k // 32, 2, 2, 4).permute(0, 1, 4, 2, 3).reshape(n, k // 2).contiguous()
            return (randn(m, k, dtype=f16), packed, torch.rand(k // 32, n, device="cuda").to(f16).t(), randn(k // 32, n, dtype=f16).t(), nan(m, n, dtype=f16), codes,
                    randn(m, k), randn(n, k))
        sets = sets_of(make, n * k // 2, most=4)
        ours = {
            "ours": lambda a, packed, scales, offsets, y, *_: by_warpgroups(a, packed, scales, offsets, y),
            "by warps": lambda a, packed, scales, offsets, y, *_: by_warps(a, packed, scales, offsets, y),
        }
        a, _, scales, offsets, y, codes = sets[0][:6]
        by_32 = lambda x: x.float().repeat_interleave(32, 1)
        weights = torch.stack([codes & 15, codes >> 4], 2).view(n, k).float() * by_32(scales) + by_32(offsets)
        title = "linear_q4 %dx%dx%d" % (m, n, k)
        for multiply in ours.values():
            y.fill_(float("nan"))
            multiply(*sets[0])
            close(title, y, a.float() @ weights.t(), 5e-3)
        report(title, times({**ours, "bf16 weights": lambda *s: s[6] @ s[7].t()}, sets), 2 * m * n * k, n * k // 2 + n * k // 8)


def compared(title, ours, theirs, sets, moved, checks):
    """A memory-bound kernel beside PyTorch's compiled function and a copy of as many bytes. A check is a result, what is wanted, a bound."""
    ours(*sets[0])
    for name, got, wanted, bound in checks(*sets[0]):
        close("%s %s" % (title, name), got, wanted, bound)
    # Compiled for these sizes alone.
    torch._dynamo.reset()
    seconds = times({"ours": ours, "compiled": torch.compile(theirs, dynamic=False)}, sets)
    report(title, {**seconds, "copy": copied(min(moved, 1 << 29)) * moved / min(moved, 1 << 29)}, moved=moved)


def attention():
    causal_or_not = {flag: [kernel("attention_%s%d" % (name, flag), "attention_" + name) for name in ["forward", "grad_keys", "grad_queries"]] for flag in [0, 1]}
    delta_of, f32 = kernel("attention_delta"), torch.float32
    for b, h, n, j in [(2, 3, 333, 1), (2, 16, 4096, 16), (1, 16, 8192, 16), (1, 32, 2048, 32), (2, 32, 4096, 8)]:
        for causal in [0, 1]:
            forward, grad_keys, grad_queries = causal_or_not[causal]
            d, scale = 128, 128 ** -0.5
            modes = lambda x: x.permute(2, 3, 1, 0)
            make = lambda: (*(randn(b, heads, n, d) for heads in (h, j, j, h)), *(nan(b, heads, n, d) for heads in (h, h, j, j)), *(nan(b, h, n, dtype=f32) for _ in range(2)))
            sets = sets_of(make, 2 * b * (h + j) * n * d * 4, most=3)
            lse_of = lambda x: x.permute(2, 1, 0)

            def run(q, k, v, grad, o, dq, dk, dv, lse, delta):
                forward(scale, 0, 1.0, modes(q), modes(k), modes(v), modes(o), lse_of(lse))

            def back(q, k, v, grad, o, dq, dk, dv, lse, delta):
                delta_of(modes(o), modes(grad), lse_of(delta))
                grad_keys(scale, 0, 1.0, modes(q), modes(k), modes(v), modes(grad), lse_of(lse), lse_of(delta), modes(dk), modes(dv))
                grad_queries(scale, 0, 1.0, modes(q), modes(k), modes(v), modes(grad), lse_of(lse), lse_of(delta), modes(dq))

            for one in sets:
                run(*one)
                back(*one)
            title = "%dx%dx%d/%d%s" % (b, n, h, j, " causal" if causal else "")
            attend = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), enable_gqa=h != j)
            q, k, v, grad, o, dq, dk, dv, lse, delta = sets[0]
            if n < 1000:
                given = [x.detach().float().requires_grad_() for x in (q, k, v)]
                wanted = attend(*given)
                close("attention_forward " + title, o, wanted, 1e-2)
                for name, got, wanted in zip("qkv", (dq, dk, dv), torch.autograd.grad(wanted, given, grad.float())):
                    close("attention_backward %s: gradient of %s" % (title, name), got, wanted, 1e-2)
                continue
            from torch.nn.attention import SDPBackend, sdpa_kernel
            backend = lambda: sdpa_kernel(SDPBackend.CUDNN_ATTENTION)

            def theirs(q, k, v, *_):
                with backend():
                    return attend(q, k, v)

            def theirs_both(q, k, v, grad, *_):
                with backend():
                    given = [x.detach().requires_grad_() for x in (q, k, v)]
                    return torch.autograd.grad(attend(*given), given, grad)

            work = (2 if causal else 4) * b * h * n * n * d
            close("attention_forward " + title, o, theirs(q, k, v), 1e-2)
            for name, got, wanted in zip("qkv", (dq, dk, dv), theirs_both(*sets[0])):
                close("attention_backward %s: gradient of %s" % (title, name), got, wanted, 2e-2)
            ahead = times({"ours": run, "cuDNN": theirs}, sets)
            report("attention_forward " + title, ahead, work)
            all_of = times({"ours": lambda *one: (run(*one), back(*one)), "cuDNN": theirs_both}, sets)
            report("forward and backward " + title, all_of, 3.5 * work)
            report("backward alone " + title, {name: all_of[name] - ahead[name] for name in ahead if name in all_of}, 2.5 * work)


def cross_entropy():
    forward, backward, both = (kernel("cross_entropy" + end) for end in ["", "_backward", "_fused"])
    for m, n in [(5, 1003), (8192, 32000), (4096, 128256), (16384, 5000)]:
        make = lambda: (randn(m, n), torch.randint(0, n, (m,), device="cuda"), nan(m, dtype=torch.float32), nan(m, dtype=torch.float32), torch.rand(m, device="cuda"), nan(m, n))
        sets = sets_of(make, 4 * m * n, most=2)
        loss = lambda x, labels: F.cross_entropy(x.float(), labels, reduction="none", ignore_index=-100, label_smoothing=0.1)

        def gradient(x, labels, d_loss):
            x = x.float()
            wanted = F.one_hot(labels, n) * 0.9 + 0.1 / n
            return ((x.softmax(1) - wanted) * d_loss[:, None]).to(BF16)

        title = "%dx%d" % (m, n)
        compared("cross_entropy " + title, lambda x, labels, loss, lse, d_loss, dx: forward(0.1, -100, labels, x, loss, lse), lambda x, labels, *_: loss(x, labels),
                 sets, 2 * m * n, lambda x, labels, got, lse, *_: [("loss", got, loss(x, labels), 1e-4), ("lse", lse, x.float().logsumexp(1), 1e-5)])
        compared("cross_entropy_backward " + title, lambda x, labels, loss, lse, d_loss, dx: backward(0.1, -100, labels, lse, d_loss, x, dx),
                 lambda x, labels, loss, lse, d_loss, dx: gradient(x, labels, d_loss), [sets[0]] * 2, 4 * m * n,
                 lambda x, labels, loss, lse, d_loss, dx: [("gradient", dx, gradient(x, labels, d_loss), 5e-3)])
        x, labels, got = sets[0][:3]
        wanted = gradient(x, labels, torch.full((m,), 0.5, device="cuda"))

        def train(x, labels):
            x = x.detach().requires_grad_()
            F.cross_entropy(x.float(), labels, label_smoothing=0.1).backward()
            return x.grad

        compared("cross_entropy_fused " + title, lambda x, labels, loss, *_: both(0.1, -100, 0.5, labels, x, loss), lambda x, labels, *_: train(x, labels), sets, 4 * m * n,
                 lambda x, labels, *_: [("gradient", x, wanted, 5e-3)])


def norms():
    rms, add, layer, rms_back, layer_back, total = (kernel(name) for name in ["rms_norm_with_rstd", "add_rms_norm", "layer_norm", "rms_norm_backward", "layer_norm_backward", "sum_parts"])
    for m, n in [(77, 1000), (16384, 4096), (65536, 1024), (4096, 8192)]:
        f32, parts = torch.float32, 132 * max(1, min(8, 8192 // n))
        make = lambda: (randn(m, n), randn(n), randn(n), nan(m, n), nan(m, dtype=f32), nan(m, dtype=f32), randn(m, n), nan(m, n), nan(parts, n, dtype=f32), nan(parts, n, dtype=f32), nan(n), nan(n))
        sets = sets_of(make, 6 * m * n, most=2)
        title, epsilon = " %dx%d" % (m, n), 1e-5
        rms_of = lambda x, w: F.rms_norm(x, (n,), w, epsilon)
        layer_of = lambda x, w, b: F.layer_norm(x, (n,), w, b, epsilon)
        compared("rms_norm_with_rstd" + title, lambda x, w, b, y, mean, rstd, *_: rms(epsilon, x, w, y, rstd), lambda x, w, *_: rms_of(x, w), sets, 4 * m * n,
                 lambda x, w, b, y, mean, rstd, *_: [("y", y, rms_of(x.float(), w.float()), 5e-3)])
        x, dy = sets[0][0].clone(), sets[0][6]
        compared("add_rms_norm" + title, lambda x, w, b, y, mean, rstd, dy, *_: add(epsilon, dy, w, x, y),
                 lambda x, w, b, y, mean, rstd, dy, *_: (x.add_(dy), rms_of(x, w)), [one[:7] for one in sets], 8 * m * n,
                 lambda got, w, b, y, *_: [("x", got, x.float() + dy.float(), 5e-3), ("y", y, rms_of((x + dy).float(), w.float()), 5e-3)])
        for one in sets:
            one[0].copy_(randn(m, n))
            rms(epsilon, one[0], one[1], one[3], one[5])

        def gradients(function, x, dy, *more):
            given = [each.detach().float().requires_grad_() for each in (x, *more)]
            return torch.autograd.grad(function(*given), given, dy.float())

        def rms_both(x, w, b, y, mean, rstd, dy, dx, dw_parts, db_parts, dw, db):
            rms_back(x, w, rstd, dy, dx, dw_parts)
            total(dw_parts, dw)

        def rms_checks(x, w, b, y, mean, rstd, dy, dx, dw_parts, db_parts, dw, db):
            wanted = gradients(rms_of, x, dy, w)
            return [("dx", dx, wanted[0], 5e-3), ("dw", dw, wanted[1], 5e-3)]

        def backward_of(function, count):
            def run(*one):
                given = [each.detach().requires_grad_() for each in one[:count]]
                return torch.autograd.grad(function(*given), given, one[6])
            return run

        compared("rms_norm_backward" + title, rms_both, backward_of(rms_of, 2), sets, 6 * m * n, rms_checks)
        compared("layer_norm" + title, lambda x, w, b, y, mean, rstd, *_: layer(epsilon, x, w, b, y, mean, rstd), lambda x, w, b, *_: layer_of(x, w, b), sets, 4 * m * n,
                 lambda x, w, b, y, *_: [("y", y, layer_of(x.float(), w.float(), b.float()), 5e-3)])
        for one in sets:
            layer(epsilon, one[0], one[1], one[2], one[3], one[4], one[5])

        def layer_both(x, w, b, y, mean, rstd, dy, dx, dw_parts, db_parts, dw, db):
            layer_back(x, w, mean, rstd, dy, dx, dw_parts, db_parts)
            total(dw_parts, dw)
            total(db_parts, db)

        def layer_checks(x, w, b, y, mean, rstd, dy, dx, dw_parts, db_parts, dw, db):
            wanted = gradients(layer_of, x, dy, w, b)
            return [("dx", dx, wanted[0], 5e-3), ("dw", dw, wanted[1], 5e-3), ("db", db, wanted[2], 5e-3)]

        compared("layer_norm_backward" + title, layer_both, backward_of(layer_of, 3), sets, 6 * m * n, layer_checks)


def small():
    """Rotary embedding, gates, dropout, AdamW, causal convolution, selective scan, sampling."""
    rope, gated, gated_back, dropout, adamw, sample, conv, scan = (kernel(name) for name in ["rope", "gated", "gated_backward", "dropout", "adamw", "sample_top_p", "conv1d_causal", "selective_scan"])
    f32 = torch.float32
    m, heads, d = 4 * 4096, 32, 128
    make = lambda: (torch.randint(0, 4096, (m,), device="cuda").int(), torch.rand(4096, d // 2, device="cuda"), torch.rand(4096, d // 2, device="cuda"), randn(m, heads, d), nan(m, heads, d))

    def rotated(positions, cosines, sines, x, y=None):
        c, s = (of[positions.long()][:, None].float() for of in (cosines, sines))
        a, b = x.float().chunk(2, 2)
        return torch.cat([a * c - b * s, b * c + a * s], 2).to(BF16)

    compared("rope %dx%dx%d" % (m, heads, d), lambda p, c, s, x, y: rope(1.0, p, c, s, x, y), rotated, sets_of(make, 4 * m * heads * d), 4 * m * heads * d,
             lambda p, c, s, x, y: [("y", y, rotated(p, c, s, x), 5e-3)])
    m, n = 8192, 14336
    halves = lambda both: (both[:, :, 0], both[:, :, 1])
    make = lambda: (randn(m, 2, n).transpose(1, 2), nan(m, n), randn(m, n), nan(m, 2, n).transpose(1, 2))
    silu = lambda both, *_: F.silu(both[:, :, 0]) * both[:, :, 1]
    sets = sets_of(make, 6 * m * n, most=2)
    compared("gated %dx%d" % (m, n), lambda both, y, dy, d_both: gated(both, y), silu, sets, 6 * m * n, lambda both, y, *_: [("y", y, silu(both.float()), 5e-3)])

    def gradient(both, dy):
        both = both.detach().requires_grad_()
        return torch.autograd.grad(silu(both), both, dy)[0]

    compared("gated_backward %dx%d" % (m, n), lambda both, y, dy, d_both: gated_back(both, dy, d_both), lambda both, y, dy, d_both: gradient(both, dy), sets, 10 * m * n,
             lambda both, y, dy, d_both: [("gradient", d_both, gradient(both.float(), dy.float()), 5e-3)])
    m, n = 8192, 8192
    make = lambda: (randn(m, n).abs() + 1, nan(m, n))
    compared("dropout %dx%d" % (m, n), lambda x, y: dropout(0.25, 7, 0, x, y), lambda x, y: F.dropout(x, 0.25), sets_of(make, 4 * m * n), 4 * m * n,
             lambda x, y: [("kept", (y > 0).double().mean(), torch.tensor(0.75), 2e-3), ("y", y, (y > 0) * x.float() / 0.75, 5e-3)])
    n = 1 << 26
    make = lambda: (randn(n), torch.zeros(n, device="cuda"), torch.zeros(n, device="cuda"), randn(n, dtype=f32), nan(n))
    parameter = make()[3]
    sets = sets_of(make, 24 * n, most=2)
    g, w = sets[0][0].float(), sets[0][3].clone()
    step = lambda g, m, v, w, rounded: torch._fused_adamw_([w], [g.float()], [m], [v], [], [torch.ones((), device="cuda")], amsgrad=False, lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=0.1, eps=1e-8, maximize=False)
    wanted = w * (1 - 1e-4) - 1e-3 * g / (g.abs() + 1e-8)
    compared("adamw 2^26", lambda g, m, v, w, rounded: adamw(1e-3, 0.9, 0.999, 1e-8, 0.1, 0.1, 0.001, 1.0, g, m, v, w, rounded), step, sets, 28 * n,
             lambda g, m, v, w, rounded: [("weights", w, wanted, 1e-5), ("rounded", rounded, wanted, 5e-3)])
    m, n = 256, 128256
    make = lambda: (torch.full((m,), 0.7, device="cuda"), torch.full((m,), 0.9, device="cuda"), torch.rand(m, device="cuda"), randn(m, n, dtype=f32, scale=4.0), torch.empty(m, device="cuda", dtype=torch.int32))
    sets = sets_of(make, 4 * m * n, most=2)

    def sampled(temperature, top_p, random, x, tokens):
        p, order = (x / temperature[:, None]).softmax(1).sort(1, descending=True)
        kept = p * (p.cumsum(1) - p < top_p[:, None])
        return order.gather(1, torch.multinomial(kept, 1))

    def in_nucleus(temperature, top_p, random, x, tokens):
        p = (x / temperature[:, None]).softmax(1)
        own = p.gather(1, tokens.long()[:, None])
        return [("in the nucleus", ((p * (p > own)).sum(1) < top_p).double().mean(), torch.tensor(1.0), 1e-9)]

    compared("sample_top_p %dx%d" % (m, n), lambda t, p, r, x, tokens: sample(t, p, r, x, tokens), sampled, sets, 4 * m * n, in_nucleus)
    b, length, d = 4, 4096, 4096
    make = lambda: (randn(4, d), randn(d), randn(b, length, d), nan(b, length, d))
    convolved = lambda w, bias, x, y=None: F.silu(F.conv1d(x.transpose(1, 2), w.t()[:, None], bias, padding=3, groups=d)[:, :, :length]).transpose(1, 2)
    compared("conv1d_causal %dx%dx%d" % (b, length, d), conv, convolved, sets_of(make, 4 * b * length * d), 4 * b * length * d,
             lambda w, bias, x, y: [("y", y, convolved(w.float(), bias.float(), x.float()), 1e-2)])
    b, length, d = 4, 2048, 4096
    make = lambda: (-torch.rand(d, 16, device="cuda") - 0.5, torch.rand(d, device="cuda"), randn(b, length, d), torch.rand(b, length, d, device="cuda").to(BF16) * 0.1, randn(b, length, 16),
                    randn(b, length, 16), torch.zeros(b, d, 16, device="cuda"), nan(b, length, d))
    sets = sets_of(make, 6 * b * length * d)

    def scanned(a, skip, x, dt, bs, cs):
        h, out = torch.zeros(b, d, 16, device="cuda", dtype=torch.float64), []
        for t in range(length):
            step = dt[:, t].double()[:, :, None]
            h = h * (step * a.double()).exp() + step * bs[:, t].double()[:, None] * x[:, t].double()[:, :, None]
            out.append((h * cs[:, t].double()[:, None]).sum(2) + skip * x[:, t].double())
        return torch.stack(out, 1)

    scan(*sets[0])
    close("selective_scan", sets[0][7], scanned(*sets[0][:6]), 1e-2)
    report("selective_scan %dx%dx%d" % (b, length, d), {**times({"ours": scan}, sets), "copy": copied(6 * b * length * d)}, moved=6 * b * length * d)


SECTIONS = {name: globals()[name] for name in ["experts", "gated_gemm", "decode", "decode_16", "linear_q4", "attention", "cross_entropy", "norms", "small"]}


def main():
    torch.manual_seed(1)
    print(torch.cuda.get_device_name(0), torch.__version__)
    for name in sys.argv[1:] or SECTIONS:
        print(name)
        try:
            SECTIONS[name]()
        except Exception as why:
            print("  failed: %s" % str(why)[:400])
            torch.cuda.synchronize()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
