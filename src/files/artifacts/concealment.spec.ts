import assert from 'node:assert/strict';
import { test } from 'vitest';
import { readEvent } from '../../runs/machine/run-event.js';
import { eventCommand } from '../../runs/runs.service.js';
import type { FileStore } from '../stores/file-store.js';
import { Concealment } from './concealment.js';

/** A store whose objects are at one address. */
const STORE: FileStore = Object.assign(Object.create(null), {
  keyOf: ({ href }: URL) => (href.startsWith('http://store/') ? 'a' : undefined),
});
const URL_OF_STORE = 'http://store/a?expires=1&signature=secret';

/** What is recorded of a text in an event. */
function recorded(text: string): string {
  const event = readEvent({ type: 'NOTE', msg: 'm', payload: { text } });
  assert.ok(!('problems' in event));
  const command = new Concealment(STORE, []).command(
    'run',
    eventCommand(event, { workerId: 'w', attempt: 1 }),
  );
  assert.ok(command.type === 'event');
  const { text: shown } = command.event.payload;
  assert.ok(typeof shown === 'string');
  return shown;
}

function read(text: string) {
  return JSON.parse(recorded(text));
}

test('queries of our addresses are taken out of a text, and of nothing else', () => {
  for (const [text, shown] of [
    [URL_OF_STORE, 'http://store/a?***'],
    [`see <${URL_OF_STORE}>, "${URL_OF_STORE}"`, 'see <http://store/a?***>, "http://store/a?***"'],
    ['http://other/a?signature=1 http://store/a', 'http://other/a?signature=1 http://store/a'],
    [`https://other/?to=${URL_OF_STORE}`, 'https://other/?to=http://store/a?***'],
    [`x=http://other/?,${URL_OF_STORE},${URL_OF_STORE}`, 'x=http://other/?,http://store/a?***'],
    ['HTTP://STORE/a?signature=1', 'HTTP://STORE/a?***'],
    ['what? http: //store/a?b', 'what? http: //store/a?b'],
  ] as const)
    assert.equal(recorded(text), shown);
});

test('queries of our addresses are taken out of JSON within a text, which stays JSON', () => {
  const shown = { urls: ['http://store/a?***'] };
  const json = JSON.stringify({ urls: [URL_OF_STORE] });
  assert.deepEqual(read(json), shown);
  assert.deepEqual(JSON.parse(read(JSON.stringify(json))), shown);
  // As PHP and Go write it.
  assert.deepEqual(read(json.replaceAll('/', '\\/').replaceAll('&', '\\u0026')), shown);
});

test('a text of addresses that lead nowhere is read in one pass', () => {
  for (const part of ['http://', 'http:\\', '?', 'http://a?'])
    assert.equal(recorded(part.repeat(100_000 / part.length)), part.repeat(100_000 / part.length));
});
