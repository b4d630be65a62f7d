// Mastra's client: node mastra.mjs <url>

import { MCPClient } from '@mastra/mcp';
import { drive, textOf } from './driver.mjs';

await drive(async (url, said) => {
  const client = new MCPClient({
    servers: { rejoin: { url: new URL(url), enableProgressTracking: true, connectTimeout: 30_000 } },
  });
  let calling = '';
  await client.progress.onUpdate('rejoin', ({ progress }) => said.progress(calling, progress));
  const tools = await client.listTools();
  return {
    call: async (name) => {
      calling = name;
      return textOf(await tools[`rejoin_${name}`].execute({}, {}));
    },
    close: () => client.disconnect(),
  };
});
