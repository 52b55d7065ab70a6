#!/bin/bash
# Parquet has no integers of 128 bits, and Polars writes them all the same: as 16 bytes, the lowest one
# first, with the type only in the schema of Arrow that the file's metadata has. What one would guess:
# a file that Polars writes without a warning is read by the other readers of Parquet, as numbers, or
# refused by name; and a reader of another column is not concerned. What happens:
#
# - PyArrow does not open the file, not even to read another column: "Integers with more than 64 bits
#   not implemented".
# - DuckDB reads blobs, without a word: -2 is the bytes fe ff ff … ff.
# - fastparquet reads byte strings, and cuts the zeros at their end.
# - Polars itself reads the numbers.
#
# Seen with Polars 2.1.0, PyArrow 26.0.1, DuckDB 2.0.1, fastparquet 2026.9.0.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q install polars==2.1.0 pyarrow==26.0.1 duckdb==2.0.1 fastparquet==2026.9.0
cd "$dir"
"$dir/venv/bin/python" - <<'EOF'
import duckdb
import fastparquet
import polars
import pyarrow
import pyarrow.parquet

values = [1, -2, 256, 2**100]
frame = polars.DataFrame({"a": polars.Series(values, dtype=polars.Int128), "b": [1, 2, 3, 4]})
frame.write_parquet("wide.parquet")
assert polars.read_parquet("wide.parquet")["a"].to_list() == values
try:
    pyarrow.parquet.read_table("wide.parquet", columns=["b"])
except pyarrow.ArrowNotImplementedError as error:
    print("PyArrow:", error)
    assert "more than 64 bits" in str(error)
else:
    raise SystemExit("PyArrow reads the file now")
rows = duckdb.sql("SELECT a, typeof(a), b FROM 'wide.parquet'").fetchall()
print("DuckDB:", rows)
wanted = [value.to_bytes(16, "little", signed=True) for value in values]
assert rows == [(bytes_, "BLOB", n) for n, bytes_ in enumerate(wanted, 1)]
read = fastparquet.ParquetFile("wide.parquet").to_pandas()["a"].tolist()
print("fastparquet:", read)
assert read == [bytes_.rstrip(b"\0") for bytes_ in wanted]
EOF
echo "as described"
