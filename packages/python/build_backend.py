"""Builds the wheel and the source distribution of the package longshore with the standard library alone (PEP 517).

pip calls it; `python3 build_backend.py` writes both to dist/. The same files give the same bytes.
"""

import base64
import gzip
import hashlib
import io
import re
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = "longshore"


def _field(name):
    """A text of pyproject.toml: tomllib needs Python 3.11."""
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    return re.search(rf'^{name} = "(.*)"$', text, re.MULTILINE).group(1)


def _package():
    """The files of the package, by their paths in a wheel: its modules, and the mark that it has types."""
    paths = sorted(path for path in (HERE / PACKAGE).iterdir() if path.suffix in (".py", ".typed"))
    return {f"{PACKAGE}/{path.name}": path.read_bytes() for path in paths}


def _metadata():
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {_field('name')}",
        f"Version: {_field('version')}",
        f"Summary: {_field('description')}",
        "License: UNLICENSED",
        f"Requires-Python: {_field('requires-python')}",
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def _stem():
    return f"{_field('name')}-{_field('version')}"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = f"{_stem()}.dist-info"
    wheel = b"Wheel-Version: 1.0\nGenerator: longshore-build-backend\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {
        **_package(),
        f"{info}/METADATA": _metadata(),
        f"{info}/WHEEL": wheel,
    }
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    name = f"{_stem()}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return name


def build_sdist(sdist_directory, config_settings=None):
    own = {name: (HERE / name).read_bytes() for name in ("pyproject.toml", "build_backend.py")}
    files = {**own, **_package(), "PKG-INFO": _metadata()}
    name = f"{_stem()}.tar.gz"
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(f"{_stem()}/{path}")
            entry.size = len(content)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(content))
    with (Path(sdist_directory) / name).open("wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
        packed.write(tar.getvalue())
    return name


if __name__ == "__main__":
    folder = HERE / "dist"
    folder.mkdir(exist_ok=True)
    for build in (build_wheel, build_sdist):
        print(folder / build(folder))
