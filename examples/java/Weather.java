import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;

/**
 * Densite from Java with sqlite-jdbc: {@code java -cp sqlite-jdbc.jar Weather.java LIBRARY FOLDER}
 *
 * <p>Makes FOLDER/weather.db, a Densite file. Every step checks its result. The first wrong one ends
 * the program with a sentence and code 1.
 */
public class Weather {
    static final int STATIONS = 20;
    static final int READINGS = 2500; // of each station, one every ten minutes

    public static void main(String[] args) {
        try {
            if (args.length != 2) throw new IllegalArgumentException("usage: Weather LIBRARY FOLDER");
            load(Path.of(args[0]).toAbsolutePath());
            Path path = Path.of(args[1]).toAbsolutePath().resolve("weather.db");
            // toUri encodes special characters, for example a space as %20, and SQLite decodes
            // them. The driver handles journal_mode and passes vfs to SQLite.
            String url = "jdbc:sqlite:file:" + path.toUri().getRawPath() + "?vfs=densite&journal_mode=WAL&busy_timeout=5000";
            try (Connection db = DriverManager.getConnection(url); Connection other = DriverManager.getConnection(url)) {
                write(db);
                query(db);
                twoConnections(db, other);
                ingest(db, other);
            }
            // The last close has copied the WAL into the file.
            try (Connection db = DriverManager.getConnection(url)) {
                size(db, path);
            }
        } catch (Exception e) {
            System.err.println("weather: " + e.getMessage());
            System.exit(1);
        }
    }

    /** Loads the library. It stays in SQLite and serves all later connections of the process. */
    static void load(Path library) throws SQLException {
        String url = "jdbc:sqlite::memory:?enable_load_extension=true";
        try (Connection loader = DriverManager.getConnection(url); var load = loader.prepareStatement("SELECT load_extension(?)")) {
            load.setString(1, library.toString());
            load.execute();
            System.out.println(text(loader, "SELECT 'Densite ' || densite_version() || ' in SQLite ' || sqlite_version()"));
        }
    }

    static void write(Connection db) throws SQLException {
        run(db, "CREATE TABLE station(id INTEGER PRIMARY KEY, name TEXT NOT NULL, about TEXT NOT NULL)");
        run(db, "CREATE TABLE reading(station INTEGER NOT NULL REFERENCES station, at TEXT NOT NULL, celsius REAL, PRIMARY KEY (station, at))");
        run(db, "CREATE VIRTUAL TABLE report USING fts5(text)");
        db.setAutoCommit(false);
        try (var station = db.prepareStatement("INSERT INTO station VALUES (?, ?, ?)")) {
            for (int id = 1; id <= STATIONS; id++) {
                station.setInt(1, id);
                station.setString(2, "station " + id);
                station.setString(3, "{\"height\": " + id * 150 + "}");
                station.addBatch();
            }
            station.executeBatch();
        }
        for (int id = 1; id <= STATIONS; id++) insertReadings(db, "reading", id, READINGS);
        run(db, "INSERT INTO report VALUES ('storm from the north'), ('clear, no wind'), ('the storm is over')");
        db.commit();
        db.setAutoCommit(true);
    }

    static void insertReadings(Connection db, String table, int station, int count) throws SQLException {
        try (var reading = db.prepareStatement("INSERT INTO " + table + " VALUES (?, ?, ?)")) {
            for (int i = 0; i < count; i++) {
                reading.setInt(1, station);
                reading.setString(2, String.format("2026-01-%02d %02d:%02d", i / 144 + 1, i / 6 % 24, i % 6 * 10));
                reading.setDouble(3, (station * 37 + i * 17) % 400 / 10.0 - 5);
                reading.addBatch();
            }
            reading.executeBatch();
        }
    }

    static void query(Connection db) throws SQLException {
        String high = " FROM reading r JOIN station s ON s.id = r.station WHERE json_extract(s.about, '$.height') > 1000";
        same("readings above 1000 m", text(db, "SELECT count(*)" + high), 14 * READINGS);
        same("stations above 1000 m", text(db, "SELECT count(DISTINCT s.name)" + high), 14);
        same("reports of a storm", text(db, "SELECT count(*) FROM report WHERE report MATCH 'storm'"), 2);
        System.out.println(14 * READINGS + " readings of 14 stations above 1000 m");
    }

    /** WAL: another connection reads while this one writes, and sees only committed rows. */
    static void twoConnections(Connection db, Connection other) throws SQLException {
        db.setAutoCommit(false);
        run(db, "INSERT INTO station VALUES (21, 'station 21', '{\"height\": 5}')");
        same("stations seen before the commit", text(other, "SELECT count(*) FROM station"), STATIONS);
        db.commit();
        db.setAutoCommit(true);
        same("stations seen after the commit", text(other, "SELECT count(*) FROM station"), STATIONS + 1);
    }

    /**
     * Ingest: a commit costs one sync of a log. The ingest table shows the rows at once, and the
     * table itself soon after.
     */
    static void ingest(Connection db, Connection other) throws SQLException {
        run(db, "CREATE VIRTUAL TABLE temp.reading_in USING densite_ingest(reading, on_conflict=replace)");
        db.setAutoCommit(false);
        insertReadings(db, "temp.reading_in", 21, 1000);
        db.commit();
        db.setAutoCommit(true);
        same("readings seen at once", text(db, "SELECT count(*) FROM temp.reading_in WHERE station = 21"), 1000);
        text(db, "SELECT densite_wait()");
        same("readings in the table", text(other, "SELECT count(*) FROM reading WHERE station = 21"), 1000);
    }

    static void size(Connection db, Path path) throws Exception {
        same("kind of file", text(db, "SELECT value FROM densite_info('main') WHERE name = 'kind'"), "densite");
        long logical = Long.parseLong(text(db, "SELECT value FROM densite_info('main') WHERE name = 'logical_bytes'"));
        long stored = Files.size(path);
        if (stored * 2 > logical) throw new IllegalStateException(path + " has " + stored + " bytes for " + logical + ": more than half");
        same("integrity_check", text(db, "PRAGMA integrity_check"), "ok");
        System.out.println(logical + " bytes stored in " + stored + ": " + 100 * stored / logical + " %");
    }

    static void run(Connection db, String sql) throws SQLException {
        try (var statement = db.createStatement()) {
            statement.execute(sql);
        }
    }

    /** The first column of a query's first row. */
    static String text(Connection db, String sql) throws SQLException {
        try (var statement = db.createStatement(); var rows = statement.executeQuery(sql)) {
            if (!rows.next()) throw new SQLException("the query returns no row: " + sql);
            return rows.getString(1);
        }
    }

    static void same(String what, String got, Object expected) {
        if (!got.equals(expected.toString())) throw new IllegalStateException(what + ": " + got + ", expected " + expected);
    }
}
