// The checks that each scenario of the suite is known to make, by revision of the specification, for tasks, and for a client. A check that is
// made several times is listed as often.

// Scenarios with one check of their own, named after the scenario, besides that of the schema.
const named = (names) => Object.fromEntries(names.trim().split(/\s+/).map((name) => [name, [name, 'wire-schema-valid']]));

// checks puts a prefix before each name.
const checks = (prefix, names) => names.trim().split(/\s+/).map((name) => prefix + name);

const times = (n, id) => Array(n).fill(id);

const both = {
  ...named(`completion-complete
    prompts-get-embedded-resource prompts-get-simple prompts-get-with-args prompts-get-with-image prompts-list
    resources-list resources-read-binary resources-read-text resources-templates-read
    tools-call-audio tools-call-embedded-resource tools-call-error tools-call-image tools-call-mixed-content
    tools-call-simple-text tools-call-with-progress`),
  'server-sse-multiple-streams': ['server-accepts-multiple-post-streams', 'server-sse-streams-functional'],
  'dns-rebinding-protection': ['localhost-host-rebinding-rejected', 'localhost-host-valid-accepted'],
  'json-schema-2020-12': [
    ...checks('json-schema-2020-12-', 'tool-found $schema $defs additionalProperties'),
    ...['composition-keywords', 'conditional-keywords', 'anchor-keyword'].map((key) => `sep-2106-${key}-preserved`),
    'wire-schema-valid',
  ],
};

const legacy = {
  ...named(`logging-set-level ping resources-subscribe resources-unsubscribe
    tools-call-elicitation tools-call-sampling tools-call-with-logging`),
  'server-initialize': ['server-initialize', 'server-session-id-visible-ascii', 'wire-schema-valid'],
  'server-session-lifecycle': checks('server-session-', 'initialized-accepted delete-accepted terminated-returns-404'),
  'server-sse-polling': checks('server-sse-', 'priming-event retry-field disconnect-resume'),
  'elicitation-sep1034-defaults': [
    ...['string', 'integer', 'number', 'enum', 'boolean'].map((type) => `elicitation-sep1034-${type}-default`),
    'wire-schema-valid',
  ],
  'elicitation-sep1330-enums': [
    ...checks('elicitation-sep1330-', 'untitled-single titled-single legacy-enumnames untitled-multi titled-multi'),
    'wire-schema-valid',
  ],
  'tools-list': ['tools-list', 'tools-name-format', 'wire-schema-valid'],
};

// Scenarios about results that ask for input (SEP-2322), and their checks.
const inputRequired = {
  'basic-elicitation': 'elicitation-incomplete elicitation-complete',
  'basic-list-roots': 'list-roots-incomplete list-roots-complete',
  'basic-sampling': 'sampling-incomplete sampling-complete',
  'capability-check': 'respect-client-capabilities',
  'ignore-extra-params': 'ignore-unexpected-params',
  'missing-input-response': 'missing-response-rerequests',
  'multi-round': 'multi-round-r1 multi-round-r2 multi-round-r3',
  'multiple-input-requests': 'multiple-inputs-incomplete multiple-inputs-complete',
  'non-tool-request': 'non-tool-incomplete non-tool-complete',
  'request-state': 'request-state-incomplete request-state-complete',
  'result-type': 'result-type-included',
  'tampered-state': 'reject-tampered-state',
  'unsupported-methods': 'not-on-unsupported-requests',
  'validate-input': 'validate-input-responses error-on-protocol-error',
};

const modern = {
  ...Object.fromEntries(
    Object.entries(inputRequired).map(([name, ids]) => [
      `input-required-result-${name}`,
      [...checks('sep-2322-', ids), 'wire-schema-valid'],
    ]),
  ),
  caching: [
    ...['tools-list', 'prompts-list', 'resources-list', 'resources-templates-list', 'resources-read'].map(
      (method) => `sep-2549-${method}-caching-hints`,
    ),
    ...checks('sep-2549-', 'ttl-non-negative cache-scope-valid'),
    'wire-schema-valid',
  ],
  'http-header-validation': [
    ...times(5, 'sep-2243-server-reject-invalid-headers'),
    ...times(5, 'sep-2243-server-reject-error-code'),
    ...times(2, 'sep-2243-header-name-case-insensitive'),
    'sep-2243-server-accepts-whitespace-header-value',
    'wire-schema-valid',
  ],
  'http-custom-header-server-validation': [
    'sep-2243-server-decode-base64',
    ...times(2, 'sep-2243-server-reject-invalid-param-chars'),
    ...times(3, 'sep-2243-server-reject-param-mismatch'),
    ...times(3, 'sep-2243-server-validate-param-match'),
    'wire-schema-valid',
  ],
  'sep-2164-resource-not-found': [...checks('sep-2164-', 'no-empty-contents error-code data-uri'), 'wire-schema-valid'],
  'server-stateless': [
    ...checks('sep-2575-request-meta-', 'invalid-missing-meta invalid-missing-protocol-version invalid-missing-client-capabilities'),
    'sep-2575-request-meta-client-info-optional',
    ...times(3, 'sep-2575-http-server-meta-invalid-400'),
    'sep-2575-discover-capabilities-match-handlers',
    'sep-2575-missing-capability-http-400',
    ...checks(
      'sep-2575-server-',
      `implements-discover identifies-in-result-meta declares-prompts-in-discover unsupported-version-error
      rejects-undeclared-capability no-log-without-loglevel sends-subscription-ack tags-subscription-id
      honors-notification-filter sends-prompts-list-changed-on-subscription sends-tools-list-changed-on-subscription`,
    ),
    ...checks(
      'sep-2575-http-server-',
      `unsupported-version-400 header-mismatch-400 method-not-found-404 no-independent-requests-on-stream error-jsonrpc-id`,
    ),
    ...checks(
      'sep-2575-http-server-method-not-found-404-',
      'initialize ping logging-setlevel resources-subscribe resources-unsubscribe',
    ),
  ],
  'tools-list': ['tools-list', 'tools-name-format', 'tools-list-deterministic-order', 'wire-schema-valid'],
};

// The extension io.modelcontextprotocol/tasks (SEP-2663), which is on no revision's timeline. The scenarios that take longest come first, because
// conformance/run starts them in this order.
const tasks = {
  'tasks-lifecycle': [
    'tasks-sync-tool-call',
    ...checks(
      'sep-2663-',
      `result-type-task-on-create tasks-get-status-working tasks-get-status-completed tool-error-uses-completed-status
      tasks-get-status-failed cancel-ack-empty-result`,
    ),
    'tasks-cancel-terminal-idempotent-ack',
    'wire-schema-valid',
  ],
  'tasks-dispatch-and-envelope': [
    ...checks(
      'tasks-',
      `removed-tasks-list server-directed-creation-no-hint immediate-result-shortcut
      result-type-complete-on-non-task-responses`,
    ),
    ...checks(
      'sep-2663-',
      `tasks-result-removed-method-not-found legacy-task-param-ignored durable-create-strong-consistency
      tasks-get-invalid-task-id-32602`,
    ),
    'wire-schema-valid',
  ],
  'tasks-mrtr-input': [
    'sep-2663-tasks-get-status-input-required',
    ...checks('tasks-mrtr-', 'tasks-update-resumes partial-fulfillment'),
    'wire-schema-valid',
  ],
  'tasks-wire-fields': [
    ...checks('tasks-', 'wire-field-renames no-early-ttl-expiry no-related-task-meta-on-inlined-result'),
    'wire-schema-valid',
  ],
  'tasks-mrtr-composition': ['sep-2663-mrtr-synchronous-before-task-creation', 'wire-schema-valid'],
  'tasks-capability-negotiation': [
    ...checks('tasks-', 'extension-advertised per-request-meta-opt-in'),
    ...checks('sep-2663-', 'tasks-methods-non-declaring server-rejects-undeclared-client'),
    'wire-schema-valid',
  ],
  'tasks-request-headers': [
    ...checks('tasks-headers-', 'tolerate-mcp-method-on-tools-call reject-mismatched-method'),
    ...checks('sep-2663-', 'routing-headers-accepted-on-tasks-get server-rejects-mismatched-mcp-name-on-tasks-get'),
    'wire-schema-valid',
  ],
  'tasks-request-state-removal': [
    ...checks('tasks-', 'create-result-no-request-state get-detailed-no-request-state'),
    'wire-schema-valid',
  ],
  'tasks-required-task-error': [
    ...checks('sep-2663-server-returns-missing-capability-', 'when-required data-shape'),
    'wire-schema-valid',
  ],
  'tasks-status-notifications': ['tasks-status-notifications'],
};

// Checks that the suite never makes, whatever the server does, and the status that it gives them instead. When it makes one, it must leave this
// list: a listed check with another status is not as expected.
export const vacuous = { tasks: { 'tasks-status-notifications:tasks-status-notifications': 'SKIPPED' } };

// What the suite's own servers check about a client (run-client), at 2025-11-25.
const client = {
  initialize: ['mcp-client-initialization'],
  tools_call: ['tool-add-numbers', 'wire-schema-valid'],
  'sse-retry': checks('client-sse-', 'graceful-reconnect retry-timing last-event-id'),
  'elicitation-sep1034-client-defaults': ['string', 'integer', 'number', 'enum', 'boolean'].map(
    (type) => `client-elicitation-sep1034-${type}-default`,
  ),
  'json-schema-2020-12-preservation': [
    ...checks('json-schema-2020-12-client-', 'tool-found echo-completed $schema-preserved $defs-preserved additionalProperties-preserved'),
    ...['composition-keywords', 'conditional-keywords', 'anchor-keyword'].map((key) => `sep-2106-client-${key}-preserved`),
    'wire-schema-valid',
  ],
};

export const expected = {
  '2025-11-25': { ...both, ...legacy },
  '2026-07-28': { ...both, ...modern },
  tasks,
  client,
};
