import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { InputSpec } from '../../database/entities/definition.entity.js';
import { checkTemplates } from './check-templates.js';

const SPECS = new Map<string, InputSpec>([
  ['x', { type: 'string', required: true, default: null }],
  ['maybe', { type: 'string', required: false, default: null }],
  ['yes', { type: 'bool', required: true, default: null }],
  ['list', { type: 'array', required: true, default: null }],
  ['label', { type: 'label:any', required: true, default: null }],
  ['set', { type: 'string', required: false, default: 'd' }],
]);
const X = '${inputs.x}';
const MAYBE = '${inputs.maybe}';
const CODE = `echo ${X}`;

const check = (options: JsonObject): string[] => checkTemplates(options, SPECS);
/** The problems of a command line, which begins with the command. */
const ofCommand = (...command: readonly (string | JsonObject)[]): string[] =>
  check({ command: command.slice(0, 1), args: command.slice(1) });

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
    ['timeout', '-k', '5', X, 'bash', '-c', CODE],
    ['sudo', '-u', 'me', 'sh', '-c', CODE],
    ['sudo', '-Eu', X, 'A=1', 'sh', '-c', CODE],
    ['gosu', X, 'bash', '-c', CODE],
    ['su-exec', 'me', 'python', '-c', CODE],
    ['tini', '-s', '-p', 'SIGTERM', '--', 'env', 'A=1', 'sh', '-c', CODE],
    ['nice', '-n', X, 'stdbuf', '-oL', '-e', '0', 'perl', '-e', CODE],
    ['nohup', 'setsid', '-w', 'time', '-f', '%e', 'node', '-e', CODE],
    ['xargs', '-0', '-n', '1', 'sh', '-c', CODE],
    ['dumb-init', '-r', '15:2', 'catatonit', '--', 'ruby', '-e', CODE],
    ['env', X, 'sh', '-c', CODE],
    ['env', '-uA', '-S', 'env -S', `sh -c ${X}`],
    ['/entrypoint.sh', 'bash', '-lc', CODE],
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
      ['sh', `-${X}`, 'a'],
      ['python', `-${X}`, 'a'],
      ['node', `--${X}`],
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
    // The script is an input.
    ['python', X],
    ['python', '-u', X, '-c', X],
    ['bash', '-x', X, '-c', X],
    ['node', `${X}/server.js`, '-p', X],
    ['perl', '-e', 'print @ARGV', X],
    ['env', 'A=1', 'ruby', X],
    ['timeout', X, 'python', X],
    // Words behind a script, a module or code.
    ['sh', 'run.sh', 'bash', '-c', X],
    ['bash', 'run.sh', '-c', X],
    ['python', '-m', 'app', '-c', X],
    ['node', 'server.js', '-p', X],
    ['bash', '-lc', 'exec python "$@"', 'bash', '-c', X],
    // Options of node that take no value.
    ['node', '--enable-source-maps', 'server.js', '-p', X],
    ['node', '--inspect', 'server.js', '-p', X],
    ['node', '--inspect', 'server.js', '--port', X],
    // Names of programs that are not run.
    ['kubectl', 'get', 'node', '-n', X],
    ['npm', 'exec', 'node', '-p', X],
    ['svc', '--runtime', 'python', '-c', X],
    ['svc', '--lang', 'perl', '-e', X],
    ['timeout', '10', 'kubectl', 'get', 'node', '-n', X],
    ['env', '-i', 'A=1', 'svc', '--runtime', 'python', '-c', X],
    ['sudo', '-u', 'node', 'svc', '-n', X],
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
    for (const script of ['a/${inputs.set}.py', `a/${X}.py`]) {
      assert.deepEqual(ofCommand('python', script, '-c', X), []);
    }
    assert.notDeepEqual(ofCommand('python', `a/${MAYBE}.py`, '-c', X), []);
  });

  // Each line has code in one form of the flag only.
  const LINES: readonly (readonly [form: string, before: readonly string[], after: readonly string[]])[] = [
    ['none', ['bash'], ['-c', CODE]],
    ['alone', ['bash', '-o'], ['-c', CODE]],
    ['once', ['timeout', '-k'], ['bash', '-c', CODE]],
  ];
  for (const [input, forms] of [
    ['x', ['once']],
    ['set', ['once']],
    ['maybe', ['none', 'once']],
    ['yes', ['none', 'alone']],
    ['list', ['none', 'once']],
    ['label', ['none', 'alone', 'once']],
  ] as const) {
    test(`is looked for in the forms of a flag with ${input}: ${forms.join(', ')}`, () => {
      const flag = { flag: '5', input };
      const found = LINES.filter(([, before, after]) => ofCommand(...before, flag, ...after).length > 0);
      assert.deepEqual(
        found.map(([form]) => form),
        forms,
      );
    });
  }

  test('is found in lists of the greatest length', () => {
    const words = ['sh', ...Array.from({ length: 97 }, (_, at) => (at % 2 === 0 ? '-o' : MAYBE))];
    assert.notEqual(ofCommand(...words, '-c', CODE).length, 0);
    const flags = Array.from({ length: 100 }, () => ({ flag: '-o', input: 'maybe' }));
    assert.deepEqual(ofCommand('tool', ...flags), []);
    assert.notEqual(ofCommand('bash', ...flags.slice(1), '-c', CODE).length, 0);
  });

  test('is not looked for without a reference, and only so deep in env -S', () => {
    const deep = '-S'.repeat(2048);
    assert.deepEqual(ofCommand('env', deep), []);
    assert.deepEqual(ofCommand('env', deep, X), [
      'args[0]: would become code of env: pass it in env and use "$NAME"',
    ]);
    const started = performance.now();
    const lists = Array.from({ length: 200 }, () => '-S env '.repeat(500));
    assert.equal(ofCommand('env', ...lists, X).length, 1);
    assert.ok(performance.now() - started < 2000);
  });
});
