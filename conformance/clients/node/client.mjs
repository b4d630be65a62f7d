// The second generation of the official TypeScript client: node client.mjs default|auto <url>. With its defaults it uses one era.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { drive, only, textOf } from './driver.mjs';

await drive(async (url, said) => {
  const client = new Client(
    { name: 'typescript', version: '1' },
    only() === 'auto' ? { versionNegotiation: { mode: 'auto' } } : undefined,
  );
  client.onerror = said.trouble;
  const transport = new StreamableHTTPClientTransport(new URL(url));
  await client.connect(transport);
  return {
    version: client.getNegotiatedProtocolVersion(),
    call: async (name) =>
      textOf(await client.callTool({ name, arguments: {} }, { onprogress: ({ progress }) => said.progress(name, progress) })),
    close: async () => {
      client.onerror = undefined;
      await transport.terminateSession();
      await client.close();
    },
  };
});
