"""Calls by the package apache-tvm-ffi: python3 ffi.py LIBRARY, where LIBRARY is of the kernel `product`."""

import ctypes
import sys

import tvm_ffi


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("extents", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


capsule = ctypes.pythonapi.PyCapsule_New
capsule.restype = ctypes.py_object
capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Tensor:
    """A bf16 matrix that has an address alone."""

    def __init__(self, address, extents, device_type=2):
        self.extents = (ctypes.c_int64 * 2)(*extents)
        self.strides = (ctypes.c_int64 * 2)(extents[1], 1)
        at = [ctypes.addressof(each) for each in (self.extents, self.strides)]
        self.managed = Managed(DLTensor(address, device_type, 0, 2, 4, 16, 1, *at, 0), None, None)

    def __dlpack__(self, **_):
        return capsule(ctypes.addressof(self.managed), b"dltensor", None)

    def __dlpack_device__(self):
        return self.managed.tensor.device_type, 0


product = tvm_ffi.load_module(sys.argv[1])["product"]
a, b, c = (Tensor(index << 44, extents) for index, extents in enumerate([(256, 64), (128, 64), (256, 128)], 1))


def call(*arguments):
    try:
        print(product(*arguments), flush=True)
    except Exception as error:
        print(type(error).__name__, str(error).replace("\n", " | "), flush=True)


call(a, b, c, 1.0, 0)
call(tvm_ffi.from_dlpack(a), b, c, 2, 0.5)
call(a, b, c, True, 0)
call(a, b, c, "1", 0)
call(a, b, c, 2**70, 0)
call(a, b, None, 1.0, 0.0)
call(a, Tensor(1 << 46, (128, 63)), c, 1.0, 0.0)
call(a, Tensor(1 << 46, (128, 64), 1), c, 1.0, 0.0)
call(a, b)
