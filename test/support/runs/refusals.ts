import assert from 'node:assert/strict';
import { beforeAll, test } from 'vitest';
import { assertInvalid } from '../http/answer-shapes.js';
import type { TestApp } from '../app/test-app.js';

/** A part of a request to create a run, and the lines that refuse it. */
export type Refusal = readonly [sent: object, errors: readonly string[]];

/** Requests that create something, and what they need beside the part. */
const REQUESTS = {
  '/runs': { image: 'i' },
  '/runs/batch': { image: 'i' },
  '/definitions': { id: 'refused', version: '1', image: 'i' },
  '/definitions/bare/runs': {},
} as const;

/** The values, each in its place in a request, and the line that refuses them. */
export function each<T>(
  error: string | ((value: T) => string),
  place: (value: T) => object,
  values: readonly T[],
): Refusal[] {
  return values.map((value) => [place(value), [typeof error === 'string' ? error : error(value)]]);
}

/** A test for each refusal: every request that has the part is refused and makes nothing. */
export function testRefusals(
  { send }: Pick<TestApp, 'send'>,
  refusals: readonly Refusal[],
  paths: readonly (keyof typeof REQUESTS)[] = [
    '/runs',
    '/runs/batch',
    '/definitions',
    '/definitions/bare/runs',
  ],
): void {
  beforeAll(async () => {
    await send('POST', '/definitions', { body: { ...REQUESTS['/definitions'], id: 'bare' } });
  });

  /** The newest run, and how many definitions there are. */
  const made = async (): Promise<unknown[]> => [
    (await send('GET', '/runs?limit=1')).body.data,
    (await send('GET', '/definitions')).body.length,
  ];

  for (const [sent, errors] of refusals) {
    const title = JSON.stringify(sent, (_, value) => (value === undefined ? 'undefined' : value)).slice(
      0,
      100,
    );
    test(`refuses ${title} in every request, and makes nothing`, async () => {
      const before = await made();
      for (const path of paths) {
        const body = Object.defineProperties({ ...REQUESTS[path] }, Object.getOwnPropertyDescriptors(sent));
        if (path !== '/runs/batch') {
          assertInvalid(await send('POST', path, { body }), errors);
          continue;
        }
        const { results } = (await send('POST', path, { body: { runs: [body] } })).body;
        const error = { detail: 'Request validation failed', errors };
        assert.deepEqual(results, [{ status: 400, error }]);
      }
      assert.deepEqual(await made(), before);
    });
  }
}
