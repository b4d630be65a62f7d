// LangChain's adapters: node langchain.mjs <url>

import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { drive } from './driver.mjs';

await drive(async (url, said) => {
  let calling = '';
  const client = new MultiServerMCPClient({
    mcpServers: { rejoin: { transport: 'http', url } },
    onProgress: ({ progress }) => said.progress(calling, progress),
  });
  const tools = await client.getTools();
  return {
    call: (name) => {
      calling = name;
      return tools.find((tool) => tool.name === name).invoke({});
    },
    close: () => client.close(),
  };
});
