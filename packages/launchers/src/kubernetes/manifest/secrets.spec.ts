import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { jobSpec } from '../../testing/job-spec.js';
import { ScriptedApi } from '../../testing/scripted-api.js';
import { Paths } from '../api/resources.js';
import { memoIn, readSecretData, secretManifests, secretValues } from './secrets.js';

const SECRETS = '/api/v1/namespaces/runs/secrets';

const encoded = (text: string) => Buffer.from(text).toString('base64');
const signed = (signature: string) => `https://store/a?expires=1&signature=${signature}`;

describe('the Secret of an attempt', () => {
  const scripted = ScriptedApi.forEachTest();

  it('is found by a list of this Secret alone', async () => {
    const data = { 'input.json': encoded('{}') };
    scripted.on(`GET ${SECRETS}`, { body: { items: [{ data }] } }, { body: { items: [] } });
    const read = () => readSecretData(scripted.api, new Paths('runs'), { runId: 'r1', attempt: 1 });
    assert.deepEqual(await read(), data);
    assert.equal(scripted.calls[0]?.query['fieldSelector'], 'metadata.name=run-r1-1');
    assert.equal(await read(), null);
  });

  it('gives the values of secrets by variable and by path, and nothing else that it has', () => {
    const names = '{"env.0":"TOKEN","env.1":"GONE","file.1":"/run/key","file.2":"/k.p12"}';
    const values = secretValues({
      'input.json': encoded('{}'),
      'env.0': encoded('välue'),
      'file.0': encoded('no secret'),
      'file.1': encoded('key'),
      'file.2': '/w==',
      'names.json': encoded(names),
    });
    assert.deepEqual(values, { TOKEN: 'välue', '/run/key': 'key', '/k.p12': Buffer.from([0xff]) });
    assert.deepEqual(secretValues({}), {});
  });

  it('gives the queries of the signed URLs that the program finds in its inputs and template, at any depth', () => {
    const spec = jobSpec({
      inputs: { page: 'https://x/?page=2', deep: [{ get: signed('in') }] },
      outputTemplate: { put: signed('out') },
    });
    const [secret] = secretManifests(spec, {});
    const signedQueries = ['expires=1&signature=in', 'expires=1&signature=out'];
    assert.deepEqual(memoIn(secret?.data ?? {}), { signedQueries, notes: [] });
    const [plain] = secretManifests(jobSpec(), {});
    assert.deepEqual(memoIn(plain?.data ?? {}), { signedQueries: [], notes: [] });
  });
});
