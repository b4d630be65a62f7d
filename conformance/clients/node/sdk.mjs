// One release of the official TypeScript client: node sdk.mjs <package> <url>

import { drive, only, textOf } from './driver.mjs';

const { Client } = await import(`${only()}/client/index.js`);
const { StreamableHTTPClientTransport } = await import(`${only()}/client/streamableHttp.js`);

await drive(async (url, said) => {
  const client = new Client({ name: 'typescript', version: '1' });
  client.onerror = said.trouble;
  const transport = new StreamableHTTPClientTransport(new URL(url));
  await client.connect(transport);
  return {
    version: transport.protocolVersion,
    call: async (name) =>
      textOf(
        await client.callTool({ name, arguments: {} }, undefined, { onprogress: ({ progress }) => said.progress(name, progress) }),
      ),
    close: async () => {
      client.onerror = undefined; // it reports the streams that it cuts itself as errors
      await transport.terminateSession();
      await client.close();
    },
  };
});
