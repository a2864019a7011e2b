"""Makes tests/greedy.json: texts and logits of transformers, in f32, from the same GGUF file.

python3 -m venv env && env/bin/pip install torch transformers gguf accelerate
env/bin/python examples/decoder/tests/reference.py
"""

import json
import pathlib

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parents[2] / "target" / "smollm2"
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main():
    tokenizer = AutoTokenizer.from_pretrained(FOLDER, gguf_file=NAME)
    model = AutoModelForCausalLM.from_pretrained(FOLDER, gguf_file=NAME, dtype=torch.float32)
    cases = json.loads((HERE / "greedy.json").read_text())
    for case in cases:
        ids = tokenizer(case["prompt"], return_tensors="pt").input_ids
        with torch.no_grad():
            tokens = model.generate(ids, max_new_tokens=64, do_sample=False, pad_token_id=2)[0]
            logits = model(ids).logits[0, -1]
        case["tokens"], case["prompt_tokens"] = tokens.tolist(), ids.shape[1]
        case["logits"] = [round(float(x), 5) for x in [*logits[:8], logits.max()]]
    lines = ",\n".join(json.dumps(case) for case in cases)
    (HERE / "greedy.json").write_text(f"[\n{lines}\n]\n")


main()
