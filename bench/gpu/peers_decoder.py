"""PyTorch's times for the steps of `decoder --random`: a compiled model with a static cache, bf16, random weights, CUDA graphs.

    python3 bench/gpu/peers_decoder.py llama-3.2-1b SEQUENCES LENGTH
"""

import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

SIZES = {"llama-3.2-1b": (16, 2048, 8192, 32, 8, 64, 128256), "llama-3.1-8b": (32, 4096, 14336, 32, 8, 128, 128256)}
TOKENS = 128


class Layer(torch.nn.Module):
    def __init__(self, width, hidden, heads, kv_heads, head, count, most):
        super().__init__()
        linear = lambda a, b: torch.nn.Linear(a, b, bias=False)
        self.qkv, self.out = linear(width, (heads + 2 * kv_heads) * head), linear(heads * head, width)
        self.gate_up, self.down = linear(width, 2 * hidden), linear(hidden, width)
        self.norms = torch.nn.ParameterList([torch.ones(width) for _ in range(2)])
        self.sizes = heads, kv_heads, head
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(count, kv_heads, most, head))

    def forward(self, x, cos, sin, positions, mask):
        heads, kv_heads, head = self.sizes
        count, length, width = x.shape
        norm = lambda x, w: F.rms_norm(x, (width,), w, 1e-5)
        q, k, v = self.qkv(norm(x, self.norms[0])).view(count, length, -1, head).transpose(1, 2).split([heads, kv_heads, kv_heads], 1)

        def rotated(x):
            a, b = x.chunk(2, 3)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], 3)

        q, k = rotated(q), rotated(k)
        self.keys[:, :, positions], self.values[:, :, positions] = k, v
        if mask is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(count, length, -1))
        gate, up = self.gate_up(norm(x, self.norms[1])).chunk(2, 2)
        return x + self.down(F.silu(gate) * up)


class Model(torch.nn.Module):
    def __init__(self, layers, width, hidden, heads, kv_heads, head, vocabulary, count, most):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.layers = torch.nn.ModuleList([Layer(width, hidden, heads, kv_heads, head, count, most) for _ in range(layers)])
        self.norm = torch.nn.Parameter(torch.ones(width))
        angles = torch.arange(most)[:, None] * 500000.0 ** (-torch.arange(0, head, 2) / head)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("seen", torch.arange(most))

    def forward(self, tokens, positions, prefill: bool):
        x = self.embedding(tokens)
        mask = None if prefill else (self.seen[None, :] <= positions[:, None])[None, None]
        for layer in self.layers:
            x = layer(x, self.cos[positions], self.sin[positions], positions, mask)
        x = F.rms_norm(x[:, -1:], (x.shape[2],), self.norm, 1e-5)
        return F.linear(x, self.embedding.weight).argmax(2)


@torch.inference_mode()
def main():
    name, count, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = Model(*SIZES[name], count, length + TOKENS)
        for each in model.parameters():
            if each.dim() > 1:
                each.uniform_(-0.01, 0.01)
    tokens = torch.randint(0, 128000, (count, length), device="cuda")
    step = torch.compile(model, mode="reduce-overhead", dynamic=False)
    first = torch.compile(model, dynamic=False)
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
            token = first(tokens, torch.arange(length, device="cuda"), True).clone()
        torch.cuda.synchronize()
        ahead = time.perf_counter() - start
        start = time.perf_counter()
        for at in range(TOKENS - 1):
            torch.compiler.cudagraph_mark_step_begin()
            token = step(token, torch.tensor([length + at], device="cuda"), False).clone()
        torch.cuda.synchronize()
        each = count * (TOKENS - 1) / (time.perf_counter() - start)
        print("PyTorch %s, %d of %d: first tokens after %.1f ms, then %.0f tokens a second" % (name, count, length, 1e3 * ahead, each))


main()
