// One release of Vercel's AI SDK: node ai-sdk.mjs <package> <url>

import { drive, only, textOf } from './driver.mjs';

const { createMCPClient } = await import(only());

await drive(async (url, said) => {
  const client = await createMCPClient({
    transport: { type: 'http', url },
    initializationOptions: { timeout: 30_000 },
    onUncaughtError: said.trouble,
  });
  const tools = await client.tools();
  return {
    call: async (name) => textOf(await tools[name].execute({}, { messages: [], toolCallId: name })),
    close: () => client.close(),
  };
});
