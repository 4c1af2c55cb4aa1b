import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { InputSpec } from '../../database/entities/definition.entity.js';
import { checkTemplates } from './check-templates.js';

const SPECS = new Map<string, InputSpec>([
  ['x', { type: 'string', required: true, default: null }],
  ['maybe', { type: 'string', required: false, default: null }],
  ['set', { type: 'string', required: false, default: 'd' }],
]);
const X = '${inputs.x}';
const MAYBE = '${inputs.maybe}';
const CODE = `echo ${X}`;

const check = (options: JsonObject): string[] => checkTemplates(options, SPECS);
/** The problems of a command line, which begins with the command. */
const ofCommand = (...command: readonly (string | JsonObject)[]): string[] =>
  check({ command: command.slice(0, 1), args: command.slice(1) });

describe('what a definition may refer to', () => {
  for (const [text, problem] of [
    ['a ${inputs.x} b', undefined],
    ['${run.id}', undefined],
    ['$${HOME} $$ $ {x} }', undefined],
    ['${inputs.modle}', '${inputs.modle}: no such input'],
    ['${inputs.}', '${inputs.}: no such input'],
    ...[
      '${HOME}',
      '${array.index}',
      '${schedule.time}',
      '${secrets.x}',
      '${ inputs.x }',
      '${}',
      '${run.ID}',
    ].map(
      (other) =>
        [
          other,
          `${other}: unknown, only \${inputs.NAME} and \${run.id} are replaced; $\${ is a literal \${`,
        ] as const,
    ),
    [
      '${inputs.x',
      '${inputs.x: unknown, only ${inputs.NAME} and ${run.id} are replaced; $${ is a literal ${',
    ],
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
    });
  }

  test('a flag names an input that is declared', () => {
    assert.deepEqual(check({ args: [{ flag: '--a', input: 'x' }] }), []);
    assert.deepEqual(check({ args: [{ flag: '--a', input: 'y' }] }), [
      'args[0].input: ${inputs.y}: no such input',
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

describe('a reference in code', () => {
  const REFUSED: readonly (readonly (string | JsonObject)[])[] = [
    ...['sh', 'bash', 'dash', 'ash', 'zsh', 'ksh', 'mksh', '/bin/sh', '/usr/local/bin/bash', 'bash5.2'].map(
      (shell) => [shell, '-c', CODE],
    ),
    ...['-ec', '-lc', '-xec', '-euxc', '-ce', '-cx', '+c'].map((letters) => ['sh', letters, CODE]),
    ['sh', '-c', X],
    ['sh', '-c', '-e', CODE],
    ['sh', '-c', '--', CODE],
    ['sh', '-c', '-', CODE],
    ['bash', '-o', 'errexit', '-c', CODE],
    ['bash', '-oc', 'errexit', CODE],
    ['bash', '-eo', 'pipefail', '-c', CODE],
    ['bash', '+o', 'posix', '-O', 'extglob', '-c', CODE],
    ['zsh', '-oerrexit', '-c', CODE],
    ['bash', '--norc', '--rcfile', '/dev/null', '-c', CODE],
    ['env', 'sh', '-c', CODE],
    ['/usr/bin/env', '-i', 'FOO=1', 'sh', '-ec', CODE],
    ['env', '-u', 'HOME', 'bash', '-c', CODE],
    ['env', `A=${X}`, 'sh', '-c', CODE],
    ['env', '-S', `sh -c "${X}"`],
    ['env', '-S', 'sh -c', CODE],
    ['env', '-iS', 'FOO=1 sh -c', CODE],
    ['env', `-Ssh -c ${X}`],
    ['env', '-Ssh -c', CODE],
    ['env', '--split-string=bash -c', CODE],
    ['env', '--split-string', 'bash -c', CODE],
    ['busybox', 'sh', '-c', CODE],
    ['busybox.static', 'ash', '-c', CODE],
    ['exec', '-a', 'name', 'sh', '-c', CODE],
    ['tini', '--', 'sh', '-c', CODE],
    ['timeout', '10', 'bash', '-c', CODE],
    ['sudo', '-u', 'me', 'sh', '-c', CODE],
    ['/entrypoint.sh', 'bash', '-lc', CODE],
    ['sh', 'run.sh', 'bash', '-c', CODE],
    ...['python', 'python3', 'python3.11', 'python3-dbg', '/opt/bin/python3.13t', 'pypy3'].map((python) => [
      python,
      '-c',
      `print("${X}")`,
    ]),
    ['python', '-uc', CODE],
    ['python', '-W', 'ignore', '-X', 'dev', '-Ic', CODE],
    ['python', '--check-hash-based-pycs', 'never', '-c', CODE],
    ...['perl', 'ruby', 'node', 'nodejs', 'perl5.36.0', '/usr/bin/ruby3.1'].flatMap((program) =>
      ['-e', '-p', '-n', '--eval', '--print', '-pe'].map((option) => [program, option, CODE]),
    ),
    ['perl', '-I', 'lib', '-Mstrict', '-lne', CODE],
    ['perl', '-E', CODE],
    ['perl', '-e', 'print 1', '-e', CODE],
    ['perl', '-n', '-e', CODE],
    ['ruby', '-r', 'json', '-e', CODE],
    ['node', '-r', './a.js', '--import', './b.mjs', '-e', CODE],
    ['node', '--env-file', '.env', '--eval', CODE],
    ['node', `--eval=${X}`],
    ['node', '--import', `data:text/javascript,${X}`],
    ['env', 'node', '-e', '1', '-e', CODE],
    // Words that may be left out.
    ['sh', MAYBE, '-c', CODE],
    [MAYBE, 'sh', '-c', CODE],
    ['python', `${MAYBE}.py`, '-c', CODE],
    // Flags.
    ['sh', { flag: '-c', input: 'x' }],
    ['sh', '-c', { flag: '--a', input: 'x' }],
    ['sh', { flag: '-c', input: 'x' }, CODE],
    ['sh', { flag: '-e', input: 'maybe' }, '-c', CODE],
    ['perl', { flag: '-e', input: 'x', join: '' }],
    ['node', { flag: '--eval', input: 'x', join: '=' }],
    // A program that the caller chooses.
    [X, '-c', CODE],
    [`/bin/${X}`, '-e', CODE],
    [`/opt/${X}/bin/python3`, '-c', CODE],
    ['env', X, '-c', CODE],
  ];
  for (const words of REFUSED) {
    test(`is refused in ${JSON.stringify(words)}`, () => {
      const [line = '', ...rest] = ofCommand(...words);
      assert.match(line, /: pass it in env and use "\$NAME"$|, or pass it in env and use "\$NAME"$/);
      assert.ok(rest.length <= 1, rest.join('\n'));
    });
  }

  test('is refused where command and args make the line together, or args alone', () => {
    const line = `would become code of sh: pass it in env and use "$NAME"`;
    assert.deepEqual(check({ command: ['/bin/sh'], args: ['-c', CODE] }), [`args[1]: ${X}: ${line}`]);
    assert.deepEqual(check({ command: ['sh', '-c'], args: [CODE] }), [`args[0]: ${X}: ${line}`]);
    assert.deepEqual(check({ command: ['sh', '-c', CODE] }), [`command[2]: ${X}: ${line}`]);
    assert.deepEqual(check({ args: ['sh', '-c', CODE] }), [`args[2]: ${X}: ${line}`]);
  });

  test('may not come about by an option that is an input', () => {
    for (const words of [
      ['sh', X, 'a'],
      ['bash', '-x', MAYBE],
      ['python', X],
      ['python', `-${X}`, 'a'],
      ['node', `--${X}`],
      ['perl', '-e', '1', X],
      ['env', 'A=1', 'ruby', X],
      ['perl', `-M${X}`, 'a.pl'],
    ]) {
      const [line = ''] = ofCommand(...words);
      assert.match(
        line,
        /could become an option of \w+ that takes code: put it behind --, or pass it in env/,
      );
    }
  });

  const ALLOWED: readonly (readonly (string | JsonObject)[])[] = [
    ['sh', '-c', 'echo "$1"', 'name', X],
    ['sh', '-ec', 'exec "$@"', 'sh', X, { flag: '--a', input: 'x' }],
    ['sh', '-c', 'echo $${HOME}'],
    ['sh', 'run.sh', X],
    ['bash', '-x', 'run.sh', '-c', X],
    ['bash', '--norc', 'run.sh', '-c', X],
    ['bash', '-o', X, 'run.sh'],
    ['sh', '--', X],
    ['sh', '-s', '--', X],
    ['bash', `/scripts/${X}.sh`],
    ['python', 'train.py', '-c', X, '--lr', X],
    ['python', '-u', 'train.py', '-c', X],
    ['python', '-m', X, '-c', X],
    ['python', '-m', 'http.server', X],
    ['python', '-W', X, '-Xdev', 'a.py'],
    ['python', '-c', 'import sys; print(sys.argv)', X],
    ['python', '-', X],
    ['python', '--', X],
    ['perl', 'a.pl', '-e', X],
    ['perl', '-e', 'print @ARGV', '--', X],
    ['perl', '-I/usr/share', 'a.pl', X],
    ['ruby', '-rjson', 'a.rb', X],
    ['node', '--enable-source-maps', `--max-old-space-size=${X}`, 'a.js', X],
    ['node', 'a.js', '-e', X, '--eval', X],
    ['env', `A=${X}`, 'tool', X],
    ['tool', '-c', X],
    ['tool', '-e', X, '-n', X],
    ['convert', '--lang', 'python', X],
    ['pip', 'install', 'python-dateutil', '-c', X],
    [X],
    [X, X],
    [`/opt/${X}/bin/tool`, '-c', X],
    ['ssh', 'host', '-c', X],
    ['train.sh', '-c', X],
  ];
  for (const words of ALLOWED) {
    test(`is not what ${JSON.stringify(words)} has`, () => {
      assert.deepEqual(ofCommand(...words), []);
    });
  }

  test('is not looked for in arguments of an entrypoint that is not known', () => {
    assert.deepEqual(check({ args: [X, '-n', X] }), []);
    assert.deepEqual(check({ args: ['-c', X] }), []);
  });

  test('is not left out by an input with a default or one that is required', () => {
    assert.deepEqual(ofCommand('python', '${inputs.set}.py', '-c', X), [
      'args[0]: ${inputs.set}: could become an option of python that takes code: put it behind --, or pass it in env and use "$NAME"',
    ]);
    assert.deepEqual(ofCommand('python', `a/${X}.py`, '-c', X), []);
    assert.notDeepEqual(ofCommand('python', `a/${MAYBE}.py`, '-c', X), []);
  });

  test('is found in lists of the greatest length', () => {
    const words = Array.from({ length: 99 }, (_, at) => (at % 2 === 0 ? 'sh' : MAYBE));
    assert.notEqual(ofCommand(...words).length, 0);
    const flags = Array.from({ length: 100 }, () => ({ flag: '-o', input: 'maybe' }));
    assert.deepEqual(ofCommand('tool', ...flags), []);
    assert.notEqual(ofCommand('bash', ...flags.slice(1), '-c', CODE).length, 0);
  });
});
