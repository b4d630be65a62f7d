// Many clients of one release of the official TypeScript client in one process, for `make chaos`: node many.mjs <package>
//
// Each line of stdin is a question: {"n", "do": "open" | "call" | "close", "session", "url", "work"}. Each is answered by a line {"n", "text"}
// or {"n", "error"}. Progress comes as {"of", "text"}. The end of stdin ends the process.

import { createInterface } from 'node:readline';

const only = process.argv[2];
const { Client } = await import(`${only}/client/index.js`);
const { StreamableHTTPClientTransport } = await import(`${only}/client/streamableHttp.js`);

const sessions = new Map();
const say = (answer) => process.stdout.write(JSON.stringify(answer) + '\n');

const does = {
  open: async ({ session, url }) => {
    const client = new Client({ name: 'typescript', version: '1' });
    client.onerror = () => {}; // what it reports is also the error of a call
    // By default it gives up after two tries without a word, and a call then waits for its own time-out.
    const reconnectionOptions = {
      initialReconnectionDelay: 500,
      maxReconnectionDelay: 2000,
      reconnectionDelayGrowFactor: 1.5,
      maxRetries: 50,
    };
    const transport = new StreamableHTTPClientTransport(new URL(url), { reconnectionOptions });
    sessions.set(session, { client, transport });
    await client.connect(transport);
    return { text: transport.sessionId };
  },
  call: async ({ session, work }) => {
    const result = await sessions
      .get(session)
      .client.callTool({ name: 'work', arguments: work }, undefined, {
        onprogress: ({ message }) => say({ of: work.call, text: message }),
        timeout: 10 * 60 * 1000,
      });
    return { text: result.content.map((c) => c.text).join(''), isError: result.isError ?? false };
  },
  close: async ({ session }) => {
    const { client, transport } = sessions.get(session);
    sessions.delete(session);
    try {
      await transport.terminateSession();
    } finally {
      await client.close();
    }
    return { text: '' };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const question = JSON.parse(line);
  does[question.do](question).then(
    (answer) => say({ n: question.n, ...answer }),
    (error) => say({ n: question.n, error: String(error?.message ?? error) || 'error' }),
  );
}
process.exit(0);
