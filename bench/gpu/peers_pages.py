"""Times of the libraries beside which the pages of examples/ are measured: cuDNN, cuFFT and CUB through PyTorch.

    python3 bench/gpu/peers_pages.py [convolution] [fourier] [sorting] [selection] [steps]
"""

import sys

import torch


def time(run, sets, repeats=7, seconds=0.05):
    """Microseconds of one call, the median of repeats; sets of data rotate, so that no call hits its data in the cache."""
    for data in sets:
        run(*data)
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for data in sets:
        run(*data)
    end.record()
    torch.cuda.synchronize()
    each = start.elapsed_time(end) / len(sets)
    calls = max(len(sets), min(2000, int(seconds * 1e3 / max(each, 1e-3))))
    times = []
    for _ in range(repeats):
        start.record()
        for call in range(calls):
            run(*sets[call % len(sets)])
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / calls)
    return sorted(times)[repeats // 2]


def sets_of(make, size):
    """As many sets of data as three times the size of the cache."""
    return [make() for _ in range(max(2, min(8, int(150e6 / size) + 1)))]


def convolution():
    for n, c, h, w, k, r, stride in [
        (32, 256, 56, 56, 256, 3, 1),
        (32, 64, 56, 56, 64, 3, 1),
        (32, 512, 14, 14, 512, 3, 1),
        (32, 128, 56, 56, 256, 3, 2),
        (1, 320, 64, 64, 320, 3, 1),
        (32, 256, 56, 56, 64, 1, 1),
        (8, 3, 224, 224, 64, 7, 2),
    ]:
        def make():
            x = torch.randn(n, c, h, w, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
            f = torch.randn(k, c, r, r, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
            return x, f

        torch.backends.cudnn.benchmark = True
        sets = sets_of(make, 2 * n * c * h * w)
        took = time(lambda x, f: torch.nn.functional.conv2d(x, f, padding=r // 2, stride=stride), sets)
        out = -(-h // stride) * -(-w // stride)
        print(f"convolution {r}x{r}/{stride} {n}x{c}x{h}x{w}->{k}: {took:.2f} us, {2e-6 * n * out * k * c * r * r / took:.1f} TFLOP/s", flush=True)

        y = torch.nn.functional.conv2d(*sets[0], padding=r // 2, stride=stride)
        for name, mask in [("x", [True, False, False]), ("w", [False, True, False])]:
            by = lambda x, f: torch.ops.aten.convolution_backward(y, x, f, None, [stride, stride], [r // 2, r // 2], [1, 1], False, [0, 0], 1, mask)
            took = time(by, sets)
            print(f"convolution by {name} {r}x{r}/{stride} {n}x{c}x{h}x{w}->{k}: {took:.2f} us, {2e-6 * n * out * k * c * r * r / took:.1f} TFLOP/s", flush=True)


def fourier():
    points = 1 << 24
    for n in [256, 512, 1024, 2048, 4096, 8192, 16384]:
        sets = sets_of(lambda: (torch.randn(points // n, n, device="cuda", dtype=torch.complex64),), 8 * points)
        took = time(torch.fft.fft, sets)
        print(f"fft {n}: {took:.2f} us, {16e-6 * points / took:.3f} TB/s", flush=True)
    for n in [1024, 4096]:
        sets = sets_of(lambda: (torch.randn(points // (n * n), n, n, device="cuda", dtype=torch.complex64),), 8 * points)
        took = time(torch.fft.fft2, sets)
        print(f"fft {n}x{n}: {took:.2f} us, {32e-6 * points / took:.3f} TB/s", flush=True)
    for n in [512, 1024, 2048, 4096, 8192, 16384]:
        sets = sets_of(lambda: (torch.randn(points // n, n, device="cuda"),), 4 * points)
        took = time(torch.fft.rfft, sets)
        print(f"rfft {n}: {took:.2f} us, {8e-6 * points / took:.3f} TB/s", flush=True)
        sets = [(torch.fft.rfft(x),) for x, in sets]
        took = time(lambda x: torch.fft.irfft(x, n), sets)
        print(f"irfft {n}: {took:.2f} us, {8e-6 * points / took:.3f} TB/s", flush=True)


def sorting():
    for rows, n in [(16384, 1024), (65536, 256), (16384, 700), (262144, 64)]:
        sets = sets_of(lambda: (torch.randn(rows, n, device="cuda"),), 4 * rows * n)
        took = time(lambda x: torch.sort(x, dim=1), sets)
        print(f"sort {rows}x{n}: {took:.2f} us", flush=True)


def selection():
    for rows, n, k in [(16384, 1024, 8), (1024, 50000, 64), (64, 131072, 512), (16384, 256, 2)]:
        sets = sets_of(lambda: (torch.randn(rows, n, device="cuda"),), 4 * rows * n)
        took = time(lambda x: torch.topk(x, k, dim=1), sets)
        print(f"top-k {rows}x{n}, {k}: {took:.2f} us", flush=True)


def steps():
    """One step of the heat equation in three dimensions, one generation of the game of life, both compiled."""
    def heat(x):
        p = torch.nn.functional.pad(x, (1, 1, 1, 1, 1, 1))
        around = p[2:, 1:-1, 1:-1] + p[:-2, 1:-1, 1:-1] + p[1:-1, 2:, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 1:-1, 2:] + p[1:-1, 1:-1, :-2]
        return 0.4 * x + 0.1 * around

    def life(x):
        p = torch.nn.functional.pad(x, (1, 1, 1, 1))
        m, n = x.shape
        around = sum(p[i:i + m, j:j + n] for i in range(3) for j in range(3) if (i, j) != (1, 1))
        return ((around == 3) | ((around == 2) & (x == 1))).to(torch.uint8)

    sets = sets_of(lambda: (torch.randn(512, 512, 512, device="cuda"),), 4 << 27)
    took = time(torch.compile(heat), sets)
    print(f"heat 512x512x512, one step: {took:.2f} us, {8e-6 * (1 << 27) / took:.3f} TB/s", flush=True)
    sets = sets_of(lambda: (torch.randint(2, (16384, 16384), device="cuda", dtype=torch.uint8),), 1 << 28)
    took = time(torch.compile(life), sets)
    print(f"life 16384x16384, one generation: {took:.2f} us, {2e-6 * (1 << 28) / took:.3f} TB/s", flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or ["convolution", "fourier", "sorting", "selection", "steps"]:
        globals()[name]()
