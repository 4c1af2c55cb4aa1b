import assert from 'node:assert/strict';
import { readWarnings } from '@longshore/common/warnings';
import { describe, test } from 'vitest';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const NO_CONSTRAINTS = { ram_mb: 0, vram_mb: 0, cpu: 0, gpu_id: null };

/** Types that are checked: their names, a value that fits, one that does not, and what is said of that. */
const TYPES: readonly (readonly [names: readonly string[], fits: unknown, other: unknown, words: string])[] =
  [
    [['string', 'str'], 'x', 1, 'a string'],
    [['integer', 'int'], 1, 1.5, 'an integer'],
    [['number', 'float'], 1.5, '1', 'a number'],
    [['boolean', 'bool'], true, 'true', 'a boolean'],
    [['object', 'dict'], { a: 1 }, [], 'an object'],
    [['array', 'list'], [1], {}, 'an array'],
  ];

describe('section 4: definitions', () => {
  const service = useTestApp();
  let made = 0;

  const upsert = (body: object): Promise<TestAnswer> => service.send('POST', '/definitions', { body });
  /** An upsert that must be taken. */
  const store = async (body: object): Promise<void> => {
    const answer = await upsert(body);
    assert.ok(answer.status < 300, answer.text);
  };
  /** Stores a definition under a name of its own; answers the name. */
  const define = async (body: object = {}): Promise<string> => {
    made += 1;
    const answer = await upsert({ id: `def-${made}`, version: '1', image: 'i', ...body });
    assert.equal(answer.status, 201, answer.text);
    return answer.body.id;
  };
  const get = (path: string): Promise<TestAnswer> => service.send('GET', `/definitions/${path}`);
  const run = (path: string, body: object = {}): Promise<TestAnswer> =>
    service.send('POST', `/definitions/${path}`, { body });

  describe('as specified', () => {
    test('an upsert answers the definition that it made or changed', async () => {
      const body = { id: 'upserted', version: '1', image: 'a' };
      assert.equal((await upsert(body)).body.image, 'a');
      assert.equal((await upsert({ ...body, image: 'b' })).body.image, 'b');
      assert.equal((await get('upserted')).body.image, 'b');
    });

    test('the same id and version replace the entry, another version stands beside it', async () => {
      const id = await define({ image: 'one' });
      await store({ id, version: '2', image: 'two' });
      await store({ id, version: '1', image: 'one-again' });
      const { body } = await service.send('GET', '/definitions');
      assert.deepEqual(
        body.filter((each: Json) => each.id === id).map(({ version, image }: Json) => [version, image]),
        [
          ['1', 'one-again'],
          ['2', 'two'],
        ],
      );
    });

    test('a definition is got in a version, or in its newest without one', async () => {
      const id = await define({ image: 'old' });
      await store({ id, version: '0', image: 'newer' });
      assert.equal((await get(`${id}?version=1`)).body.image, 'old');
      assert.equal((await get(id)).body.image, 'newer');
    });

    test('a run is made from a version, or from the newest without one, with inputs and priority', async () => {
      const id = await define({ image: 'old' });
      await store({ id, version: '2', image: 'newer' });
      const old = bodyOf(await run(`${id}/runs?version=1`, { inputs: { a: 1 }, priority: 5 }), 'OpRun', 201);
      assert.deepEqual([old.image, old.inputs, old.priority, old.op_definition], ['old', { a: 1 }, 5, id]);
      assert.equal(bodyOf(await run(`${id}/runs`), 'OpRun', 201).image, 'newer');
    });

    test('an unknown definition is an error, for reading and for making a run', async () => {
      const id = await define();
      await store({ id: 'word-count', version: '0', image: 'i' });
      assertError(await get('wrod-count'), 404, `OpDefinition 'wrod-count' not found`, [
        "did you mean 'word-count'?",
      ]);
      assertError(await run('Word_Count/runs'), 404, `OpDefinition 'Word_Count' not found`, [
        "did you mean 'word-count'?",
      ]);
      assertError(await get('word-count?version=9'), 404, `OpDefinition 'word-count' version '9' not found`);
      assertError(await get('nobody'), 404, `OpDefinition 'nobody' not found`);
      assertError(await get(`${id}?version=9`), 404, `OpDefinition '${id}' version '9' not found`);
      assertError(await run('nobody/runs'), 404, `OpDefinition 'nobody' not found`);
      assertError(await run(`${id}/runs?version=9`), 404, `OpDefinition '${id}' version '9' not found`);
    });

    test('invalid inputs are an error and make no run', async () => {
      const id = await define({ input_specs: { n: { type: 'integer', required: true } } });
      assert.equal((await run(`${id}/runs`, { inputs: { n: 'x' } })).status, 400);
      const { body } = await service.send('GET', `/runs?op_definition=${id}`);
      assert.deepEqual(body.data, []);
    });

    test('the optional blocks may be left out', async () => {
      const answer = await upsert({ id: 'bare', version: '1', image: 'i' });
      assert.equal(answer.status, 201);
    });

    test('a definition needs id, version and image', async () => {
      assertInvalid(await upsert({}), ['id is required', 'version is required', 'image is required']);
    });
  });

  describe('as settled', () => {
    test('an upsert is 201 when the version is new and 200 when it is replaced, which keeps createdAt', async () => {
      const body = { id: 'status', version: '1', image: 'i' };
      const first = await upsert(body);
      const second = await upsert(body);
      assert.deepEqual([first.status, second.status], [201, 200]);
      assert.equal(second.body.createdAt, first.body.createdAt);
      assert.ok(second.body.updatedAt >= first.body.updatedAt);
    });

    test('replacing an old version does not make it the latest', async () => {
      const id = await define();
      await store({ id, version: '2', image: 'second' });
      await store({ id, version: '1', image: 'replaced' });
      assert.equal((await get(id)).body.version, '2');
      assert.equal(bodyOf(await run(`${id}/runs`), 'OpRun', 201).image, 'second');
    });

    test('an optional block that was left out reads back as its default', async () => {
      const { body } = await get(await define());
      assert.deepEqual(
        [body.input_specs, body.output_specs, body.constraints, body.retry_policy, body.event_delivery],
        [{}, {}, NO_CONSTRAINTS, { max_attempts: 1 }, null],
      );
    });

    test('a run takes constraints, retry policy and event delivery from its definition', async () => {
      const blocks = {
        constraints: { ram_mb: 1, vram_mb: 2, cpu: 3, gpu_id: null },
        retry_policy: { max_attempts: 4 },
        event_delivery: { topic: 't', attributes: { a: 'b' } },
      };
      const created = bodyOf(await run(`${await define(blocks)}/runs`), 'OpRun', 201);
      assert.deepEqual({ ...created, ...blocks }, created);
    });

    test('a run made before the definition changed stays as it is', async () => {
      const id = await define({ image: 'before' });
      const created = bodyOf(await run(`${id}/runs`), 'OpRun', 201);
      await store({ id, version: '1', image: 'after' });
      assert.equal((await service.send('GET', `/runs/${created.id}`)).body.image, 'before');
    });

    for (const [names, fits, other, words] of TYPES) {
      for (const type of names) {
        test(`an input of type ${type} takes ${JSON.stringify(fits)} and refuses ${JSON.stringify(other)}`, async () => {
          const id = await define({ input_specs: { a: { type } } });
          assert.deepEqual((await run(`${id}/runs`, { inputs: { a: fits } })).body.inputs, { a: fits });
          assertError(await run(`${id}/runs`, { inputs: { a: other } }), 400, 'Invalid inputs', [
            `inputs.a must be ${words}`,
          ]);
        });
      }
    }

    test('names of types match in upper and lower case', async () => {
      const id = await define({ input_specs: { a: { type: 'Integer' } } });
      assert.equal((await get(id)).body.input_specs.a.type, 'Integer');
      assertError(await run(`${id}/runs`, { inputs: { a: 'x' } }), 400, 'Invalid inputs', [
        'inputs.a must be an integer',
      ]);
    });

    for (const type of ['duration', 'strng', 'Label:x', ' string', 'label', 'PREFECT']) {
      test(`a type '${type}' is a label that nothing is checked against; the answer warns of it`, async () => {
        const id = `labelled-${encodeURIComponent(type).replaceAll('%', '')}`;
        const body = { id, version: '1', image: 'i', input_specs: { a: { type }, b: { type: 'int' } } };
        for (const status of [201, 200]) {
          const answer = await upsert(body);
          assert.equal(answer.status, status);
          assert.deepEqual(readWarnings(answer.headers), [
            `input_specs.a.type "${type}" is none of the checked types: its values are not checked`,
          ]);
        }
        assert.equal((await get(id)).body.input_specs.a.type, type);
        for (const value of ['x', 1, [], {}, true]) {
          assert.equal((await run(`${id}/runs`, { inputs: { a: value } })).status, 201);
        }
        assertError(await run(`${id}/runs`, { inputs: { b: 'x' } }), 400, 'Invalid inputs', [
          'inputs.b must be an integer',
        ]);
      });
    }

    test('a checked type, and one after label:, has no warning', async () => {
      const specs = { a: { type: 'label:duration' }, b: { type: 'String' }, c: { type: 'list' } };
      const answer = await upsert({ id: 'no-warning', version: '1', image: 'i', input_specs: specs });
      assert.deepEqual([answer.status, answer.headers.get('Warning')], [201, null]);
      for (const value of ['x', 1, [], {}, true]) {
        assert.equal((await run('no-warning/runs', { inputs: { a: value } })).status, 201);
      }
    });

    test('many labels have a warning of a few kilobytes', async () => {
      const specs = Object.fromEntries(
        Array.from({ length: 300 }, (_, n) => [`ä${n}`, { type: '\u{1f600}' }]),
      );
      const answer = await upsert({ id: 'many-labels', version: '1', image: 'i', input_specs: specs });
      assert.equal(answer.status, 201);
      assert.match(readWarnings(answer.headers).at(-1) ?? '', /^\d{3} more warnings are left out$/);
    });

    for (const type of ['', 'x'.repeat(129), 5]) {
      test(`a type ${JSON.stringify(type).slice(0, 20)} is refused, and nothing is stored`, async () => {
        const body = { id: 'mistyped', version: '1', image: 'i', input_specs: { a: { type } } };
        assertError(await upsert(body), 400, 'Request validation failed', [
          'input_specs.a.type must be a string of 1 to 128 characters',
        ]);
        assert.equal((await get('mistyped')).status, 404);
      });
    }

    test('every input that does not fit has a line of its own', async () => {
      const specs = { a: { type: 'int' }, b: { type: 'str', required: true }, c: { type: 'list' } };
      const id = await define({ input_specs: specs });
      const answer = await run(`${id}/runs`, { inputs: { a: 'x', c: 1, d: 0 } });
      assertError(answer, 400, 'Invalid inputs', [
        'inputs.d is not a declared input',
        'inputs.a must be an integer',
        'inputs.b is required',
        'inputs.c must be an array',
      ]);
    });

    test('defaults fill what is missing and satisfy `required`; null counts as missing', async () => {
      const specs = {
        a: { type: 'int', required: true, default: 7 },
        b: { type: 'str', default: 'x' },
        c: { type: 'str' },
      };
      const id = await define({ input_specs: specs });
      assert.deepEqual((await run(`${id}/runs`, { inputs: { b: null, c: null } })).body.inputs, {
        a: 7,
        b: 'x',
      });
      assert.deepEqual((await run(`${id}/runs`, { inputs: { a: 1, c: 'c' } })).body.inputs, {
        a: 1,
        b: 'x',
        c: 'c',
      });
    });

    test('only the type of an input has to be given; it is not required then', async () => {
      const { body } = await get(await define({ input_specs: { a: { type: 'str' } } }));
      assert.deepEqual(body.input_specs, { a: { type: 'str', required: false, default: null } });
    });

    test('a default of the wrong type is refused at the upsert and stores nothing', async () => {
      const body = { id: 'wrong-default', version: '1', image: 'i' };
      const answer = await upsert({ ...body, input_specs: { a: { type: 'int', default: 'x' } } });
      assertInvalid(answer, ['input_specs.a.default must be an integer']);
      assert.equal((await get('wrong-default')).status, 404);
    });

    test('without any input specs every input is taken', async () => {
      const inputs = { anything: [1, { goes: null }] };
      assert.deepEqual((await run(`${await define()}/runs`, { inputs })).body.inputs, inputs);
    });

    test('a run of a definition takes a template of its outputs', async () => {
      const outputs = { url: 'u' };
      assert.deepEqual((await run(`${await define()}/runs`, { outputs })).body.outputs, outputs);
    });

    test('ids and versions are 1-128 letters, digits and . _ -, beginning with a letter or digit', async () => {
      for (const good of ['a', '0', 'A.b_c-1', 'x'.repeat(128)]) {
        assert.equal((await upsert({ id: good, version: good, image: 'i' })).status, 201);
      }
      for (const bad of ['', '.a', '-a', '_a', 'a b', 'a/b', 'a:b', 'ä', 'x'.repeat(129)]) {
        assert.equal((await upsert({ id: bad, version: '1', image: 'i' })).status, 400, bad);
        assert.equal((await upsert({ id: 'a', version: bad, image: 'i' })).status, 400, bad);
      }
    });

    test('names of inputs and outputs may be anything', async () => {
      const specs =
        '{"__proto__":{"type":"int","default":1},"a b":{"type":"str"},"constructor":{"type":"str"}}';
      const body = `{"id":"odd","version":"1","image":"i","input_specs":${specs},"output_specs":${specs.replace(',"default":1', '')}}`;
      assert.equal((await service.send('POST', '/definitions', { body })).status, 201);
      const answer = await service.send('POST', '/definitions/odd/runs', { body: '{"inputs":{"a b":"x"}}' });
      assert.ok(answer.text.includes('"inputs":{"a b":"x","__proto__":1}'), answer.text);
      const read = await get('odd');
      assert.ok(read.text.includes('"output_specs":{"__proto__":{"type":"int"},'), read.text);
    });
  });
});

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
type Json = any;
