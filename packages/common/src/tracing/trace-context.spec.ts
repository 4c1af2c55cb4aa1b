import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { readTraceContext } from './trace-context.js';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';
const VALID = `00-${TRACE}-${SPAN}-01`;

function stateOf(text: unknown): string | null | undefined {
  return readTraceContext(VALID, text)?.tracestate;
}

describe('a traceparent', () => {
  for (const [title, text, kept] of [
    ['sampled', VALID, VALID],
    ['not sampled', `00-${TRACE}-${SPAN}-00`, `00-${TRACE}-${SPAN}-00`],
    ['with flags that nobody knows yet, without them', `00-${TRACE}-${SPAN}-ff`, `00-${TRACE}-${SPAN}-03`],
    ['of a later version, as far as it is known', `cc-${TRACE}-${SPAN}-01-what-comes`, VALID],
    ['of a later version without anything new', `01-${TRACE}-${SPAN}-01`, VALID],
  ] as const) {
    it(`is taken ${title}`, () => {
      assert.deepEqual(readTraceContext(text), { traceparent: kept, tracestate: null });
    });
  }

  for (const text of [
    undefined,
    '',
    'rubbish',
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${TRACE}-${SPAN}-1`,
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    ` ${VALID}`,
    `${VALID}\n`,
    `${VALID}, ${VALID}`,
    `01-${TRACE}-${SPAN}-01-${'x'.repeat(500)}`,
  ]) {
    it(`is none: ${JSON.stringify(text)?.slice(0, 80)}`, () => {
      assert.equal(readTraceContext(text, 'vendor=1'), null);
    });
  }
});

describe('a tracestate', () => {
  it('is kept as it is, but for white space and empty members', () => {
    assert.equal(
      stateOf('rojo=00f067aa0ba902b7,congo=t61rcWkgMzE'),
      'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE',
    );
    assert.equal(stateOf(' a=1 ,, t@b=x y;z:2 '), 'a=1,t@b=x y;z:2');
  });

  for (const text of [
    '',
    'a',
    '=1',
    'A=1',
    'a=é',
    'a=1\u0000',
    'a=b=c',
    'a=1,b=2,a=3',
    `a=${'x'.repeat(600)}`,
  ]) {
    it(`that is not valid is dropped, and the traceparent stays: ${JSON.stringify(text).slice(0, 20)}`, () => {
      assert.deepEqual(readTraceContext(VALID, text), { traceparent: VALID, tracestate: null });
    });
  }

  it('of too many members is dropped', () => {
    const members = Array.from({ length: 33 }, (_, n) => `k${n}=1`);
    assert.equal(stateOf(members.slice(1).join()), members.slice(1).join());
    assert.equal(stateOf(members.join()), null);
  });
});
