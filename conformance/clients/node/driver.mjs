// What the programs of this folder share. Each is a client as its users run it, controlled line by line by the tests of the conformance
// module, like the client in ../gosdk.
//
//   node <program>.mjs [<package>] <url>
//
// A program passes a function to drive that connects. The function gets the URL and `said`, and returns the negotiated version (if the
// library tells it), `call`, which calls a tool and returns the text of its result, and `close`. It reports progress and trouble with `said`.
// The tests also read what the library writes to stderr. A library that gives up connecting after a few seconds gets a longer time-out: the
// machine may be busy.

import { createInterface } from 'node:readline';

const say = (kind, of, text) => process.stdout.write(JSON.stringify({ kind, of, text: String(text) }) + '\n');

const said = {
  progress: (of, value) => say('progress', of, value),
  trouble: (error) => say('trouble', '', error?.message ?? error),
};

// only has the name of the package to use: several releases are installed under different names.
export const only = () => process.argv[2];

// textOf returns the text of a result.
export const textOf = (result) => result.content.map((c) => c.text).join('');

export async function drive(connect) {
  try {
    const client = await connect(process.argv.at(-1), said);
    say('connected', '', client.version ?? '');
    const running = [];
    for await (const line of createInterface({ input: process.stdin })) {
      const name = line.split(' ')[1];
      running.push(
        client.call(name).then(
          (text) => say('result', name, text),
          (error) => say('error', name, error?.message ?? error),
        ),
      );
    }
    await Promise.all(running);
    await client.close();
    say('ended', '', '');
  } catch (error) {
    say('failed', '', error?.stack ?? error);
    process.exitCode = 1;
  }
}
