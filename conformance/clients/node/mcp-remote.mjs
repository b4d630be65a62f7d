// mcp-remote, which connects programs that support only stdio to servers on HTTP: node mcp-remote.mjs <url>. It uses the official TypeScript
// client.

import { Client } from 'sdk-1.32.2/client/index.js';
import { StdioClientTransport } from 'sdk-1.32.2/client/stdio.js';
import { fileURLToPath } from 'node:url';
import { drive, textOf } from './driver.mjs';

const proxy = fileURLToPath(new URL('node_modules/mcp-remote/dist/proxy.js', import.meta.url));

await drive(async (url, said) => {
  const client = new Client({ name: 'typescript', version: '1' });
  client.onerror = said.trouble;
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [proxy, url, '--allow-http', '--transport', 'http-only'],
      env: process.env,
      stderr: 'inherit',
    }),
  );
  return {
    call: async (name) =>
      textOf(
        await client.callTool({ name, arguments: {} }, undefined, { onprogress: ({ progress }) => said.progress(name, progress) }),
      ),
    close: () => client.close(),
  };
});
