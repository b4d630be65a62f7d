// The official extension for tasks: node ext-tasks.mjs once|again <url>. The extension leaves it to the application to send its requests and to
// repeat them. With again this one lets it repeat a poll whose connection ended; with once, as by default, nothing is repeated.

import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createApplicationInputHandler, createTaskSessionFromClient, DispatchError, resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client';
import { drive, only, textOf } from './driver.mjs';

const info = { name: 'typescript', version: '1' };
const version = '2026-07-28';
const extension = 'io.modelcontextprotocol/tasks';
// The Client must list the extension too, because a server may leave a client that does not list it to the legacy era.
const capabilities = { elicitation: {}, extensions: { [extension]: {} } };

await drive(async (url, said) => {
  const client = new Client(info, { capabilities, versionNegotiation: { mode: 'auto' } });
  client.onerror = said.trouble;
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const served = client.getServerCapabilities()?.extensions?.[extension];
  const session = createTaskSessionFromClient(client, {
    endpointId: 'rejoin',
    rawDispatch: dispatcher(url, said),
    v2RequestFraming: { protocolVersion: version, clientInfo: info, clientCapabilities: capabilities },
    onInputRequest: createApplicationInputHandler({
      elicitation: ({ params }) => {
        said.asked(params.message);
        return { action: 'accept', content: { name: 'Ann' } };
      },
    }),
    onError: said.trouble,
  });
  const running = {};
  const settle = async (name, execution) => {
    running[name] = execution;
    if (execution.kind === 'task') said.task(name, execution.serializeReference());
    const { outcome } = await execution.settle({ onEvent: ({ task }) => task?.statusMessage && said.status(name, task.statusMessage) });
    return textOf(resultFromTaskOutcome(outcome));
  };
  return {
    version: client.getNegotiatedProtocolVersion(),
    call: async (name) => settle(name, await session.callTool(name, {}, served ? { metadata: { progressToken: name } } : {})),
    resume: async (name, reference) => settle(name, await session.resumeTask(reference)),
    cancel: (name) => running[name].cancel(),
    close: async () => {
      client.onerror = undefined;
      await session.close();
      await client.close();
    },
  };
});

// dispatcher returns the function that sends the requests of the extension.
function dispatcher(url, said) {
  let id = 0;
  const send = async ({ method, params }, { signal, context } = {}) => {
    const response = await fetch(url, {
      method: 'POST',
      signal,
      headers: {
        Accept: 'application/json, text/event-stream',
        'Content-Type': 'application/json',
        'Mcp-Protocol-Version': version,
        'Mcp-Method': method,
        ...(params.name && { 'Mcp-Name': params.name }),
        ...context?.headers,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params }),
    });
    for await (const message of messages(response)) {
      const { result, error, params } = message;
      if (result) return { kind: 'result', result };
      if (error) return { kind: 'error', error };
      if (message.method === 'notifications/progress') said.progress(params.progressToken, params.progress);
    }
    throw new Error('the connection ended before the answer');
  };
  return (request, options) =>
    send(request, options).catch((error) => {
      throw only() === 'again' && request.method === 'tasks/get' ? new DispatchError(error.message, true, { cause: error }) : error;
    });
}

// messages yields the JSON-RPC messages of a response.
async function* messages(response) {
  if (response.headers.get('Content-Type') !== 'text/event-stream') {
    yield await response.json();
    return;
  }
  for await (const line of createInterface({ input: Readable.fromWeb(response.body) })) {
    if (line.startsWith('data: ')) yield JSON.parse(line.slice('data: '.length));
  }
}
