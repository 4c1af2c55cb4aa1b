import assert from 'node:assert/strict';
import { once } from 'node:events';
import { buffer } from 'node:stream/consumers';
import { describe, it } from 'vitest';
import { extract, pack, type Header } from 'tar-stream';
import { containerSpec, runtimeOn } from '../../../testing/container-spec.js';
import { FakeDockerEngine } from '../../../testing/fake-docker-engine.js';
import { cut, refuse, type Answer } from '../../../testing/fake-engine-answers.js';
import { MAX_OUTPUT_BYTES, parseOutputs } from '../../outputs.js';
import type { ContainerSpec, RunningContainer } from '../../runtime.js';

const ROUTE = 'GET /containers/ID/archive';
const MB = 2 ** 20;
const TOO_LARGE = new RegExp(`^RunFault: .* larger than ${MAX_OUTPUT_BYTES} bytes`);

describe('files of a container', () => {
  const engine = FakeDockerEngine.forEachTest();

  async function ended(...answers: Answer[]): Promise<RunningContainer> {
    return endedWith({}, ...answers);
  }

  async function endedWith(more: Partial<ContainerSpec>, ...answers: Answer[]): Promise<RunningContainer> {
    const runtime = runtimeOn(engine);
    const spec = { ...containerSpec('tool', { text: 'ü' }), outputTemplate: { url: 'u' }, ...more };
    const container = await runtime.start(spec);
    engine.end(0);
    await container.exit;
    engine.answerNext(ROUTE, ...answers);
    return container;
  }

  /** What was put into the container. */
  async function put(): Promise<readonly (Header & { readonly text: string })[]> {
    const found: (Header & { readonly text: string })[] = [];
    const entries = extract();
    entries.on('entry', ({ name, mode, type, pax }, body, next) => {
      let text = '';
      body.on('data', (bytes: Buffer) => {
        text += bytes.toString();
      });
      body.on('end', () => {
        found.push({ name, mode, type, text, ...(pax && { pax }) });
        next();
      });
    });
    const finished = once(entries, 'finish');
    entries.end(engine.container().files);
    await finished;
    return found;
  }

  it('puts inputs and template into the container, writable for every user', async () => {
    await ended();
    const puts = engine.calls.filter(({ route }) => route.startsWith('PUT'));
    assert.deepEqual(
      puts.map(({ query }) => query),
      [{ path: '/' }],
    );
    assert.deepEqual(await put(), [
      { name: 'longshore', mode: 0o777, type: 'directory', text: '' },
      { name: 'longshore/input.json', mode: 0o644, type: 'file', text: '{"text":"ü"}' },
      { name: 'longshore/output.json', mode: 0o666, type: 'file', text: '{"url":"u"}' },
    ]);
  });

  it('puts the files of the run into the container, of its user, and no entry for a folder', async () => {
    const file = { content: 'ü', mode: 0o400, isSecret: false };
    for (const [user, owner] of [
      [null, {}],
      ['7', { pax: { uid: '7', gid: '0' } }],
      ['2147483647:9', { pax: { uid: '2147483647', gid: '9' } }],
    ] as const) {
      engine.calls.length = 0;
      engine.containers.clear();
      await endedWith({ user, files: [{ ...file, path: '/etc/job/a' }] });
      const files = await put();
      const last = engine.calls.findLast(({ route }) => route.startsWith('PUT'));
      assert.deepEqual(last?.query, { path: '/', noOverwriteDirNonDir: 'true' });
      assert.deepEqual(
        files.map(({ pax, ...rest }) => ({
          ...rest,
          ...(pax && { pax: { uid: pax['uid'], gid: pax['gid'] } }),
        })),
        [{ name: 'etc/job/a', mode: 0o400, type: 'file', text: 'ü', ...owner }],
      );
    }
  });

  it('puts them again when the engine closed the connection', async () => {
    engine.answerNext('PUT /containers/ID/archive', cut, cut);
    await ended();
    assert.ok(engine.container().files.length > 0);
  });

  it('removes the container whose files cannot be put into it', async () => {
    engine.answerNext('PUT /containers/ID/archive', refuse(500, 'no space left on device'));
    await assert.rejects(
      ended(),
      /^EngineFault: The container could not be started: the engine's disk is full$/,
    );
    assert.equal(engine.containers.size, 0);
  });

  it('reads the outputs from the container', async () => {
    const container = await ended(await archive({ name: 'output.json' }, '{"a":[1,"ü"]}'));
    assert.deepEqual(parseOutputs(await container.readOutputs())?.outputs, { a: [1, 'ü'] });
    assert.deepEqual(engine.calls.at(-1)?.query, { path: '/longshore/output.json' });
  });

  it('takes a missing, empty or blank file for no outputs', async () => {
    const container = await ended(
      refuse(404, 'no such file'),
      await archive({ name: 'output.json' }, ''),
      await archive({ name: 'output.json' }, ' \n'),
    );
    for (let i = 0; i < 3; i++) assert.equal(parseOutputs(await container.readOutputs())?.outputs, undefined);
  });

  for (const [what, header] of [
    ['a symbolic link', { type: 'symlink', linkname: '/etc/passwd' }],
    ['a hard link', { type: 'link', linkname: '/etc/passwd' }],
    ['a folder', { type: 'directory' }],
    ['a pipe', { type: 'fifo' }],
    ['a device', { type: 'block-device' }],
  ] as const) {
    it(`refuses an output file that is ${what}`, async () => {
      const container = await ended(await archive({ name: 'output.json', ...header }));
      await assert.rejects(container.readOutputs(), {
        name: 'RunFault',
        message: "The run's output file cannot be used: it is no regular file",
      });
    });
  }

  it('stops reading when the header of a file promises too much', async () => {
    let written = 0;
    const container = await ended((response) => {
      response.write(hugeHeader());
      const flood = (): void => {
        if (response.destroyed) return;
        written += MB;
        response.write(Buffer.alloc(MB), () => setImmediate(flood));
      };
      flood();
    });
    await assert.rejects(container.readOutputs(), TOO_LARGE);
    assert.ok(written < MAX_OUTPUT_BYTES, `${written} bytes were sent`);
  });

  it('stops reading when the attributes of a file are larger than it may be', async () => {
    const container = await ended((response) => {
      response.write(asAttributes(hugeHeader()));
      for (let i = 0; i < 20; i++) response.write(Buffer.alloc(MB, 'a'));
    });
    await assert.rejects(container.readOutputs(), TOO_LARGE);
  });

  it('reads again after the engine was away', async () => {
    const bytes = await tar({ name: 'output.json' }, '{"a":1}');
    const half: Answer = (response) => {
      response.writeHead(200, { 'Content-Length': bytes.length });
      response.write(bytes.subarray(0, 600), () => response.destroy());
    };
    const container = await ended(cut, half, (response) => response.end(bytes));
    assert.deepEqual(parseOutputs(await container.readOutputs())?.outputs, { a: 1 });
  });

  it('is the run’s fault when the engine can read the container but not them, such as a link to itself', async () => {
    const container = await ended(refuse(500, 'evalSymlinksInScope: too many links in /var/lib/docker/x'));
    engine.answerNext(`HEAD /containers/ID/archive`, (response) => response.end());
    await assert.rejects(container.readOutputs(), {
      name: 'RunFault',
      message: "The run's output file cannot be used: it cannot be read",
    });
    assert.deepEqual(engine.calls.at(-1)?.query, { path: '/' });
  });

  it('fails by the engine when it cannot read them, and else when the container is gone', async () => {
    const container = await ended(refuse(500, 'disk on fire at /var/lib/docker'));
    engine.answerNext(
      'HEAD /containers/ID/archive',
      (_response, _call, goOn) => goOn(),
      refuse(500, 'on fire'),
    );
    const message = 'The outputs of the container could not be read';
    await assert.rejects(container.readOutputs(), { name: 'EngineFault', message });
    engine.containers.clear();
    await assert.rejects(container.readOutputs(), { name: 'Error', message });
  });
});

async function archive(header: Header, content = ''): Promise<Answer> {
  const bytes = await tar(header, content);
  return (response) => response.end(bytes);
}

async function tar(header: Header, content = ''): Promise<Buffer> {
  const archived = pack();
  archived.entry(header, content);
  archived.finalize();
  return buffer(archived);
}

/** The first bytes of an archive that promises a file of 8 GiB. */
function hugeHeader(): Buffer {
  const archived = pack();
  archived.entry({ name: 'output.json', size: 2 ** 33 - 1 });
  const bytes: unknown = archived.read();
  assert.ok(Buffer.isBuffer(bytes));
  return bytes;
}

/** Turns the header of a file into that of extended attributes, which readers hold in memory. */
function asAttributes(header: Buffer): Buffer {
  header.write('x', 156);
  header.write(' '.repeat(8), 148);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return header;
}
