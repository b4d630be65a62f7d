// The MCP Inspector's command line, which connects anew for each call: node inspector.mjs <url>

import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { drive, textOf } from './driver.mjs';

const launcher = fileURLToPath(new URL('node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js', import.meta.url));

await drive(async (url) => ({
  call: async (name) => {
    const child = spawn(
      process.execPath,
      [launcher, '--cli', url, '--transport', 'http', '--method', 'tools/call', '--tool-name', name],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const out = await text(child.stdout);
    return textOf(JSON.parse(out));
  },
  close: async () => {},
}));
