import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { QUICK_CLOCK } from '@longshore/worker/testing/quick-clocks';
import { EngineFault, RunFault, type LogLine } from '@longshore/worker/runtime/runtime';
import type { Upload } from '@longshore/worker/service-api/run-artifacts';
import {
  formatLine,
  packMessage,
  unpackMessage,
  type TransferAnswer,
  type TransferLine,
} from '@longshore/worker/transfer/messages';
import { ScriptedApi, status } from '../testing/scripted-api.js';
import { Paths } from './api/resources.js';
import { exchangeFiles, notesIn } from './files-exchange.js';

const SECRETS = '/api/v1/namespaces/runs/secrets';
const PATCH = `PATCH ${SECRETS}/run-r1-1-files`;
const TOUCH = 'PATCH /api/v1/namespaces/runs/pods/p1';
const NEVER = new AbortController().signal;
const UPLOAD: Upload = { kind: 'whole', request: { method: 'PUT', url: 'https://s/x', headers: {} } };
const ARTIFACT = { name: 'model', path: '/out/m', bytes: 1, sha256: 'a', contentType: 'text/plain' };
const STORED: readonly TransferLine[] = [
  { kind: 'ask', id: 1, request: { names: ['model'] } },
  { kind: 'ask', id: 2, request: { names: ['model'], bytes: 7 } },
  { kind: 'note', text: 'stored model' },
  { kind: 'stored', artifact: ARTIFACT },
  { kind: 'end', missing: ['x'] },
];

/** The log of the container, with lines that are none of its own; long ones in parts. */
async function* log(lines: readonly TransferLine[]): AsyncGenerator<LogLine> {
  yield { stream: 'stdout', text: '(node:1) a warning' };
  for (const line of lines) {
    const text = formatLine(line);
    yield { stream: 'stdout', text: text.slice(0, 20), part: 'start' };
    yield { stream: 'stdout', text: text.slice(20, 30), part: 'rest' };
    yield { stream: 'stdout', text: text.slice(30), part: 'end' };
  }
}

describe('what the container that stores the files of a run is told', () => {
  const scripted = ScriptedApi.forEachTest();

  function begin(lines: readonly TransferLine[], more: { isOver?: boolean; refuses?: boolean } = {}) {
    const asked: unknown[] = [];
    scripted.on(PATCH, { body: {} });
    scripted.on(TOUCH, { body: {} });
    const program = {
      runId: 'r1',
      attempt: 1,
      podName: 'p1',
      hasSucceeded: true,
      isOver: () => more.isOver === true,
    };
    const parts = { api: scripted.api, paths: new Paths('runs'), clock: QUICK_CLOCK };
    const getUploads = async (question: unknown) => {
      asked.push(question);
      if (more.refuses === true) throw new Error('the service refuses');
      return { model: UPLOAD };
    };
    return { asked, over: exchangeFiles(parts, program, log(lines), getUploads, NEVER) };
  }

  /** The answers in the Secret, in their order. */
  const answers = (): TransferAnswer[] =>
    scripted.calls.flatMap(({ route, body }) => {
      const data: unknown = route === PATCH ? Reflect.get(Object(body), 'data') : undefined;
      const text: unknown = Reflect.get(Object(data), 'answer.json.gz');
      return typeof text === 'string' ? [unpackMessage('answer', Buffer.from(text, 'base64'))] : [];
    });

  const secretWith = (answer: TransferAnswer | null): void => {
    const data = answer && { 'answer.json.gz': packMessage(answer).toString('base64') };
    scripted.on(`GET ${SECRETS}`, { body: { items: [{ ...(data && { data }) }] } });
  };

  it('is the end of the program, and then where its files go; each time its node is made to look', async () => {
    secretWith(null);
    const { asked, over } = begin(STORED);
    assert.deepEqual(await over, { stored: [ARTIFACT], missing: ['x'] });
    assert.deepEqual(asked, [{ names: ['model'] }, { names: ['model'], bytes: 7 }]);
    const common = { hasSucceeded: true, isOver: false };
    assert.deepEqual(answers(), [
      { ...common, id: 0, uploads: {} },
      { ...common, id: 1, uploads: { model: UPLOAD } },
      { ...common, id: 2, uploads: { model: UPLOAD } },
    ]);
    const touches = scripted.calls.filter(({ route }) => route === TOUCH).map(({ body }) => body);
    assert.deepEqual(
      touches,
      ['0', '1', '2'].map((id) => ({ metadata: { annotations: { 'longshore.answer': id } } })),
    );
    assert.doesNotMatch(JSON.stringify(touches), /https/);
  });

  it('is not told again by a launcher that adopts the job', async () => {
    secretWith({ hasSucceeded: true, isOver: false, id: 1, uploads: {} });
    const { asked, over } = begin(STORED);
    await over;
    assert.deepEqual(asked, [{ names: ['model'], bytes: 7 }]);
    assert.deepEqual(
      answers().map(({ id }) => id),
      [2],
    );
  });

  it('is nothing once the container has ended: what it has stored is read', async () => {
    const { asked, over } = begin(STORED, { isOver: true });
    assert.deepEqual(await over, { stored: [ARTIFACT], missing: ['x'] });
    assert.deepEqual([asked, answers()], [[], []]);
  });

  it('is that it is over when the service refuses, which fails the storing', async () => {
    secretWith(null);
    const { over } = begin(STORED, { refuses: true });
    await assert.rejects(over, { message: 'the service refuses' });
    assert.deepEqual(
      answers().map(({ isOver }) => isOver),
      [false, true],
    );
  });

  for (const [what, isRun, type] of [
    ['the run', true, RunFault],
    ['the store', false, Error],
  ] as const) {
    it(`gives a fault of ${what} back as one`, async () => {
      secretWith(null);
      const { over } = begin([{ kind: 'fault', isRun, message: 'why' }]);
      await assert.rejects(over, (error: Error) => error.constructor === type && error.message === 'why');
    });
  }

  it('fails when the log ends too early, or the API server refuses', async () => {
    secretWith(null);
    await assert.rejects(begin(STORED.slice(0, 2)).over, EngineFault);
    const { over } = begin(STORED);
    scripted.on(PATCH, status(403, 'Forbidden', 'may not'));
    await assert.rejects(over, /could not take where the files of the run go: may not/);
  });

  it('gives the log of the run its lines for people alone', async () => {
    const texts = [];
    for await (const line of notesIn(log(STORED))) texts.push(line);
    assert.deepEqual(texts, [{ stream: 'stderr', text: '[worker] stored model' }]);
  });
});
