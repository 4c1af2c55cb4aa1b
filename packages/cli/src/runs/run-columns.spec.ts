import assert from 'node:assert/strict';
import type { Schemas } from '@longshore/client';
import { parseJson, stringifyJson } from '@longshore/common/json/json-text';
import { describe, test } from 'vitest';
import { CliError } from '../cli-error.js';
import { comparableFields, csvLine, fieldText, pickFields, plainField, sortRuns } from './run-columns.js';

const runOf = (json: string): Schemas['OpRun'] => Object(parseJson(json));
const RUN = runOf(
  '{"id":"1","state":"FAILED","name":null,"current_attempt":2,"inputs":{"lr":1.50,"a":{"b":"x"},"a.c":3},"labels":{"org/x.y":"z"},' +
    '"outputs":{},"execution_summary":{"cause":"oom","exit_code":137},"events":[]}',
);

describe('a column of a list of runs', () => {
  test('is a field, or what one holds, with the digits of the API', () => {
    for (const [column, text] of [
      ['state', '"FAILED"'],
      ['attempt', '2'],
      ['inputs.lr', '1.50'],
      ['inputs.a.b', '"x"'],
      ['inputs.a.c', '3'],
      ['inputs.a', '{"b":"x"}'],
      ['labels.org/x.y', '"z"'],
      ['cause', '"oom"'],
      ['exit_code', '137'],
      ['name', undefined],
      ['outputs.loss', undefined],
      ['inputs.__proto__', undefined],
      ['worker', undefined],
      ['reason', undefined],
    ] as const) {
      assert.equal(fieldText(RUN, column), text, column);
    }
    assert.equal(plainField(RUN, 'inputs.a.b'), 'x');
    assert.equal(stringifyJson(pickFields(RUN, ['inputs.lr', 'name'])), '{"inputs.lr":1.50,"name":null}');
  });

  test('is refused when runs have no such field', () => {
    for (const column of ['loss', 'input.lr', '', 'constructor', '__proto__']) {
      assert.throws(
        () => fieldText(RUN, column),
        (error) => error instanceof CliError && /a run has no field/.test(error.message),
      );
    }
  });
});

test('runs are sorted by the values of numbers, then by texts, and those without the field come last', () => {
  const texts = ['10', '9.5', '-1e2', '"b"', 'null', '"a"', '12345678901234567891', '12345678901234567890'];
  const runs = texts.map((text) => runOf(`{"outputs":{"x":${text}},"execution_summary":{}}`));
  const sorted = (by: string) => sortRuns(runs, by).map((run) => fieldText(run, 'outputs.x') ?? 'null');
  const numbers = ['-1e2', '9.5', '10', '12345678901234567890', '12345678901234567891'];
  assert.deepEqual(sorted('outputs.x'), [...numbers, '"a"', '"b"', 'null']);
  assert.deepEqual(sorted('-outputs.x'), ['"b"', '"a"', ...numbers.toReversed(), 'null']);
});

test('a line of CSV quotes what would break it, and no text of it is a formula', () => {
  const cells = [
    '"a,b"',
    '"say \\"x\\""',
    '"two\\nlines"',
    '"=HYPERLINK(1)"',
    '"-x"',
    '"@a"',
    '"+1"',
    '"\\t=a"',
    '"\uff1da"',
    '"a;=b;c"',
    '-1.50',
    '1e+5',
    undefined,
    '{"a":1}',
    '["x;@y",-1]',
  ];
  assert.equal(
    csvLine(cells),
    `"a,b","say ""x""","two\nlines",'=HYPERLINK(1),'-x,'@a,'+1,'\t'=a,'\uff1da,a;'=b;c,-1.50,1e+5,,"{""a"":1}","[""x;'@y"",-1]"\n`,
  );
});

test('what can be compared of a run is all that it says, without its id, times and empty fields', () => {
  assert.deepEqual(
    [...comparableFields(RUN)],
    [
      ['state', '"FAILED"'],
      ['current_attempt', '2'],
      ['inputs.lr', '1.50'],
      ['inputs.a.b', '"x"'],
      ['inputs.a.c', '3'],
      ['labels.org/x.y', '"z"'],
      ['cause', '"oom"'],
      ['exit_code', '137'],
    ],
  );
});
