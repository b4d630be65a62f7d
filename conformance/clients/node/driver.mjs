// What the programs of this folder share. Each is a client as its users run it, controlled line by line by the tests of the conformance
// module, like the client in ../gosdk.
//
//   node <program>.mjs [<package>] <url>
//
// A program passes a function to drive that connects. The function gets the URL and `said`, and returns the negotiated version (if the
// library tells it), `call`, which calls a tool and returns the text of its result, and `close`. It reports progress and trouble with `said`.
// The tests also read what the library writes to stderr. A library that gives up connecting after a few seconds gets a longer time-out: the
// machine may be busy.
//
// A program whose library knows tasks also returns `cancel`, which cancels the task of a tool, and `resume`, which waits for a task of an
// earlier process and returns the text of its result. It reports the task, as `resume` needs it, its status messages and its questions.

import { createInterface } from 'node:readline';

const say = (kind, of, text) => process.stdout.write(JSON.stringify({ kind, of, text: String(text) }) + '\n');

const said = {
  progress: (of, value) => say('progress', of, value),
  trouble: (error) => say('trouble', '', error?.message ?? error),
  task: (of, reference) => say('task', of, JSON.stringify(reference)),
  status: (of, message) => say('status', of, message),
  asked: (message) => say('asked', '', message),
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
      const [verb, name, task] = line.split(' ');
      if (verb === 'cancel') {
        client.cancel(name).catch(said.trouble);
        continue;
      }
      running.push(
        (verb === 'resume' ? client.resume(name, JSON.parse(task)) : client.call(name)).then(
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
