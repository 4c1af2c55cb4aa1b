import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { fillForm, placeErrors, readForm, type FieldValue, type FormField } from './form-values.js';
import { ADVANCED_RUN_ROWS, IMAGE, INPUTS, PRIORITY, RETRY_ROW } from './run-fields.js';

const OPTIONS: readonly FormField[] = ADVANCED_RUN_ROWS.flat();
const FIELDS: readonly FormField[] = [IMAGE, INPUTS, PRIORITY, ...RETRY_ROW, ...OPTIONS];

/** A body in which every field of the form has a value. */
const BODY = {
  image: 'busybox',
  inputs: { a: 1 },
  priority: -3,
  retry_policy: {
    max_attempts: 3,
    backoff_s: 5,
    max_backoff_s: 60,
    retry_on: ['oom', 'exit:75'],
    grow: { ram_mb: { factor: 1.5, max: 4096, on: ['oom'] } },
  },
  env: { A: '1', B: ' two words ' },
  secrets: { TOKEN: 'hub-token' },
  command: ['sh', '-c'],
  args: ['echo "a\nb"', ''],
  image_pull_secret: 'registry',
  selector: ['gpu', 'eu'],
  concurrency: { key: 'disk', limit: 2, on_limit: 'skip' },
  start_at: '2030-01-02T03:04:05Z',
};

const problemOf = (path: string, value: FieldValue): string | undefined => {
  return readForm(FIELDS, { [path]: value }).errors[path];
};

const wordsOf = (args: string): unknown => {
  return readForm(FIELDS, { args }).body['args'];
};

describe('the form of a run', () => {
  it('makes the body again with which it was filled', () => {
    assert.deepEqual(readForm(FIELDS, fillForm(FIELDS, BODY)), { body: BODY, errors: {} });
    for (const words of [['a\nb', ''], [' x '], ['[a]'], [], ['a,b']]) {
      const body = { args: words, selector: words.map((word) => word.trim()) };
      assert.deepEqual(readForm(FIELDS, fillForm(FIELDS, body)), { body, errors: {} });
    }
  });

  it('leaves out what is empty, and an object of which nothing is left', () => {
    assert.deepEqual(readForm(FIELDS, {}), { body: {}, errors: {} });
    assert.deepEqual(readForm(FIELDS, { env: [{ name: '', value: '' }], command: ' ' }, BODY), {
      body: {},
      errors: {},
    });
  });

  it('keeps members that no field enters', () => {
    const base = { other: 1, retry_policy: { more: true, max_attempts: 2 } };
    assert.deepEqual(readForm(FIELDS, { image: ' i ' }, base), {
      body: { other: 1, retry_policy: { more: true }, image: 'i' },
      errors: {},
    });
  });

  it('reads a line as a word, and JSON where a word has several lines', () => {
    assert.deepEqual(wordsOf('-c\n exit 1 \n\n'), ['-c', ' exit 1 ']);
    assert.deepEqual(wordsOf('["a\\nb", ""]'), ['a\nb', '']);
    assert.deepEqual(wordsOf('[]'), []);
  });

  it('keeps flags among the arguments of a definition', () => {
    const body = { args: ['a', { flag: '-b', input: 'b' }] };
    assert.deepEqual(readForm(FIELDS, fillForm(FIELDS, body)), { body, errors: {} });
  });

  it('says what cannot be sent, at its field', () => {
    assert.match(problemOf('priority', '1.5') ?? '', /whole number/);
    assert.match(problemOf('retry_policy.grow.ram_mb.factor', '2x') ?? '', /a number/);
    assert.match(problemOf('inputs', '[1]') ?? '', /JSON object/);
    assert.match(problemOf('inputs', '{') ?? '', /not JSON/);
    assert.match(problemOf('args', '[1]') ?? '', /JSON list/);
    assert.match(problemOf('start_at', 'soon') ?? '', /date and a time/);
    assert.match(problemOf('env', [{ name: '', value: 'x' }]) ?? '', /name for each/);
    const twice = { name: 'A', value: '' };
    assert.match(problemOf('secrets', [twice, twice]) ?? '', /once/);
  });
});

describe('the lines of a refusal', () => {
  it('stand at the fields that they are about', () => {
    const lines = [
      'env.SERVICE_X must not start with SERVICE_',
      'env must be small',
      'selector[1] must be a tag',
      'retry_policy.retry_on[0] must be a cause',
      'retry_policy.grow.ram_mb.factor is required',
      'concurrency must be an object',
      'start_at: has passed',
      'priority, start_at: exactly one of the two',
      'environment must not exist',
    ];
    assert.deepEqual(placeErrors(lines, FIELDS), {
      fields: {
        env: 'env.SERVICE_X must not start with SERVICE_\nenv must be small',
        selector: 'selector[1] must be a tag',
        'retry_policy.retry_on': 'retry_policy.retry_on[0] must be a cause',
        'retry_policy.grow.ram_mb.factor': 'retry_policy.grow.ram_mb.factor is required',
        'concurrency.key': 'concurrency must be an object',
        start_at: 'start_at: has passed',
        priority: 'priority, start_at: exactly one of the two',
      },
      rest: ['environment must not exist'],
    });
  });
});
