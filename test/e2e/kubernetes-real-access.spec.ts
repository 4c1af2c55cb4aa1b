import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startTestKubernetes } from '../support/kubernetes/cluster.js';
import { recordAnswers } from '../support/kubernetes/record-answers.js';
import { writeRecording } from '../support/kubernetes/recording.js';
import { TestNamespace } from '../support/kubernetes/test-namespace.js';

const forTests = await startTestKubernetes();
after(async () => {
  if (forTests.skip === false) await forTests.cluster.stop();
});

describe('permissions of a launcher on a real Kubernetes', { skip: forTests.skip, timeout: 600_000 }, () => {
  let namespace: TestNamespace;

  before(async () => {
    namespace = await TestNamespace.create(forTests.cluster);
  });
  after(() => namespace.remove());

  test('the answers that the fake API server gives are those of the cluster', async () => {
    const answers = await recordAnswers(namespace);
    assert.deepEqual(
      [answers.forbidden, answers.notFound, answers.alreadyExists, answers.logTooEarly].map(
        ({ status }) => status,
      ),
      [403, 404, 409, 400],
    );
    assert.deepEqual([answers.expired.body.type, answers.expired.body.object.code], ['ERROR', 410]);
    if (process.env['LONGSHORE_RECORD'] === '1') await writeRecording('answers', answers);
  });
});
