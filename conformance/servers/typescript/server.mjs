// A server of one of the two official TypeScript SDKs, for the tests of package client.
//
//   node server.mjs v1     @modelcontextprotocol/sdk
//   node server.mjs v2     @modelcontextprotocol/server, with @modelcontextprotocol/node
//
// It prints "listening on <url>". With "forgets" after the name it has no event store. Its tools report in log messages:
//
//   polls <n>    n times: sends a message, closes the stream, and waits until "go" is called
//   slow         sends "one", waits until "go" is called, sends "two"
//   quick        sends "one" and "two"
//   fails        returns an error
//   tell <text>  sends the text on the standalone stream; "" closes that stream
//   go           lets one waiting tool go on, or the next tool that will wait
//   runs <tool>  returns how often the tool was called

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

const [era, memory] = process.argv.slice(2);

async function load() {
  if (era === 'v1') {
    const { Server } = await import('@modelcontextprotocol/sdk/server/index.js');
    const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
    const { CallToolRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
    return {
      Server,
      Transport: StreamableHTTPServerTransport,
      call: CallToolRequestSchema,
      say: (extra, notification) => extra.sendNotification(notification),
      close: (extra) => extra.closeSSEStream?.(),
      closeStandalone: (extra) => extra.closeStandaloneSSEStream?.(),
    };
  }
  const { Server } = await import('@modelcontextprotocol/server');
  const { NodeStreamableHTTPServerTransport } = await import('@modelcontextprotocol/node');
  return {
    Server,
    Transport: NodeStreamableHTTPServerTransport,
    call: 'tools/call',
    say: (context, notification) => context.mcpReq.notify(notification),
    close: (context) => context.http?.closeSSE?.(),
    closeStandalone: (context) => context.http?.closeStandaloneSSE?.(),
  };
}

const lib = await load();

// Store is an event store with the SDKs' interface.
class Store {
  events = [];

  async storeEvent(stream, message) {
    this.events.push({ stream, message });
    return String(this.events.length - 1);
  }

  async getStreamIdForEventId(id) {
    return this.events[Number(id)]?.stream;
  }

  async replayEventsAfter(id, { send }) {
    const { stream } = this.events[Number(id)];
    for (let i = Number(id) + 1; i < this.events.length; i++) {
      if (this.events[i].stream === stream) {
        await send(String(i), this.events[i].message);
      }
    }
    return stream;
  }
}

// Each go lets one waiting tool through.
let goes = 0;
const waiting = [];
const turn = () => (goes > 0 ? void goes-- : new Promise((resolve) => waiting.push(resolve)));
const go = () => (waiting.length > 0 ? waiting.shift()() : void goes++);

const runs = {};

function connect() {
  const server = new lib.Server({ name: `typescript-${era}`, version: '1' }, { capabilities: { tools: {}, logging: {} } });
  const log = (data) => ({ method: 'notifications/message', params: { level: 'info', data } });
  const tools = {
    async polls(n, say, context) {
      for (let i = 0; i < Number(n); i++) {
        await say(String(i));
        lib.close(context);
        await turn();
      }
    },
    async slow(_, say) {
      await say('one');
      await turn();
      await say('two');
    },
    async quick(_, say) {
      await say('one');
      await say('two');
    },
    async fails() {
      throw Object.assign(new Error('no'), { code: -32050, data: { reason: 'test' } });
    },
    async tell(text, _, context) {
      text === '' ? lib.closeStandalone(context) : await server.notification(log(text));
    },
    go,
    runs: (tool) => String(runs[tool] ?? 0),
  };
  server.setRequestHandler(lib.call, async ({ params: { name, arguments: args } }, context) => {
    runs[name] = (runs[name] ?? 0) + 1;
    const text = await tools[name](args?.of ?? '', (data) => lib.say(context, log(data)), context);
    return { content: [{ type: 'text', text: text ?? 'done' }] };
  });
  const transport = new lib.Transport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => void transports.set(id, transport),
    onsessionclosed: (id) => void transports.delete(id),
    ...(memory === 'forgets' ? {} : { eventStore: new Store(), retryInterval: 20 }),
  });
  return server.connect(transport).then(() => transport);
}

const transports = new Map();
const server = createServer(async (req, res) => {
  const id = req.headers['mcp-session-id'];
  if (id !== undefined && !transports.has(id)) {
    res.writeHead(404).end();
    return;
  }
  await (transports.get(id) ?? (await connect())).handleRequest(req, res);
});
server.listen(0, '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${server.address().port}/mcp`));
process.stdin.on('end', () => process.exit(0)).resume(); // ends with the test
