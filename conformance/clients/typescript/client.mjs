// One of the two official TypeScript clients, controlled line by line by the tests of the conformance module.
//
//   node client.mjs v1 <url>     @modelcontextprotocol/sdk
//   node client.mjs v2 <url>     @modelcontextprotocol/client, as a client of both eras; v2-legacy and v2-modern: of one
//
// It obeys and prints like the client in ../gosdk, and knows one more line: "again <tool>" calls a tool, then resumes that call twice, from
// its first event and from its last, and prints the outcome of the first resume as the result of "again". "listen" subscribes to changes, as
// clients of the modern era do.

import { createInterface } from 'node:readline';

const [era, url] = process.argv.slice(2);
const say = (kind, of, text) => process.stdout.write(JSON.stringify({ kind, of, text: String(text) }) + '\n');

// The two clients have different names for handlers.
async function load() {
  if (era === 'v1') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const types = await import('@modelcontextprotocol/sdk/types.js');
    return {
      Client,
      StreamableHTTPClientTransport,
      options: {},
      logged: types.LoggingMessageNotificationSchema,
      asked: types.ElicitRequestSchema,
      changed: types.ToolListChangedNotificationSchema,
      result: types.CallToolResultSchema,
    };
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  return {
    Client,
    StreamableHTTPClientTransport,
    options: { versionNegotiation: { mode: { v2: 'auto', 'v2-legacy': 'legacy', 'v2-modern': { pin: '2026-07-28' } }[era] } },
    logged: 'notifications/message',
    asked: 'elicitation/create',
    changed: 'notifications/tools/list_changed',
  };
}

const lib = await load();
const client = new lib.Client(
  { name: `typescript-${era}`, version: '1' },
  { capabilities: { elicitation: {} }, ...lib.options },
);
const transport = new lib.StreamableHTTPClientTransport(new URL(url));
let answer;
const answered = new Promise((resolve) => (answer = resolve));

client.onerror = (error) => say('trouble', '', error.message);
client.setNotificationHandler(lib.logged, ({ params }) => say('log', '', params.data));
client.setNotificationHandler(lib.changed, () => say('changed', '', ''));
client.setRequestHandler(lib.asked, async ({ params }) => {
  say('asked', '', params.message);
  await answered;
  return { action: 'accept', content: { name: 'Ann' } };
});

const text = (result) => result.content.map((c) => c.text).join('');
const request = (name, of, options) => {
  const message = { method: 'tools/call', params: { name } };
  const all = { onprogress: ({ progress }) => say('progress', of, progress), ...options };
  return era === 'v1' ? client.request(message, lib.result, all) : client.request(message, all);
};

async function call(name) {
  try {
    say('result', name, text(await request(name, name)));
  } catch (error) {
    say('error', name, error.message);
  }
}

async function again(name) {
  const tokens = [];
  try {
    say('result', name, text(await request(name, name, { onresumptiontoken: (token) => tokens.push(token) })));
    say('result', 'again', text(await request(name, 'again', { resumptionToken: tokens[0] })));
    // Nothing is left to be fetched, so this is not awaited.
    await transport.send({ jsonrpc: '2.0', id: 'late', method: 'tools/call', params: { name } }, { resumptionToken: tokens.at(-1) });
  } catch (error) {
    say('error', 'again', error.message);
  }
}

try {
  await client.connect(transport);
  say('connected', '', client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion);
  const running = [];
  for await (const line of createInterface({ input: process.stdin })) {
    const [verb, name] = line.split(' ');
    if (verb === 'answer') answer();
    else if (verb === 'listen') await client.listen({ toolsListChanged: true });
    else running.push(verb === 'again' ? again(name) : call(name));
  }
  await Promise.all(running);
  client.onerror = undefined; // v1 reports the streams that it cuts itself as errors
  await transport.terminateSession();
  await client.close();
  say('ended', '', '');
} catch (error) {
  say('failed', '', error.stack);
  process.exitCode = 1;
}
