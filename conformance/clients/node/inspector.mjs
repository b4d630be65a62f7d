// The MCP Inspector's command line, which connects anew for each call: node inspector.mjs legacy|auto <url>. It uses the extension for tasks by
// itself. It cannot be asked, and does not say which task it waits for.

import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { drive, only, textOf } from './driver.mjs';

const launcher = fileURLToPath(new URL('node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js', import.meta.url));

await drive(async (url) => ({
  call: async (name) => {
    const child = spawn(
      process.execPath,
      [launcher, '--cli', url, '--transport', 'http', '--protocol-era', only(), '--method', 'tools/call', '--tool-name', name],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    child.stderr.pipe(process.stderr);
    const [out, problem] = await Promise.all([text(child.stdout), text(child.stderr)]);
    if (!out) throw new Error(JSON.parse(problem.trim().split('\n').at(-1)).error.message);
    return textOf(JSON.parse(out));
  },
  close: async () => {},
}));
