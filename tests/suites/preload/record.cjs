// A reporter of mocha: what each test said, as suites_record.py writes it.
const fs = require('fs');
const path = require('path');

module.exports = class {
  constructor(runner) {
    const record = (outcome) => (test, error) => {
      const line = JSON.stringify([outcome, `${path.basename(test.file)}: ${test.fullTitle()}`, String(error ?? '').slice(0, 1000)]);
      fs.appendFileSync(process.env.SUITES_RESULTS, line + '\n');
    };
    runner.on('pass', record('passed'));
    runner.on('fail', record('failed'));
    runner.on('pending', record('skipped'));
  }
};
