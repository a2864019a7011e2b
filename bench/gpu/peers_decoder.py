"""PyTorch's times for what `decoder-bench` measures: random weights in bf16, or in 4 bits (tinygemm), compiled layers, SDPA by cuDNN or flash
attention, and a CUDA graph for each step, whose tokens and positions stay on the device.

    python3 bench/gpu/peers_decoder.py [--shape llama-1b] [--format f16|w4] [--batch 1,8,64] [--context 128] [--tokens 64] [--prefill 4096]
"""

import argparse
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

SHAPES = {
    "llama-1b": (16, 2048, 8192, 32, 8, 64, 128256),
    "llama-8b": (32, 4096, 14336, 32, 8, 128, 128256),
    "experts-8": (8, 4096, 14336, 32, 8, 128, 32000),
}
EXPERTS, USED, GROUP, INNER = 8, 2, 32, 8


def weights(form, *shape):
    """A matrix, or a packed one of 4 bits with its scales and zeros."""
    if form == "w4" and len(shape) == 2:
        n, k = shape
        packed = torch.randint(-(2**31), 2**31 - 1, (n // 8, k // (INNER * 16), 32, INNER // 2), dtype=torch.int32)
        return packed, torch.empty(k // GROUP, n, 2).uniform_(-0.01, 0.01)
    return (torch.empty(*shape).uniform_(-0.01, 0.01),)


def linear(x, w):
    if len(w) == 1:
        return F.linear(x, w[0])
    rows = x.reshape(-1, x.shape[-1])
    return torch.ops.aten._weight_int4pack_mm(rows, w[0], GROUP, w[1]).view(*x.shape[:-1], -1)


def dense(x, ffn):
    gate, up = linear(x, ffn[0]).chunk(2, -1)
    return linear(F.silu(gate) * up, ffn[1])


def experts(x, ffn, gathers):
    router, gate_up, down = (of[0] for of in ffn)
    rows = x.reshape(-1, x.shape[-1])
    best, chosen = F.linear(rows, router).topk(USED)
    shares = best.float().softmax(1).to(x.dtype)
    if gathers:
        gate, up = torch.einsum("ti,tuoi->tuo", rows, gate_up[chosen]).chunk(2, -1)
        y = torch.einsum("tui,tuoi->tuo", F.silu(gate) * up, down[chosen])
    else:
        order = chosen.flatten().argsort()
        ends = torch.arange(1, EXPERTS + 1, device=x.device)
        offsets = (chosen.flatten()[None] < ends[:, None]).sum(1).to(torch.int32)
        gate, up = torch._grouped_mm(rows[order // USED], gate_up.transpose(1, 2), offs=offsets).chunk(2, -1)
        y = torch._grouped_mm(F.silu(gate) * up, down.transpose(1, 2), offs=offsets)
        y = torch.empty_like(y).index_copy(0, order, y).view(-1, USED, x.shape[-1])
    return (y * shares[:, :, None]).sum(1).view_as(x)


def layer(x, norms, qkv, out, ffn, keys, values, cos, sin, positions, mask, sizes, gathers):
    heads, kv_heads, head = sizes
    count, length, width = x.shape
    q, k, v = linear(F.rms_norm(x, (width,), norms[0], 1e-5), qkv).view(count, length, -1, head).transpose(1, 2).split([heads, kv_heads, kv_heads], 1)

    def rotated(x):
        a, b = x.chunk(2, 3)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], 3)

    q, k = rotated(q), rotated(k)
    keys[:, :, positions], values[:, :, positions] = k, v
    if mask is None:
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    else:
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
    x = x + linear(y.transpose(1, 2).reshape(count, length, -1), out)
    normed = F.rms_norm(x, (width,), norms[1], 1e-5)
    return x + (experts(normed, ffn, gathers) if len(ffn) == 3 else dense(normed, ffn))


class Model:
    def __init__(self, shape, form, most):
        layers, width, hidden, heads, kv_heads, head, vocabulary = SHAPES[shape]
        self.sizes, self.width = (heads, kv_heads, head), width
        self.embedding = torch.empty(vocabulary, width).uniform_(-0.01, 0.01)
        # Logits by embeddings of 16 bits, as in `decoder-bench`.
        self.norm, self.layers, self.step_bytes = torch.ones(width), [], vocabulary * width * 2
        self.expert_bytes = 0
        for _ in range(layers):
            attention = [weights(form, (heads + 2 * kv_heads) * head, width), weights(form, width, heads * head)]
            if shape.startswith("experts"):
                ffn = [weights(form, EXPERTS, width), weights(form, EXPERTS, 2 * hidden, width), weights(form, EXPERTS, width, hidden)]
                self.expert_bytes += sum(of[0].nbytes for of in ffn)
            else:
                ffn = [weights(form, 2 * hidden, width), weights(form, width, hidden)]
                self.step_bytes += sum(part.nbytes for of in ffn for part in of)
            self.step_bytes += sum(part.nbytes for of in attention for part in of)
            self.layers.append((torch.ones(2, width), *attention, ffn))
        angles = torch.arange(most)[:, None] * 500000.0 ** (-torch.arange(0, head, 2, dtype=torch.float32) / head)
        self.cos, self.sin, self.seen = angles.cos().bfloat16(), angles.sin().bfloat16(), torch.arange(most)
        self.layer = torch.compile(layer, dynamic=False)

    def caches(self, count, most):
        _, kv_heads, head = self.sizes
        self.cache = [torch.zeros(2, count, kv_heads, most, head) for _ in self.layers]

    def step(self, tokens, positions, is_prefill, gathers=False):
        x = F.embedding(tokens, self.embedding)
        most = self.cache[0].shape[3]
        mask = None if is_prefill else (self.seen[None, :most] <= positions[:, None])[None, None]
        cos, sin = self.cos[positions], self.sin[positions]
        for (norms, qkv, out, ffn), cache in zip(self.layers, self.cache):
            x = self.layer(x, norms, qkv, out, ffn, cache[0], cache[1], cos, sin, positions, mask, self.sizes, gathers)
        x = F.rms_norm(x[:, -1:], (self.width,), self.norm, 1e-5)
        return F.linear(x, self.embedding).argmax(2)


def graph(run):
    """A CUDA graph of a function, after it has been compiled."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        run(), run()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        run()
    return captured


def timed(run, times):
    """The least mean time of three rounds."""
    best = float("inf")
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(times):
            run()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / times)
    return best


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    for name, default in [("shape", "llama-1b"), ("format", "f16"), ("batch", "1,8,64"), ("context", 128), ("tokens", 64), ("prefill", 4096)]:
        parser.add_argument("--" + name, default=default, type=type(default))
    args = parser.parse_args()
    began = time.perf_counter()
    torch.set_default_device("cuda")
    torch.set_default_dtype(torch.bfloat16)
    torch._dynamo.config.recompile_limit = 64
    x, y = (torch.zeros(2**29) for _ in range(2))
    y.copy_(x)
    copy = 2 * x.nbytes / timed(lambda: y.copy_(x), 10)
    del x, y
    model = Model(args.shape, args.format, max(args.prefill, args.context) + args.tokens)
    print("PyTorch %s, %s: a copy: %.2f TB/s" % (args.shape, args.format, copy / 1e12), flush=True)

    for count in map(int, args.batch.split(",")):
        model.caches(count, args.context + args.tokens)
        token, position = torch.zeros(count, 1, dtype=torch.long), torch.tensor([args.context])

        apart = (torch.arange(count) * 7919 + 1)[:, None]

        def advance(gathers):
            # Sequences of random weights soon repeat one token. Numbers keep them apart, so that their experts differ.
            token.copy_((model.step(token, position, False, gathers) + apart) % 32000)
            position.add_(1).clamp_(max=args.context + args.tokens - 1)

        each = float("inf")
        # One token's experts by products of gathered weights too, which a compiler may fuse.
        for gathers in [False, True][: 1 + (count == 1 and args.shape.startswith("experts"))]:
            step = graph(lambda: advance(gathers))
            position.fill_(args.context)
            each = min(each, timed(step.replay, args.tokens - 1))
        _, kv_heads, head = model.sizes
        read = model.step_bytes + model.expert_bytes * (1 - (1 - USED / EXPERTS) ** count)
        read += count * (args.context + args.tokens // 2) * len(model.layers) * 4 * kv_heads * head
        print("decode %d: %.3f ms a step, %.0f tokens a second, %.2f GB a step at %.2f of a copy" % (
            count, 1e3 * each, count / each, read / 1e9, read / each / copy), flush=True)
    if args.prefill:
        model.caches(1, args.prefill)
        tokens, positions = torch.randint(0, 32000, (1, args.prefill)), torch.arange(args.prefill)
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
            first = timed(graph(lambda: model.step(tokens, positions, True)).replay, 3)
        print("prefill %d: %.2f ms, %.0f tokens a second" % (args.prefill, 1e3 * first, args.prefill / first))
    print("%.1f s in all" % (time.perf_counter() - began))


main()
