"""What an exported module takes of apache-tvm-ffi: functions of a library, which print their arguments."""


def load_module(path):
    with open(path, "rb") as file:
        library = file.read()

    class Functions:
        def __getitem__(self, name):
            assert b"__tvm_ffi_" + name.encode() in library
            return lambda *arguments: print("launched", *arguments)

    return Functions()
