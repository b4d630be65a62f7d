// Checks the results that the suite wrote: every check that a scenario is known to make must be there, as often as expected, with SUCCESS.
//
//   node check.mjs <results> <revision|tasks|client> [<expected failures>]
//
// The suite succeeds also if it could not test something (INFO, SKIPPED), or did not run a scenario at all. Here both are failures, and so is
// an unknown scenario. The file of expected failures has the suite's format, with a comment at each entry: "# <revision> <status>: <reason>".
// A listed check must have that status at least once, and otherwise SUCCESS. So must one that the suite never makes (vacuous). The output is a line for each check. The exit code is 1 if a
// check is not as expected.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expected, vacuous } from './expected.mjs';

const [dir, revision, file] = process.argv.slice(2);
const scenarios = expected[revision];
if (!scenarios) {
  console.log(`conformance: check.mjs does not know revision ${revision}`);
  process.exit(1);
}

// The suite's record of the exchange, always with INFO: not checks. With another status they are checks.
const trace = new Set([
  ...['outgoing-request', 'incoming-response', 'incoming-sse-event', 'stream-closed'],
  ...['incoming-request', 'outgoing-response', 'outgoing-sse-event', 'outgoing-stream-close', 'server-info'], // of a client
]);

let passed = 0;
let failed = 0;
function report(ok, scenario, id, text) {
  ok ? passed++ : failed++;
  console.log(`${ok ? 'ok  ' : 'FAIL'} ${scenario}: ${id}: ${text}`);
}

// readExceptions returns the expected status of each check of this revision that does not succeed, by "scenario:check".
function readExceptions() {
  const exceptions = new Map(Object.entries(vacuous[revision] ?? {}));
  const lines = file ? readFileSync(file, 'utf8').split('\n') : [];
  for (const line of lines.filter((line) => /^\s+- /.test(line))) {
    const entry = /^\s+- (\S+:\S+) # (\S+) (FAILURE|WARNING|INFO|SKIPPED): \S/.exec(line);
    if (!entry || !expected[entry[2]]?.[entry[1].split(':')[0]]?.includes(entry[1].split(':')[1])) {
      report(false, file, line.trim(), 'this names no check of a revision, its status and a reason');
    } else if (entry[2] === revision) {
      exceptions.set(entry[1], entry[3]);
    }
  }
  return exceptions;
}

// scenarioOf removes the time, and the prefix that the suite adds, from the name of a result.
const scenarioOf = (name) => name.replace(/-\d{4}-\d{2}-\d{2}T[\d-]+Z$/, '').replace(/^server-/, '');

function judge(scenario) {
  const ids = scenarios[scenario];
  const runs = results.filter((name) => scenarioOf(name) === scenario);
  if (runs.length !== 1) {
    return report(false, scenario, '-', `expected one result, there are ${runs.length}`);
  }
  const path = join(dir, runs[0], 'checks.json');
  if (!existsSync(path)) {
    return report(false, scenario, '-', 'the suite did not run it');
  }
  const checks = JSON.parse(readFileSync(path, 'utf8')).filter((c) => !(trace.has(c.id) && c.status === 'INFO'));
  for (const id of new Set(ids)) {
    const found = checks.filter((c) => c.id === id);
    const often = ids.filter((other) => other === id).length;
    if (found.length !== often) {
      report(false, scenario, id, `made ${found.length} times, not ${often}`);
    }
    const exception = exceptions.get(`${scenario}:${id}`);
    if (exception && !found.some((c) => c.status === exception)) {
      report(false, scenario, id, `it is listed with ${exception}, which it no longer has`);
    }
    for (const c of found) {
      const ok = c.status === 'SUCCESS' || c.status === exception;
      const text = c.status === 'SUCCESS' ? c.status : `${c.status}: ${c.errorMessage ?? c.description ?? ''}`;
      report(ok, scenario, id, ok && c.status !== 'SUCCESS' ? `as listed: ${text}` : text);
    }
  }
  for (const c of checks.filter((c) => !ids.includes(c.id))) {
    report(false, scenario, c.id, ['unexpected', c.status, c.errorMessage].filter(Boolean).join(': '));
  }
}

const exceptions = readExceptions();
const results = readdirSync(dir, { withFileTypes: true }).filter((e) => e.isDirectory()).map((e) => e.name);
for (const scenario of Object.keys(scenarios)) {
  judge(scenario);
}
for (const name of results.filter((name) => !(scenarioOf(name) in scenarios))) {
  report(false, scenarioOf(name), '-', 'check.mjs does not know which checks to expect');
}
console.log(`conformance: ${passed} checks as expected, ${failed} not`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
