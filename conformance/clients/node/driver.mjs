// What the programs of this folder share: each is a client as its users run it, driven line by line by the tests of the conformance
// module, as the client in ../gosdk is.
//
//   node <program>.mjs [<package>] <url>
//
// A program hands its way to connect to drive: it gets the URL and `said`, and returns the version that was negotiated (as far as the
// library tells), `call`, which calls a tool and returns the text of its result, and `close`. What it has to say goes through `said`:
// progress, and trouble. What the library writes to stderr by itself is looked at too. A library that would give up connecting after a
// few seconds gets more of them: the machine may be busy.

import { createInterface } from 'node:readline';

const say = (kind, of, text) => process.stdout.write(JSON.stringify({ kind, of, text: String(text) }) + '\n');

const said = {
  progress: (of, value) => say('progress', of, value),
  trouble: (error) => say('trouble', '', error?.message ?? error),
};

// only tells the name of the package that a program shall use: several releases live side by side under names of their own.
export const only = () => process.argv[2];

// textOf is the text of a result.
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
