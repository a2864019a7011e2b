"""What an exported module takes of PyTorch, without devices: tensors and operators."""


class dtype:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return "torch." + self.name


float32, bfloat16 = dtype("float32"), dtype("bfloat16")


class Tensor:
    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), dtype

    def __repr__(self):
        return "%s%s" % (self.dtype, self.shape)

    def dim(self):
        return len(self.shape)

    def is_inference(self):
        return False

    def is_neg(self):
        return getattr(self, "negative", False)

    def resolve_neg(self):
        print("resolved")
        return Tensor(self.shape, self.dtype)

    def copy_(self, other):
        print("copied")


class nn:
    class Parameter(Tensor):
        pass


class compiler:
    compiling = False

    @staticmethod
    def is_compiling():
        return compiler.compiling


class autograd:
    class graph:
        @staticmethod
        def increment_version(tensor):
            tensor.version = getattr(tensor, "version", 0) + 1


class library:
    class custom_op:
        def __init__(self, name, mutates_args, device_types):
            print("operator", name, "writes", *mutates_args)

        def __call__(self, function):
            self.function = function

            def called(*arguments):
                print("operator")
                return self.function(*arguments)

            def register_fake(fake):
                called.fake = fake
                return fake

            called.register_fake = register_fake
            return called
