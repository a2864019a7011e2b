"""Writes a Llama-style model of random weights, with the sizes of SmolLM2-135M: random_model.py FOLDER. A cold start needs no download with it."""

import json
import os
import random
import struct
import sys

LAYERS, WIDTH, HIDDEN, HEADS, KV, VOCABULARY = 30, 576, 1536, 9, 3, 49152
KEYS = WIDTH // HEADS * KV

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)


def write(name, value):
    with open(os.path.join(folder, name), "w") as file:
        json.dump(value, file)


write("config.json", {
    "model_type": "llama", "hidden_act": "silu", "num_hidden_layers": LAYERS, "hidden_size": WIDTH, "intermediate_size": HIDDEN,
    "num_attention_heads": HEADS, "num_key_value_heads": KV, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 1e5,
})

# The characters that stand for bytes, then other tokens, which no text has.
printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
others = [byte for byte in range(256) if byte not in printable]
tokens = [chr(byte) for byte in printable] + [chr(256 + at) for at in range(len(others))]
tokens += [f"token {at}" for at in range(len(tokens), VOCABULARY)]
write("tokenizer.json", {
    "model": {"type": "BPE", "vocab": {token: at for at, token in enumerate(tokens)}, "merges": []}, "added_tokens": [],
    "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}, "post_processor": None,
})

shapes = {"model.embed_tokens": (VOCABULARY, WIDTH), "model.norm": (WIDTH,)}
for layer in range(LAYERS):
    parts = {
        "input_layernorm": (WIDTH,), "post_attention_layernorm": (WIDTH,), "self_attn.q_proj": (WIDTH, WIDTH),
        "self_attn.k_proj": (KEYS, WIDTH), "self_attn.v_proj": (KEYS, WIDTH), "self_attn.o_proj": (WIDTH, WIDTH),
        "mlp.gate_proj": (HIDDEN, WIDTH), "mlp.up_proj": (HIDDEN, WIDTH), "mlp.down_proj": (WIDTH, HIDDEN),
    }
    shapes.update({f"model.layers.{layer}.{part}": shape for part, shape in parts.items()})

random.seed(1)
noise = b"".join(struct.pack("<e", random.uniform(-0.04, 0.04)) for _ in range(1 << 16))
header, chunks, end = {}, [], 0
for name, shape in shapes.items():
    size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
    start = 2 * random.randrange(1 << 15)
    chunks.append((noise * (size // len(noise) + 2))[start:start + size])
    header[f"{name}.weight"] = {"dtype": "F16", "shape": shape, "data_offsets": [end, end + size]}
    end += size
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(os.path.join(folder, "model.safetensors"), "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text)
    file.writelines(chunks)
