// The second generation of the official TypeScript client, in each way in which it may choose the modern era: node eras.mjs <way> <url>.
//
//   auto    it probes, and falls back
//   tasks   likewise, and it declares the extension for tasks, which it does not know
//   pinned  it probes, and does not fall back
//   prior   it does not probe, because the application says that the server is modern

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { drive, only, textOf } from './driver.mjs';

const version = '2026-07-28';
const ways = {
  auto: { versionNegotiation: { mode: 'auto' } },
  tasks: { versionNegotiation: { mode: 'auto' }, capabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } },
  pinned: { versionNegotiation: { mode: { pin: version } } },
  prior: {},
};
const known = {
  kind: 'modern',
  discover: {
    resultType: 'complete',
    supportedVersions: [version],
    capabilities: { tools: {} },
    serverInfo: { name: 'known', version: '1' },
    ttlMs: 0,
    cacheScope: 'private',
  },
};

await drive(async (url, said) => {
  const client = new Client({ name: 'typescript', version: '1' }, ways[only()]);
  client.onerror = said.trouble;
  await client.connect(new StreamableHTTPClientTransport(new URL(url)), only() === 'prior' ? { prior: known } : undefined);
  return {
    version: client.getNegotiatedProtocolVersion(),
    call: async (name) =>
      textOf(await client.callTool({ name, arguments: {} }, { onprogress: ({ progress }) => said.progress(name, progress) })),
    close: () => client.close(),
  };
});
