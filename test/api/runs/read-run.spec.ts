import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError, assertInvalid } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const NOBODY = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';

/** Ids of runs that do not exist, as they stand in the path and as the answer names them. */
const UNKNOWN_IDS: readonly (readonly [title: string, path: string, id: string])[] = [
  ['a UUID that nobody has', NOBODY, NOBODY],
  ['the nil UUID', '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000'],
  ['a UUID in braces', `%7B${NOBODY}%7D`, `{${NOBODY}}`],
  ['a UUID without dashes', NOBODY.replaceAll('-', ''), NOBODY.replaceAll('-', '')],
  ['a UUID with a blank', `${NOBODY}%20`, `${NOBODY} `],
  ['a UUID with a line end', `${NOBODY}%0A`, `${NOBODY}\n`],
  ['a word', 'nope', 'nope'],
  ['__proto__', '__proto__', '__proto__'],
  ['SQL', "1'%20or%20'1'='1", "1' or '1'='1"],
  ['an encoded slash', '..%2F..%2Fetc', '../../etc'],
  ['an encoded percent sign', '%25zz', '%zz'],
  ['characters outside ASCII', '%C3%A9%F0%9F%98%80', 'é😀'],
  ['4,000 characters', 'x'.repeat(4000), 'x'.repeat(4000)],
];

/** Every route of one run, with a body where it takes one. */
const ROUTES: readonly (readonly [method: string, path: string, body?: object])[] = [
  ['GET', ''],
  ['GET', '/events'],
  ['GET', '/attempts'],
  ['POST', '/retry'],
  ['POST', '/cancel'],
  ['POST', '/events', { type: 'NOTE', msg: '' }],
];

describe('reading a run', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  for (const [title, path, id] of UNKNOWN_IDS) {
    test(`says of ${title} on every route that there is no such run`, async () => {
      for (const [method, route, body] of ROUTES) {
        const answer = await service.send(method, `/runs/${path}${route}`, { body });
        assertError(answer, 404, `OpRun '${id}' not found`);
      }
    });
  }

  test('knows a run by its id in lower case only', async () => {
    const { id } = await steps.create();
    const upper = String(id).toUpperCase();
    for (const [method, route, body] of ROUTES) {
      assertError(
        await service.send(method, `/runs/${upper}${route}`, { body }),
        404,
        `OpRun '${upper}' not found`,
      );
    }
    assert.equal((await steps.get(id)).state, 'PENDING');
  });

  test('refuses a query that it does not know, also of a run that does not exist', async () => {
    for (const [query, error] of [
      ['include_events=', 'include_events must not be empty'],
      ['include_events=False', 'include_events must be true or false'],
      ['include_events=false&include_events=false', 'include_events must not be given more than once'],
      ['events=false', 'events is not a known query parameter'],
    ] as const)
      assertInvalid(await service.send('GET', `/runs/${NOBODY}?${query}`), [error]);
    const { id } = await steps.create();
    for (const [method, path] of ROUTES.filter(([, , body]) => body === undefined))
      assertInvalid(await service.send(method, `/runs/${id}${path}?x=1`), [
        'x is not a known query parameter',
      ]);
    assert.equal((await steps.get(id)).state, 'PENDING');
  });
});
