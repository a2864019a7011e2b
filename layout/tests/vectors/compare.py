"""Results of other implementations of the layout algebra on the vectors of this folder.

    pip install tensor-layouts==0.3.2 nvidia-cutlass-dsl==4.8.1
    pip install --no-deps nvidia-cutlass==4.2.0.0        # has pycute
    python3 compare.py > peers.txt

Each row of peers.txt has an implementation, an operation, and the number of its results of five kinds: the text of the vector; the
function of the vector in another text; another function that satisfies the law of the operation; wrong; refused. No GPU is needed:
CuTe DSL evaluates layouts while it traces a function.

For composition there is a second list of pairs. Of each pair, brute force has decided whether a layout R with R(c) = A(B(c)) exists.
Its rows count right layouts, wrong layouts, right refusals, and refusals although the layout exists.
"""

import importlib
import itertools
import os
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


def parse(text):
    shape, stride = text.split(":")
    return eval(shape), eval(stride)


def leaves(value):
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


def offsets(text):
    """All offsets in the order of coordinates, the leftmost mode fastest."""
    shape, stride = parse(text)
    modes = list(zip(leaves(shape), leaves(stride)))[::-1]
    return [sum(at * step for at, (_, step) in zip(coordinate, modes)) for coordinate in itertools.product(*(range(extent) for extent, _ in modes))]


def size(text):
    product = 1
    for extent in leaves(parse(text)[0]):
        product *= extent
    return product


def value(text, index):
    """The offset of an integer coordinate in the domain."""
    shape, stride = parse(text)
    offset = 0
    for extent, step in zip(leaves(shape), leaves(stride)):
        offset += index % extent * step
        index //= extent
    return offset


class TensorLayouts:
    NAME = "tensor-layouts 0.3.2"
    NAMES = {"composition": "compose"}

    def __init__(self):
        self.module = importlib.import_module("tensor_layouts")

    def layout(self, text):
        return self.module.Layout(*parse(text))

    def apply(self, operation, left, right):
        function = getattr(self.module, self.NAMES.get(operation, operation))
        return function(left, right) if right is not None else function(left)

    def text(self, result):
        return f"{result.shape}:{result.stride}".replace(" ", "").replace(",)", ")")


class Pycute(TensorLayouts):
    NAME = "pycute 4.2.0"
    NAMES = {}

    def __init__(self):
        self.module = importlib.import_module("pycute")


class CuteDsl:
    NAME = "CuTe DSL 4.8.1"

    def __init__(self):
        self.module = importlib.import_module("cutlass.cute")

    def layout(self, text):
        shape, stride = parse(text)
        return self.module.make_layout(shape, stride=stride)

    def apply(self, operation, left, right):
        function = getattr(self.module, operation)
        return function(left, right) if right is not None else function(left)

    def text(self, result):
        return str(result)


IMPLEMENTATIONS = [CuteDsl, Pycute, TensorLayouts]


def answer(implementation, line):
    operation, left, right = line.split("|")
    try:
        left = implementation.layout(left)
        right = None if not right else int(right) if operation == "complement" else implementation.layout(right)
        return implementation.text(implementation.apply(operation, left, right))
    except AttributeError:
        return "absent"
    except Exception:
        return "refused"


def work(implementation):
    """Answers the lines of standard input, one by one."""
    def lines():
        for line in sys.stdin:
            print("=" + answer(implementation, line.strip()), flush=True)

    if isinstance(implementation, CuteDsl):
        class Traced(Exception):
            pass

        @implementation.module.jit
        def trace():
            lines()
            raise Traced

        try:
            trace()
        except Traced:
            pass
    else:
        lines()


def answers(index, questions):
    """The answers of an implementation. A question that ends its process is refused."""
    results = []
    while len(results) < len(questions):
        rest = "\n".join(questions[len(results):])
        done = subprocess.run([sys.executable, __file__, str(index)], input=rest, capture_output=True, text=True)
        printed = [line[1:] for line in done.stdout.splitlines() if line.startswith("=")]
        results += printed
        if len(results) < len(questions):
            results.append("refused")
    return results


def read(name):
    return [line.strip().split("|") for line in open(os.path.join(FOLDER, name))]


def is_inverse(operation, left, result):
    """Is the result an inverse, perhaps of fewer elements than the vector?"""
    if operation == "left_inverse":
        return all(value(result, offset) == index for index, offset in enumerate(offsets(left)))
    return operation == "right_inverse" and all(value(left, offset) == index for index, offset in enumerate(offsets(result)))


def judge(operation, left, expected, result):
    if result in ("absent", "refused"):
        return result
    if result == expected:
        return "text"
    if size(result) == size(expected) and offsets(result) == offsets(expected):
        return "function"
    return "lawful" if is_inverse(operation, left, result) else "wrong"


def main():
    operations, pairs = read("layout_ops.txt"), read("composition_truth.txt")
    kinds = ("text", "function", "lawful", "wrong", "refused")
    print("# implementation | operation | same text | same function | another inverse | wrong | refused")
    for index, implementation in enumerate(IMPLEMENTATIONS):
        results = answers(index, ["|".join(line[:3]) for line in operations])
        counts = {}
        for (operation, left, _, expected), result in zip(operations, results):
            row = counts.setdefault(operation, dict.fromkeys((*kinds, "absent"), 0))
            row[judge(operation, left, expected, result)] += 1
        for operation, row in sorted(counts.items()):
            if not row["absent"]:
                print(implementation.NAME, operation, *(row[kind] for kind in kinds), sep=" | ")
    print("# implementation | right | wrong | rightly refused | refused although it exists")
    for index, implementation in enumerate(IMPLEMENTATIONS):
        results = answers(index, [f"composition|{left}|{right}" for left, right, _ in pairs])
        row = [0, 0, 0, 0]
        for (left, right, exists), result in zip(pairs, results):
            if result == "refused":
                row[3 if exists == "1" else 2] += 1
            else:
                expected = [value(left, at) for at in offsets(right)]
                row[0 if size(result) == size(right) and offsets(result) == expected else 1] += 1
        print(implementation.NAME, *row, sep=" | ")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(IMPLEMENTATIONS[int(sys.argv[1])]())
    else:
        main()
