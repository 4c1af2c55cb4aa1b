import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { InputSpec } from '../../database/entities/definition.entity.js';
import { checkTemplates } from './check-templates.js';
import { FACTS } from './template-text.js';

const SPECS = new Map<string, InputSpec>([['x', { type: 'string', required: true, default: null }]]);

const UNKNOWN =
  'unknown, only ${inputs.NAME}, ${run.id}, ${run.name}, ${group.id}, ${array.index}, ${array.size}, ${schedule.time}, ' +
  '${schedule.date}, ${schedule.previous} and ${schedule.next} are replaced; $${ is a literal ${';

const check = (options: JsonObject): string[] => checkTemplates(options, SPECS);

describe('what a definition may refer to', () => {
  for (const [text, problem] of [
    ['a ${inputs.x} b', undefined],
    ...FACTS.map((fact) => [`\${${fact}}`, undefined] as const),
    ['$${HOME} $$ $ {x} }', undefined],
    ['${inputs.modle}', '${inputs.modle}: no such input'],
    ['${inputs.}', '${inputs.}: no such input'],
    ...['${HOME}', '${schedule.day}', '${secrets.x}', '${ inputs.x }', '${}', '${run.ID}'].map(
      (other) => [other, `${other}: ${UNKNOWN}`] as const,
    ),
    ['${inputs.x', `\${inputs.x: ${UNKNOWN}`],
  ] as const) {
    test(`${text}: ${problem ?? 'allowed'}`, () => {
      const said = problem === undefined ? [] : [problem];
      assert.deepEqual(
        check({ args: ['a', text] }),
        said.map((line) => `args[1]: ${line}`),
      );
      assert.deepEqual(
        check({ command: [text] }),
        said.map((line) => `command[0]: ${line}`),
      );
      assert.deepEqual(
        check({ env: { A: 'a', B: text } }),
        said.map((line) => `env.B: ${line}`),
      );
      assert.deepEqual(
        check({ mounts: [{ path: '/a' }, { path: '/b', sub_path: text }] }),
        said.map((line) => `mounts[1].sub_path: ${line}`),
      );
    });
  }

  test('a flag names an input that is declared', () => {
    assert.deepEqual(check({ args: [{ flag: '--a', input: 'x' }] }), []);
    assert.deepEqual(check({ args: [{ flag: '--a', input: 'y' }] }), [
      'args[0].input: ${inputs.y}: no such input',
    ]);
  });

  test('as often as 1,000 times', () => {
    const args = Array.from({ length: 100 }, () => '${inputs.x}'.repeat(10));
    assert.deepEqual(check({ args }), []);
    assert.deepEqual(check({ args, env: { A: '${run.id}' } }), [
      'command, args, env and mounts must have at most 1000 references, not 1001',
    ]);
  });

  test('other options are plain text', () => {
    assert.deepEqual(check({ workdir: '/${HOME}', secrets: { A: '${x}' } }), []);
  });

  test('one line for each word, with a long reference cut', () => {
    const [line = '', ...rest] = check({ args: [`\${inputs.${'n'.repeat(4000)}} \${a}`] });
    assert.deepEqual(rest, []);
    assert.ok(line.length < 200, line);
  });
});
