"""The guide to GDAL works: its code opens Densite files of GDAL's own making.

    PYTHONPATH=python DENSITE_LIBRARY=target/release/libdensite.so /usr/bin/python3 tests/foreign/gdal_guide.py target/release/densite

Needs the Python bindings of GDAL (python3-gdal).
"""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROWS = 1000


def make(driver, name, table):
    """Makes a plain file with points."""
    from osgeo import ogr

    source = ogr.GetDriverByName(driver).CreateDataSource(name)
    layer = source.CreateLayer(table, geom_type=ogr.wkbPoint)
    layer.CreateField(ogr.FieldDefn("n", ogr.OFTInteger))
    layer.StartTransaction()
    for n in range(ROWS):
        feature = ogr.Feature(layer.GetLayerDefn())
        feature["n"] = n
        feature.SetGeometry(ogr.CreateGeometryFromWkt(f"POINT({n % 180} {n % 90})"))
        layer.CreateFeature(feature)
    layer.CommitTransaction()


def main():
    try:
        from osgeo import gdal
    except ImportError:
        print("GDAL's Python bindings are missing: its guide is not tried")
        return
    command = os.path.abspath(sys.argv[1])
    guide = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "ecosystem.md"
    section = guide.read_text(encoding="utf-8").split("\n## GDAL\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    gdal.UseExceptions()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for driver, name, table in (("GPKG", "places.gpkg", "points"), ("SQLite", "names.sqlite", "names")):
            make(driver, name, table)
            subprocess.run([command, "compress", name, "--known-program", "--quiet"], check=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "ecosystem.md, GDAL", "exec"), {})
        assert printed.getvalue() == f"{ROWS}\n{ROWS}\n", printed.getvalue()
    print(f"GDAL {gdal.__version__}: the guide works")


if __name__ == "__main__":
    main()
