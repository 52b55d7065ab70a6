// Densite from Go with mattn/go-sqlite3: weather LIBRARY FOLDER
//
// Makes FOLDER/weather.db, a Densite file. Every step checks its result. The first wrong one ends
// the program with a sentence and code 1.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/mattn/go-sqlite3"
)

const (
	stations = 20
	readings = 2500 // of each station, one every ten minutes
)

func at(i int) string {
	return fmt.Sprintf("2026-01-%02d %02d:%02d", i/144+1, i/6%24, i%6*10)
}

func celsius(station, i int) float64 {
	return float64((station*37+i*17)%400)/10 - 5
}

func fail(what string, detail any) {
	fmt.Fprintf(os.Stderr, "weather: %s: %v\n", what, detail)
	os.Exit(1)
}

func check(what string, err error) {
	if err != nil {
		fail(what, err)
	}
}

// connection is a *sql.Conn or a *sql.Tx: one connection. A *sql.DB is a pool of connections.
type connection interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
	PrepareContext(context.Context, string) (*sql.Stmt, error)
}

var ctx = context.Background()

func exec(db connection, query string, args ...any) {
	_, err := db.ExecContext(ctx, query, args...)
	check(query, err)
}

// value returns the first column of a query's first row.
func value[T any](db connection, query string) (v T) {
	check(query, db.QueryRowContext(ctx, query).Scan(&v))
	return v
}

func same[T comparable](what string, got, expected T) {
	if got != expected {
		fail(what, fmt.Sprintf("%v, expected %v", got, expected))
	}
}

// transaction runs body in a transaction on one connection.
func transaction(db *sql.Conn, body func(tx *sql.Tx)) {
	tx, err := db.BeginTx(ctx, nil)
	check("BEGIN", err)
	body(tx)
	check("COMMIT", tx.Commit())
}

// load loads Densite into the process. The driver loads its extensions after it has opened the
// file, which is too late for ?vfs=densite. So they are loaded into a connection without a file.
// The library then serves all later connections.
func load(library string) {
	library, err := filepath.Abs(library)
	check("the library", err)
	sql.Register("densite_loader", &sqlite3.SQLiteDriver{Extensions: []string{library}})
	loader, err := sql.Open("densite_loader", ":memory:")
	check("load", err)
	defer loader.Close()
	var densite, host string
	check("load", loader.QueryRow("SELECT densite_version(), sqlite_version()").Scan(&densite, &host))
	fmt.Printf("Densite %s in SQLite %s\n", densite, host)
}

// insertReadings inserts `count` readings of a station into a table.
func insertReadings(tx *sql.Tx, table string, station, count int) {
	insert, err := tx.PrepareContext(ctx, "INSERT INTO "+table+" VALUES (?, ?, ?)")
	check(table, err)
	defer insert.Close()
	for i := 0; i < count; i++ {
		_, err := insert.ExecContext(ctx, station, at(i), celsius(station, i))
		check(table, err)
	}
}

func write(db *sql.Conn) {
	exec(db, `
		CREATE TABLE station(id INTEGER PRIMARY KEY, name TEXT NOT NULL, about TEXT NOT NULL);
		CREATE TABLE reading(station INTEGER NOT NULL REFERENCES station, at TEXT NOT NULL, celsius REAL, PRIMARY KEY (station, at));
		CREATE VIRTUAL TABLE report USING fts5(text);`)
	transaction(db, func(tx *sql.Tx) {
		for id := 1; id <= stations; id++ {
			exec(tx, "INSERT INTO station VALUES (?, ?, ?)", id, fmt.Sprint("station ", id), fmt.Sprintf(`{"height": %d}`, id*150))
			insertReadings(tx, "reading", id, readings)
		}
		exec(tx, "INSERT INTO report VALUES ('storm from the north'), ('clear, no wind'), ('the storm is over')")
	})
}

func query(db *sql.Conn) {
	var rows, places int
	check("join", db.QueryRowContext(ctx, `
		SELECT count(*), count(DISTINCT s.name) FROM reading r JOIN station s ON s.id = r.station
		WHERE json_extract(s.about, '$.height') > 1000`).Scan(&rows, &places))
	same("readings above 1000 m", rows, 14*readings)
	same("stations above 1000 m", places, 14)
	same("reports of a storm", value[int](db, "SELECT count(*) FROM report WHERE report MATCH 'storm'"), 2)
	fmt.Printf("%d readings of %d stations above 1000 m\n", rows, places)
}

// twoConnections shows WAL: another connection reads while this one writes, and sees only committed
// rows.
func twoConnections(db, other *sql.Conn) {
	transaction(db, func(tx *sql.Tx) {
		exec(tx, `INSERT INTO station VALUES (21, 'station 21', '{"height": 5}')`)
		same("stations seen before the commit", value[int](other, "SELECT count(*) FROM station"), stations)
	})
	same("stations seen after the commit", value[int](other, "SELECT count(*) FROM station"), stations+1)
}

// ingest writes through the log: a commit costs one sync. The ingest table shows the rows at once,
// and the table itself soon after. The ingest table is temporary and belongs to its connection, so
// use a *sql.Conn for it, not the pool.
func ingest(db, other *sql.Conn) {
	exec(db, "CREATE VIRTUAL TABLE temp.reading_in USING densite_ingest(reading, on_conflict=replace)")
	transaction(db, func(tx *sql.Tx) { insertReadings(tx, "temp.reading_in", 21, 1000) })
	same("readings seen at once", value[int](db, "SELECT count(*) FROM temp.reading_in WHERE station = 21"), 1000)
	exec(db, "SELECT densite_wait()")
	same("readings in the table", value[int](other, "SELECT count(*) FROM reading WHERE station = 21"), 1000)
}

func size(db *sql.Conn, path string) {
	same("kind of file", value[string](db, "SELECT value FROM densite_info('main') WHERE name = 'kind'"), "densite")
	logical := value[int64](db, "SELECT value FROM densite_info('main') WHERE name = 'logical_bytes'")
	file, err := os.Stat(path)
	check(path, err)
	if file.Size()*2 > logical {
		fail(path, fmt.Sprintf("%d bytes stored for %d: more than half", file.Size(), logical))
	}
	same("integrity_check", value[string](db, "PRAGMA integrity_check"), "ok")
	fmt.Printf("%d bytes stored in %d: %d %%\n", logical, file.Size(), 100*file.Size()/logical)
}

func connect(pool *sql.DB) *sql.Conn {
	db, err := pool.Conn(ctx)
	check("open", err)
	return db
}

func main() {
	if len(os.Args) != 3 {
		fail("usage", "weather LIBRARY FOLDER")
	}
	load(os.Args[1])
	path, err := filepath.Abs(filepath.Join(os.Args[2], "weather.db"))
	check(path, err)
	name := url.URL{Scheme: "file", Path: path, RawQuery: "vfs=densite&_journal_mode=WAL&_busy_timeout=5000"}
	pool, err := sql.Open("sqlite3", name.String())
	check("open", err)
	pool.SetMaxIdleConns(0) // closes connections instead of keeping them

	db, other := connect(pool), connect(pool)
	write(db)
	query(db)
	twoConnections(db, other)
	ingest(db, other)
	check("close", db.Close())
	check("close", other.Close())

	// The last close has copied the WAL into the file.
	db = connect(pool)
	size(db, path)
	check("close", db.Close())
}
