// The OpenAI Agents SDK: node openai.mjs <url>

import { MCPServerStreamableHttp } from '@openai/agents';
import { drive } from './driver.mjs';

await drive(async (url) => {
  const server = new MCPServerStreamableHttp({ url, clientSessionTimeoutSeconds: 30 });
  await server.connect();
  await server.listTools();
  return {
    call: async (name) => (await server.callTool(name, {})).map((c) => c.text).join(''),
    close: () => server.close(),
  };
});
