import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { InputSpec } from '../../database/entities/definition.entity.js';
import { checkTemplates } from './check-templates.js';

const SPECS = new Map<string, InputSpec>([['x', { type: 'string', required: true, default: null }]]);
const X = '${inputs.x}';
const CODE = `echo ${X}`;

const check = (options: JsonObject): string[] => checkTemplates(options, SPECS);
const ofCommand = (...command: readonly string[]): string[] =>
  check({ command: command.slice(0, 1), args: command.slice(1) });

describe('a reference in code of a program other than shells, python, perl, ruby and node', () => {
  const REFUSED: readonly (readonly string[])[] = [
    // Launchers and wrappers with many options.
    ['mpirun', 'bash', '-c', CODE],
    ['mpirun', '-np', '4', '--oversubscribe', 'bash', '-c', CODE],
    ['srun', '--ntasks', '2', '-N1', 'sh', '-c', CODE],
    ['numactl', '--membind', '0', 'bash', '-c', CODE],
    ['taskset', '-c', '0', 'bash', '-c', CODE],
    ['conda', 'run', '-n', 'base', 'bash', '-c', CODE],
    ['uv', 'run', 'python', '-c', CODE],
    ['apptainer', 'exec', '--nv', 'a.sif', 'bash', '-c', CODE],
    ['find', '.', '-name', '*.py', '-exec', 'sh', '-c', CODE, '{}', ';'],
    ['su', '-', 'me', '-c', CODE],
    ['su', '-c', CODE, 'me'],
    // Other programs that execute an argument.
    ['Rscript', '-e', CODE],
    ['Rscript', '--vanilla', '-e', CODE],
    ['R', '--slave', '-e', CODE],
    ['php', '-d', 'a=b', '-r', CODE],
    ['php', '--run', CODE],
    ['lua5.4', '-l', 'json', '-e', CODE],
    ['julia', '-t', '4', '-e', CODE],
    ['julia', '--eval', CODE],
    ['julia', `--eval=${X}`],
    ['deno', 'eval', CODE],
    ['deno', 'eval', '-p', CODE],
    ['bun', '-e', CODE],
    ['octave', '--eval', CODE],
    ['matlab', '-batch', CODE],
    ['pwsh', '-NoProfile', '-Command', CODE],
    ['awk', CODE],
    ['gawk', '-F', ',', '-v', 'a=b', CODE, 'a.csv'],
    ['awk', '-e', CODE],
    ['sed', CODE],
    ['sed', '-n', '-E', CODE],
    ['sed', '-e', CODE],
    ['sed', `--expression=${X}`],
  ];
  for (const words of REFUSED) {
    test(`is refused in ${JSON.stringify(words)}`, () => {
      assert.match(
        ofCommand(...words)[0] ?? '',
        /: would become code of .+: pass it in env and use "\$NAME"$/,
      );
    });
  }

  const ALLOWED: readonly (readonly string[])[] = [
    ['mpirun', '-np', X, 'python', 'train.py', '-c', X],
    ['srun', '-n', '4', './simulate', '-c', X],
    ['find', X, '-exec', 'gzip', '{}', ';'],
    ['find', '.', '-exec', 'sh', 'run.sh', X, ';'],
    ['Rscript', 'fit.R', '-e', X],
    ['php', 'a.php', '-r', X],
    ['julia', '--project', 'a.jl', '-e', X],
    ['deno', 'run', 'a.ts', X],
    ['awk', '-f', 'a.awk', X],
    ['awk', '{print $1}', X],
    ['sed', '-n', '1p', X],
    ['sed', '-e', '1p', X],
    ['sed', '-f', 'a.sed', X],
    ['su', '-', X, '-c', 'id'],
  ];
  for (const words of ALLOWED) {
    test(`is not what ${JSON.stringify(words)} has`, () => assert.deepEqual(ofCommand(...words), []));
  }

  test('is refused in a variable that a program executes or loads code from', () => {
    for (const name of [
      'BASH_ENV',
      'ENV',
      'LD_PRELOAD',
      'NODE_OPTIONS',
      'PERL5OPT',
      'PYTHONSTARTUP',
      'PROMPT_COMMAND',
    ]) {
      assert.deepEqual(check({ env: { [name]: X } }), [
        `env.${name}: an input would become code: use a variable of another name`,
      ]);
    }
    assert.deepEqual(check({ env: { BASH_ENV: '/etc/job', ENVIRONMENT: X, PATH: `/opt/${X}/bin` } }), []);
  });

  test("is refused beside the program's own, which stay", () => {
    const OWN = 'echo "${HOME}" "${X:-${Y}}" "$${Z}" ${';
    for (const words of [
      ['bash', '-c', OWN],
      ['sh', '-ec', '-x', OWN],
      ['env', '-S', `sh -c ${OWN}`],
      ['mpirun', 'bash', '-c', OWN, 'name', X],
      ['perl', '-e', 'print "${a}"'],
      ['awk', '{print "${a}"}', X],
    ]) {
      assert.deepEqual(ofCommand(...words), []);
    }
    for (const code of ['${X:-${inputs.x}}', '${HOME} ${inputs.x}']) {
      assert.deepEqual(ofCommand('bash', '-c', code), [
        `args[1]: ${X}: would become code of bash: pass it in env and use "$NAME"`,
      ]);
    }
    assert.match(
      ofCommand('bash', '-c', 'echo ${array.index}')[0] ?? '',
      /^args\[1\]: \$\{array.index\}: would become code/,
    );
    assert.match(ofCommand('bash', '-c', OWN, '${HOME}')[0] ?? '', /^args\[2\]: \$\{HOME\}: unknown/);
  });
});
