import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const MANY = Object.fromEntries(Array.from({ length: 32 }, (_, n) => [`k${n}`, `${n}`]));

describe('names and labels of runs', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  const ids = async (query: string): Promise<string[]> => {
    const { status, body, text } = await service.send('GET', `/runs?${query}`);
    assert.equal(status, 200, text);
    return body.data.map((run: { id: string }) => run.id);
  };
  const patch = (id: string, body: object): Promise<TestAnswer> =>
    service.send('PATCH', `/runs/${id}/labels`, { body });

  test('a run is found by a key, by a value, and by labels of different keys that it has all', async () => {
    const vision = await steps.create({ labels: { team: 'vision', stage: 'train' } });
    const audio = await steps.create({ labels: { team: 'audio', stage: 'train' } });
    const plain = await steps.create({ labels: { team: '' } });
    await steps.create();
    assert.deepEqual(await ids('label=team'), [plain.id, audio.id, vision.id]);
    assert.deepEqual(await ids('label=team=vision'), [vision.id]);
    assert.deepEqual(await ids('label=team='), [plain.id]);
    assert.deepEqual(await ids('label=team=vision&label=stage=train'), [vision.id]);
    assert.deepEqual(await ids('label=stage=train&label=team=vision&label=team=audio'), [
      audio.id,
      vision.id,
    ]);
    assert.deepEqual(await ids('label=team&label=team=vision'), [plain.id, audio.id, vision.id]);
    assert.deepEqual(await ids('label=team=vision&state=PENDING&image=image'), [vision.id]);
    assert.deepEqual(await ids('label=team=vision&state=RUNNING'), []);
    assert.deepEqual(await ids('label=team=vision&image=other'), []);
  });

  test('a member of a group is found by labels of the group, unless its own remove them', async () => {
    const groups = new GroupSteps(service);
    const group = await groups.create({
      labels: { crew: 'night', stage: 'all' },
      runs: [
        { ref: 'a', image: 'i', labels: { stage: 'one' } },
        { ref: 'b', image: 'i', labels: { crew: null } },
      ],
    });
    const array = await groups.create({ labels: { crew: 'night' }, array: { size: 1, run: { image: 'i' } } });
    await groups.untilGroup(array.id, ({ counts }) => counts.uncreated === 0);
    const members = await groups.members(group.id);
    const [first] = (await groups.members(array.id)).values();
    assert.deepEqual(await ids('label=crew=night'), [first.id, members.get('a').id]);
    assert.deepEqual(await ids('label=stage=all'), [members.get('b').id]);
  });

  test('a value of any characters is found, and text like a term of another kind is not taken for one', async () => {
    const value = 'a=b&c,d\'e"f%_ü\u{1F600}';
    const { id } = await steps.create({ labels: { 'org/x.y-z_1': value }, selector: ['label:team=vision'] });
    assert.deepEqual(await ids(`label=${encodeURIComponent(`org/x.y-z_1=${value}`)}`), [id]);
    assert.ok(!(await ids('label=team=vision')).includes(id));
    assert.deepEqual(await ids('selector=org/x.y-z_1'), []);
  });

  test('a run is found by the beginning of its name, taken literally', async () => {
    const first = await steps.create({ name: 'night%ly' });
    const second = await steps.create({ name: 'night%ly 2', labels: { n: '2' } });
    await steps.create({ name: 'nightly' });
    assert.deepEqual(await ids('name_prefix=night%25'), [second.id, first.id]);
    assert.deepEqual(await ids('name_prefix=night%25&label=n=2'), [second.id]);
    assert.deepEqual(await ids('name_prefix=night%25&image=image&limit=1'), [second.id]);
    assert.deepEqual(await ids('name_prefix=ight'), []);
  });

  test('a run is found by its name, to the letter, the newest of several first', async () => {
    const first = await steps.create({ name: 'exact' });
    const second = await steps.create({ name: 'exact', labels: { n: '2' } });
    for (const name of ['exact 2', 'Exact', 'exac']) await steps.create({ name });
    assert.deepEqual(await ids('name=exact'), [second.id, first.id]);
    assert.deepEqual(await ids('name=exact&label=n=2&state=PENDING'), [second.id]);
    assert.deepEqual(await ids('name=exact&state=FAILED'), []);
  });

  test('a failed run is found by cause and exit code, a run that was retried is not', async () => {
    const fail = async (payload: object, body: object = {}): Promise<string> => {
      const { id } = await steps.create({ image: 'failing', ...body });
      await service.send('PATCH', `/runs/${id}`, { body: { state: 'RUNNING' } });
      await steps.event(id, 'FAILED', payload);
      return id;
    };
    const oom = await fail({ error_message: 'x', cause: 'oom', exit_code: 137 });
    const exit = await fail({ error_message: 'x', cause: 'exit', exit_code: 137 }, { labels: { f: '1' } });
    await fail({ error_message: 'x', cause: 'oom', exit_code: 137 }, { retry_policy: { max_attempts: 2 } });
    assert.deepEqual(await ids('cause=oom'), [oom]);
    assert.deepEqual(await ids('exit_code=137'), [exit, oom]);
    assert.deepEqual(await ids('exit_code=137&label=f'), [exit]);
    assert.deepEqual(await ids('exit_code=137&state=FAILED&cause=exit'), [exit]);
    assert.deepEqual(await ids('cause=oom&state=PENDING'), []);
    assert.equal((await service.send('GET', '/runs?cause=bad%20luck')).status, 400);
  });

  test('a change merges labels key by key, in every state, and appears in the audit log and not in the timeline', async () => {
    const { id, updatedAt } = await steps.create({ name: 'one', labels: { a: '1', b: '2' } });
    await service.send('POST', `/runs/${id}/cancel`);
    const events = await steps.poll(id);
    const etag = (await service.send('GET', `/runs/${id}`)).headers.get('etag');
    const changed = bodyOf(await patch(id, { labels: { b: null, c: '3', d: null }, name: 'two' }), 'OpRun');
    assert.deepEqual([changed.name, changed.labels, changed.state], ['two', { a: '1', c: '3' }, 'CANCELLED']);
    assert.ok(changed.updatedAt >= updatedAt);
    assert.notEqual((await service.send('GET', `/runs/${id}`)).headers.get('etag'), etag);
    assert.deepEqual(await steps.poll(id), events);
    assert.deepEqual(await ids('label=b'), []);
    assert.deepEqual(await ids('label=c=3&state=CANCELLED'), [id]);
    const [entry] = (await service.send('GET', '/audit')).body;
    assert.deepEqual(
      [entry.action, entry.run_id, entry.before, entry.after],
      [
        'run.labels',
        id,
        { name: 'one', labels: { a: '1', b: '2' } },
        { name: 'two', labels: { a: '1', c: '3' } },
      ],
    );
    const again = await patch(id, { labels: { c: '3', d: null }, name: 'two' });
    assert.deepEqual(
      [again.status, again.body.updatedAt],
      [200, changed.updatedAt],
      'what is already so stays',
    );
    assert.equal((await service.send('GET', '/audit')).body[0].id, entry.id);
    const cleared = bodyOf(await patch(id, { labels: { a: null, c: null }, name: null }), 'OpRun');
    assert.deepEqual([cleared.name, cleared.labels], [null, {}]);
    assert.equal(
      (await rows(service.dataSource, 'select from run_terms where run_id = $1::uuid', [id])).length,
      0,
    );
  });

  test('changes of one run at the same time are all kept', async () => {
    const { id } = await steps.create();
    await Promise.all(Object.entries(MANY).map(([key, value]) => patch(id, { labels: { [key]: value } })));
    assert.deepEqual((await steps.get(id)).labels, MANY);
    assertError(await patch(id, { labels: { more: '' } }), 400, `Run '${id}' would have more than 32 labels`);
    assert.deepEqual((await patch(id, { labels: { k0: null, more: '' } })).status, 200);
  });

  test('a run of a definition has the labels of both, its own first, and null leaves one out', async () => {
    const definition = { id: 'labelled', version: '1', image: 'i', labels: { a: '1', b: '2', c: null } };
    const stored = await service.send('POST', '/definitions', { body: definition });
    assert.deepEqual([stored.status, stored.body.labels], [201, { a: '1', b: '2' }]);
    const labels = { a: null, b: '3', d: '4', e: null };
    const run = await service.send('POST', '/definitions/labelled/runs', { body: { labels, name: 'n' } });
    assert.deepEqual([run.status, run.body.labels, run.body.name], [201, { b: '3', d: '4' }, 'n']);
    const many = await service.send('POST', '/definitions/labelled/runs', { body: { labels: MANY } });
    assertError(many, 400, 'Request validation failed', [
      'labels must be at most 32, those of the definition included',
    ]);
  });

  test('what is no label, no name and no filter is refused with its place', async () => {
    const rules: readonly [body: object, problem: RegExp][] = [
      [{ labels: { Team: 'x' } }, /^labels\.Team must have as name 1 to 63 characters/],
      [{ labels: { team: 1 } }, /^labels\.team must be a string without control characters/],
      [{ labels: { team: 'x'.repeat(257) } }, /^labels\.team must be /],
      [{ labels: { ...MANY, more: '' } }, /^labels must be an object of at most 32 entries/],
      [{ labels: [] }, /^labels must be an object/],
      [{ name: '' }, /^name must be /],
      [{ name: 'a\nb' }, /^name must be /],
    ];
    for (const [body, problem] of rules) {
      const answer = await service.send('POST', '/runs', { body: { image: 'i', ...body } });
      assert.equal(answer.status, 400);
      assert.match([answer.body.errors ?? answer.body.detail].flat().join(), problem);
      assert.equal((await patch((await steps.create()).id, body)).status, 400);
    }
    const six = Array.from({ length: 6 }, (_, n) => `label=k${n}`).join('&');
    for (const query of ['label=', 'label=Team', 'label==x', six, 'state=PENDING&state=FAILED']) {
      assert.equal((await service.send('GET', `/runs?${query}`)).status, 400, query);
    }
    const unknown = '0198c0de-0000-7000-8000-000000000000';
    assertError(await patch(unknown, {}), 404, `OpRun '${unknown}' not found`);
  });
});
