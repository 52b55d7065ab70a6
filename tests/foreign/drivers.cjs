// Runs in Node: `drivers.cjs DRIVER VERB PATH TMP [STATEMENT...]`. Ends with the driver's own error.
const [driver, verb, path, tmp, ...statements] = process.argv.slice(2);

const open = {
  'node:sqlite': (path) => new (require('node:sqlite').DatabaseSync)(path, { timeout: 200 }),
  'better-sqlite3': (path) => new (require('better-sqlite3'))(path, { timeout: 200 }),
  libsql: (path) => new (require('libsql'))(path, { timeout: 0.2 }),
  'node-sqlite3-wasm': (path) => new (require('node-sqlite3-wasm').Database)(path),
  '@tursodatabase/database': async (path) => await require('@tursodatabase/database').connect(path),
};

async function main() {
  const db = await open[driver](path);
  if (verb === 'backup') {
    const to = tmp + '/copy.db';
    await (driver === 'node:sqlite' ? require('node:sqlite').backup(db, to) : db.backup(to));
  } else {
    for (const sql of statements) console.log(await db.exec(sql));
  }
  await db.close();
}
main().catch((error) => {
  console.error(error.message ?? String(error));
  process.exitCode = 1;
});
