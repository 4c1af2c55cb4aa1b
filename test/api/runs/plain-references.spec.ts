import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { readWarnings } from '@longshore/common/warnings';
import { useTestApp } from '../../support/app/use-test-app.js';

const IN_DEFINITIONS = 'is plain text here: only definitions replace it';

describe('references that stay as they are', () => {
  const service = useTestApp();
  const warningsOf = async (path: string, body: object, status = 201): Promise<string[]> => {
    const answer = await service.send('POST', path, { body });
    assert.equal(answer.status, status, answer.text);
    return readWarnings(answer.headers);
  };

  const texts = {
    command: ['tool', '${run.id}'],
    args: ['a', '--in=${inputs.any thing}${array.index}', '$${inputs.x}', '${HOME}', '${run.other}'],
    env: { DAY: '${schedule.date}', MODE: '{{ inputs.mode }}', OUT: '/out/$(TOKEN)/$(date)' },
    secrets: { TOKEN: 'token' },
    files: { '/run.sh': { content: 'echo ${group.id}' } },
  };
  const warnings = [
    `command.1: \${run.id} ${IN_DEFINITIONS}`,
    `args.1: \${inputs.any thing} ${IN_DEFINITIONS}`,
    `env.DAY: \${schedule.date} ${IN_DEFINITIONS}`,
    'env.MODE: {{ inputs.mode }} is plain text: in a definition, ${inputs.mode} is replaced',
    'env.OUT: $(TOKEN) is plain text: the variable of that name is replaced only by a shell, as "$TOKEN"',
    `files./run.sh: \${group.id} ${IN_DEFINITIONS}`,
  ];

  test('are told with their places when a run is created, of a definition or not, alone or in a batch', async () => {
    assert.deepEqual(await warningsOf('/runs', { image: 'i', ...texts }), warnings);
    await warningsOf('/definitions', { id: 'plain', version: '1', image: 'i' });
    assert.deepEqual(await warningsOf('/definitions/plain/runs', texts), warnings);
    const runs = [
      { image: 'i', args: ['${HOME}'] },
      { image: 5, args: ['${run.id}'] },
      { image: 'i', args: ['${run.id}'] },
    ];
    assert.deepEqual(await warningsOf('/runs/batch', { runs }, 200), [
      `runs.2.args.0: \${run.id} ${IN_DEFINITIONS}`,
    ]);
    assert.deepEqual(await warningsOf('/runs', { image: 'i', args: ['plain'] }), []);
  });

  test('are told of a definition where it does not replace them: other forms, and files', async () => {
    const body = {
      id: 'forms',
      version: '1',
      image: 'i',
      input_specs: { model: { type: 'string' } },
      env: { KEY: 'k' },
      args: [
        '${inputs.model}',
        '{{inputs.model}}',
        '{{workflow.parameters.model}}',
        'Ref::model',
        '$(KEY)',
        '{{.Name}}',
      ],
      files: { '/a': { content: '${inputs.model}' } },
    };
    const right = 'in a definition, ${inputs.model} is replaced';
    assert.deepEqual(await warningsOf('/definitions', body), [
      `args.1: {{inputs.model}} is plain text: ${right}`,
      `args.2: {{workflow.parameters.model}} is plain text: ${right}`,
      `args.3: Ref::model is plain text: ${right}`,
      'args.4: $(KEY) is plain text: the variable of that name is replaced only by a shell, as "$KEY"',
      `files./a: \${inputs.model} ${IN_DEFINITIONS}`,
    ]);
  });

  test("are none in a shell's code of a definition, whose own variables stay", async () => {
    const body = {
      id: 'shell',
      version: '1',
      image: 'i',
      command: ['bash', '-c', 'pg_dump -h ${HOST:-db} > ${OUT}'],
    };
    assert.deepEqual(await warningsOf('/definitions', body), []);
    const answer = await service.send('POST', '/definitions/shell/runs', { body: {} });
    assert.deepEqual(answer.body.command, body.command);
  });
});
