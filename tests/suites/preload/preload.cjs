// Node runs this before the tests of better-sqlite3: its SQLite records every connection, and opens
// files through Densite if SUITES_STORE is `densite`.
const Database = require(process.cwd());
const db = new Database(':memory:');
if (process.env.SUITES_STORE === 'densite') db.loadExtension(process.env.DENSITE_LIBRARY, 'sqlite3_densite_default_init');
db.loadExtension(process.env.SUITES_LIBRARY, 'sqlite3_opened_every_init');
db.close();
