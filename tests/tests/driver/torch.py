"""What an exported module takes of PyTorch, without devices: tensors, operators, streams."""

import contextlib


class dtype:
    def __init__(self, name, size):
        self.name, self.itemsize = name, size

    def __repr__(self):
        return "torch." + self.name


float64, float32, float16, bfloat16 = dtype("float64", 8), dtype("float32", 4), dtype("float16", 2), dtype("bfloat16", 2)
int32, uint32, int8, uint8 = dtype("int32", 4), dtype("uint32", 4), dtype("int8", 1), dtype("uint8", 1)
float8_e4m3fn, float8_e5m2 = dtype("float8_e4m3fn", 1), dtype("float8_e5m2", 1)


class Device:
    def __init__(self, kind, index):
        self.kind = self.type = kind
        self.index = index

    def __eq__(self, other):
        return (self.kind, self.index) == (other.kind, other.index)

    def __hash__(self):
        return hash((self.kind, self.index))

    def __repr__(self):
        return "%s:%d" % (self.kind, self.index)


_next = [1 << 44]


class Tensor:
    def __init__(self, shape, dtype, strides=None, kind="cuda"):
        self.shape, self.dtype, self.device = tuple(shape), dtype, Device(kind, 0)
        if strides is None:
            strides, next = [], 1
            for extent in reversed(self.shape):
                strides.insert(0, next)
                next *= extent
        self._strides = tuple(strides)
        self._address = _next[0]
        _next[0] += 1 << 40

    is_cuda = property(lambda self: self.device.kind == "cuda")

    def dim(self):
        return len(self.shape)

    def stride(self):
        return self._strides

    def is_inference(self):
        return False

    def is_neg(self):
        return getattr(self, "negative", False)

    def resolve_neg(self):
        print("resolved")
        return Tensor(self.shape, self.dtype)

    def copy_(self, other):
        print("copied")

    def data_ptr(self):
        return self._address

    def element_size(self):
        return self.dtype.itemsize

    def storage_offset(self):
        return 0

    def untyped_storage(self):
        return self

    def nbytes(self):
        last = sum((n - 1) * d for n, d in zip(self.shape, self._strides))
        return (last + 1) * self.dtype.itemsize


def empty(count, dtype, device):
    return Tensor([count], dtype)


class nn:
    class Parameter(Tensor):
        pass


class compiler:
    @staticmethod
    def is_compiling():
        return False


class autograd:
    class graph:
        @staticmethod
        def increment_version(tensor):
            tensor.version = getattr(tensor, "version", 0) + 1


class cuda:
    @staticmethod
    def current_device():
        return 0

    @staticmethod
    def device(device):
        return contextlib.nullcontext()

    class current_stream:
        def __init__(self, device):
            self.cuda_stream = 0


class library:
    class custom_op:
        def __init__(self, name, mutates_args, device_types):
            print("operator", name, "writes", *mutates_args)

        def __call__(self, function):
            self.function = function

            def called(*arguments):
                return self.function(*arguments)

            def register_fake(fake):
                called.fake = fake
                return fake

            called.register_fake = register_fake
            return called
