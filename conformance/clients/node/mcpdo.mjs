// mcpdo, the MCP Inspector's command line that keeps its connection in a daemon: node mcpdo.mjs <url>. It uses the extension for tasks by itself.
// A question ends the command, and another command answers it. It runs one command after the other, and does not say which task it waits for.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, watch } from 'node:fs';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { drive, textOf } from './driver.mjs';

const file = (name) => fileURLToPath(new URL(`node_modules/@modelcontextprotocol/inspector/clients/mcpdo/build/${name}.js`, import.meta.url));
const folder = `${process.env.HOME}/mcpdo`;
const env = {
  ...process.env,
  MCP_INSPECTOR_DAEMON_DIR: folder,
  MCP_INSPECTOR_DAEMON_TOKEN: 'test',
  MCP_INSPECTOR_SECRET_STORE: 'file',
};

// run runs a command and returns what it prints.
async function run(...args) {
  const child = spawn(process.execPath, [file('mcp-bin'), '--format', 'json', '--connection', 'rejoin', ...args], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [out, problem] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  if (!out) throw new Error(JSON.parse(problem.trim().split('\n').at(-1)).error.message);
  return JSON.parse(out);
}

await drive(async (url, said) => {
  mkdirSync(folder, { mode: 0o700 });
  const listens = new Promise((resolve) => watch(folder, { persistent: false }, (_, name) => name === 'mcpdod.sock' && resolve()));
  const daemon = spawn(process.execPath, [file('mcpdod')], { env, stdio: 'ignore' }); // else the first command starts one, which outlives the test
  await listens;
  await run('connect', url, '--transport', 'http', '--era', 'auto');
  return {
    call: async (name) => {
      let result = await run('tools/call', name);
      while (result.elicitationPending) {
        said.asked(result.elicitationPending.message);
        result = await run('elicitation/respond', result.elicitationPending.elicitationId, 'name:=Ann');
      }
      return textOf(result);
    },
    close: async () => {
      await run('disconnect');
      daemon.kill();
    },
  };
});
