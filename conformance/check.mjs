// Judges what the suite wrote: every check that a scenario is known to make must be there, once, with SUCCESS.
//
//   node check.mjs <results>
//
// The suite ends well where it could not test something (INFO, SKIPPED), and where it did not run a scenario at all.
// Here both fail, and so does a scenario that is not known. One line per check; the exit code is 1 if any of them is not as
// expected.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

// Scenarios with one check of their own, named after them, beside that of the wire's schema.
const simple = `completion-complete logging-set-level ping
  prompts-get-embedded-resource prompts-get-simple prompts-get-with-args prompts-get-with-image prompts-list
  resources-list resources-read-binary resources-read-text resources-subscribe resources-templates-read resources-unsubscribe
  tools-call-audio tools-call-elicitation tools-call-embedded-resource tools-call-error tools-call-image
  tools-call-mixed-content tools-call-sampling tools-call-simple-text tools-call-with-logging tools-call-with-progress`;

const expected = {
  'server-sse-polling': ['server-sse-priming-event', 'server-sse-retry-field', 'server-sse-disconnect-resume'],
  'server-sse-multiple-streams': ['server-accepts-multiple-post-streams', 'server-sse-streams-functional'],
  'server-initialize': ['server-initialize', 'server-session-id-visible-ascii', 'wire-schema-valid'],
  'server-session-lifecycle': [
    'server-session-initialized-accepted',
    'server-session-delete-accepted',
    'server-session-terminated-returns-404',
  ],
  'dns-rebinding-protection': ['localhost-host-rebinding-rejected', 'localhost-host-valid-accepted'],
  'elicitation-sep1034-defaults': [
    ...['string', 'integer', 'number', 'enum', 'boolean'].map((type) => `elicitation-sep1034-${type}-default`),
    'wire-schema-valid',
  ],
  'elicitation-sep1330-enums': [
    ...['untitled-single', 'titled-single', 'legacy-enumnames', 'untitled-multi', 'titled-multi'].map((e) => `elicitation-sep1330-${e}`),
    'wire-schema-valid',
  ],
  'json-schema-2020-12': [
    ...['tool-found', '$schema', '$defs', 'additionalProperties'].map((key) => `json-schema-2020-12-${key}`),
    ...['composition-keywords', 'conditional-keywords', 'anchor-keyword'].map((key) => `sep-2106-${key}-preserved`),
    'wire-schema-valid',
  ],
  'tools-list': ['tools-list', 'tools-name-format', 'wire-schema-valid'],
  ...Object.fromEntries(simple.split(/\s+/).map((name) => [name, [name, 'wire-schema-valid']])),
};

// Not checks: the suite's record of the exchange, always INFO. With another status they are checks.
const trace = new Set(['outgoing-request', 'incoming-response', 'incoming-sse-event', 'stream-closed']);

let passed = 0;
let failed = 0;
function report(ok, scenario, id, text) {
  ok ? passed++ : failed++;
  console.log(`${ok ? 'ok  ' : 'FAIL'} ${scenario}: ${id}: ${text}`);
}

// scenarioOf takes the time, and the prefix that the suite adds, off the name of a result.
const scenarioOf = (name) => name.replace(/-\d{4}-\d{2}-\d{2}T[\d-]+Z$/, '').replace(/^server-/, '');

function judge(dir, scenario) {
  const ids = expected[scenario];
  const runs = results.filter((name) => scenarioOf(name) === scenario);
  if (runs.length !== 1) {
    return report(false, scenario, '-', `expected one result, there are ${runs.length}`);
  }
  const file = join(dir, runs[0], 'checks.json');
  if (!existsSync(file)) {
    return report(false, scenario, '-', 'the suite did not run it');
  }
  const checks = JSON.parse(readFileSync(file, 'utf8')).filter((c) => !(trace.has(c.id) && c.status === 'INFO'));
  for (const id of ids) {
    const found = checks.filter((c) => c.id === id);
    if (found.length !== 1) {
      report(false, scenario, id, found.length ? `made ${found.length} times` : 'missing');
    }
    for (const c of found) {
      report(c.status === 'SUCCESS', scenario, id, [c.status, c.status !== 'SUCCESS' && c.errorMessage].filter(Boolean).join(': '));
    }
  }
  for (const c of checks.filter((c) => !ids.includes(c.id))) {
    report(false, scenario, c.id, ['unexpected', c.status, c.errorMessage].filter(Boolean).join(': '));
  }
}

const [dir] = process.argv.slice(2);
const results = readdirSync(dir, { withFileTypes: true }).filter((e) => e.isDirectory()).map((e) => e.name);
for (const scenario of Object.keys(expected)) {
  judge(dir, scenario);
}
for (const name of results.filter((name) => !(scenarioOf(name) in expected))) {
  report(false, scenarioOf(name), '-', 'check.mjs does not know which checks to expect');
}
console.log(`conformance: ${passed} checks as expected, ${failed} not`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
