import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { Schemas } from '@longshore/client';
import { eventLine, statusLine } from './run-lines.js';

const PLAIN = { colours: false, blocks: false };

function event(change: Partial<Schemas['PolledEvent']>): Schemas['PolledEvent'] {
  const t = '2026-01-02T03:04:05.678Z';
  return { id: 0, type: 'NOTE', msg: 'hello', t, state: 'RUNNING', payload: {}, ...change };
}

describe('a line of a timeline', () => {
  it('shows time, run, type and message', () => {
    assert.equal(eventLine('fail', event({}), 80, PLAIN), '03:04:05.678  fail        NOTE      hello');
  });

  it('shows progress in percent, outputs and reasons', () => {
    const progress = event({ type: 'PROGRESS', msg: 40 });
    assert.match(eventLine('x', progress, 80, PLAIN), / 40 %$/);
    const completed = event({ type: 'COMPLETED', msg: 'done', payload: { outputs: { n: 1 } } });
    assert.match(eventLine('x', completed, 80, PLAIN), / done \{"n":1\}$/);
    const failed = event({ type: 'FAILED', msg: 'no', payload: { error_message: 'exit code 3' } });
    assert.match(eventLine('x', failed, 80, PLAIN), / no exit code 3$/);
  });

  it('is never wider than the terminal, and one line whatever a container printed', () => {
    const hostile = event({ msg: `a\u001b[2J\r\nb${'x'.repeat(500)}` });
    const line = eventLine('word-count', hostile, 60, PLAIN);
    assert.equal(line.length, 60);
    assert.doesNotMatch(line, /\p{Cc}/u);
    assert.match(line, /\.\.\.$/);
  });

  it('has colours only where they are wanted', () => {
    assert.ok(eventLine('x', event({}), 80, { colours: true, blocks: false }).includes('\u001b[33m'));
  });
});

describe('a status line', () => {
  it('has a bar as long as the progress', () => {
    const line = statusLine({ name: 'progress', state: 'RUNNING', progress: 50 }, PLAIN);
    assert.equal(line, `progress    RUNNING   ${'#'.repeat(12)}${'.'.repeat(12)}  50 %`);
    const full = statusLine(
      { name: 'p', state: 'COMPLETED', progress: 100 },
      { colours: false, blocks: true },
    );
    assert.ok(full.includes('█'.repeat(24)) && !full.includes('░'));
  });
});
