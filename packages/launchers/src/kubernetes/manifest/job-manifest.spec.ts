import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { jobSpec } from '../../testing/job-spec.js';
import { sampleOptions } from '@longshore/worker/testing/sample-options';
import { CONTEXT } from '../../testing/job-context.js';
import { CONTAINER_CAPABILITIES } from '@longshore/worker/runtime/runtime';
import { jobLabels, jobManifest } from './job-manifest.js';
import { outputsScript } from './output-frame.js';
import { secretManifests } from './secrets.js';

const podOf = (...args: Parameters<typeof jobManifest>) => jobManifest(...args).spec?.template.spec;
const runOf = (...args: Parameters<typeof jobManifest>) => podOf(...args)?.initContainers?.[1];
const LABELS = {
  'longshore.deployment': 'prod',
  'longshore.worker': 'sha-63ac0b85f53f4cbfa6bd7e8a6b4d1a4d',
  'longshore.run': 'r1',
  'longshore.attempt': '2',
};

function textsOf(data: Readonly<Record<string, string>> = {}): Record<string, string> {
  const entries = Object.entries(data).map(([key, text]) => [key, Buffer.from(text, 'base64').toString()]);
  return Object.fromEntries(entries);
}

/** The login that the node gets for the image. */
function login(image: string, server: string): unknown {
  const registry = { server, username: 'u', password: 'p' };
  const secret = secretManifests(jobSpec({ image, registry }), LABELS)[1];
  assert.equal(secret?.type, 'kubernetes.io/dockerconfigjson');
  return JSON.parse(textsOf(secret.data)['.dockerconfigjson'] ?? '');
}

const OF_RUN = [
  { name: 'SERVICE_RUN_ID', value: 'r1' },
  { name: 'SERVICE_RUN_ATTEMPT', value: '2' },
  { name: 'SERVICE_CPU', value: '1' },
  { name: 'SERVICE_RAM_MB', value: '0' },
  { name: 'NVIDIA_VISIBLE_DEVICES', value: 'void' },
];

describe('the Job of an attempt', () => {
  it('has the name and labels of the run as annotations, and labels of the pod where Kubernetes takes them', () => {
    const labels = { team: 'vision', 'org/stage': 'a', note: 'two words', empty: '' };
    const { metadata, spec } = jobManifest(jobSpec({ name: 'nightly run', labels }), CONTEXT);
    const annotations = { 'longshore.name': 'nightly run', 'longshore.labels': JSON.stringify(labels) };
    assert.deepEqual(metadata?.annotations, { 'longshore.worker': 'w:1/a', ...annotations });
    assert.deepEqual(spec?.template.metadata, {
      labels: { ...metadata?.labels, 'longshore.label/team': 'vision', 'longshore.label/empty': '' },
      annotations,
    });
  });

  it('is exactly this for a plain run', () => {
    const worker = jobLabels(jobSpec(), CONTEXT)['longshore.worker'] ?? '';
    assert.match(worker, /^sha-[0-9a-f]{32}$/);
    const labels = { ...LABELS, 'longshore.worker': worker };
    const mount = { name: 'longshore-files', mountPath: '/longshore' };
    const resources = { requests: { cpu: '10m', memory: '16Mi' }, limits: { cpu: '500m', memory: '64Mi' } };
    const drop = ['ALL'];
    assert.deepEqual(jobManifest(jobSpec(), CONTEXT), {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'run-r1-2', labels, annotations: { 'longshore.worker': 'w:1/a' } },
      spec: {
        backoffLimit: 0,
        parallelism: 1,
        completions: 1,
        ttlSecondsAfterFinished: 86_400,
        podReplacementPolicy: 'Failed',
        podFailurePolicy: {
          rules: [{ action: 'FailJob', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] }],
        },
        template: {
          metadata: { labels },
          spec: {
            restartPolicy: 'Never',
            automountServiceAccountToken: false,
            enableServiceLinks: false,
            terminationGracePeriodSeconds: 10,
            securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
            initContainers: [
              {
                name: 'inputs',
                image: 'helper:1',
                command: [
                  'sh',
                  '-c',
                  'cp /longshore-secret/input.json /longshore-secret/output.json /longshore/ && chmod 644 /longshore/input.json && chmod 666 /longshore/output.json',
                ],
                resources,
                securityContext: { allowPrivilegeEscalation: false, capabilities: { drop } },
                volumeMounts: [
                  mount,
                  { name: 'longshore-secret', mountPath: '/longshore-secret', readOnly: true },
                ],
              },
              {
                name: 'run',
                image: 'img:1',
                imagePullPolicy: 'Always',
                env: [
                  { name: 'SERVICE_INPUT_PATH', value: '/longshore/input.json' },
                  { name: 'SERVICE_OUTPUT_PATH', value: '/longshore/output.json' },
                  ...OF_RUN,
                ],
                securityContext: { allowPrivilegeEscalation: false, capabilities: { drop } },
                volumeMounts: [mount],
              },
            ],
            containers: [
              {
                name: 'outputs',
                image: 'helper:1',
                command: ['sh', '-c', outputsScript('/longshore/output.json').replaceAll('$', '$$$$')],
                resources,
                securityContext: {
                  allowPrivilegeEscalation: false,
                  capabilities: { drop, add: ['DAC_OVERRIDE'] },
                },
                volumeMounts: [mount],
              },
            ],
            volumes: [
              { name: 'longshore-files', emptyDir: {} },
              {
                name: 'longshore-secret',
                secret: {
                  secretName: 'run-r1-2',
                  defaultMode: 0o444,
                  optional: true,
                  items: [
                    { key: 'input.json', path: 'input.json' },
                    { key: 'output.json', path: 'output.json' },
                  ],
                },
              },
            ],
          },
        },
      },
    });
  });

  it('passes variables, secrets and the trace, the own ones above all', () => {
    const trace = { traceparent: '00-1-2-01', tracestate: null };
    const env = { A: '$(B) $$', TRACEPARENT: 'mine', BOTH: 'open' };
    const spec = jobSpec({ env, secrets: { TOKEN: 't', BOTH: 's' }, trace });
    assert.deepEqual(runOf(spec, CONTEXT)?.env, [
      { name: 'A', value: '$$(B) $$$$' },
      { name: 'TRACEPARENT', value: '00-1-2-01' },
      { name: 'SERVICE_INPUT_PATH', value: '/longshore/input.json' },
      { name: 'SERVICE_OUTPUT_PATH', value: '/longshore/output.json' },
      ...OF_RUN,
      { name: 'TOKEN', valueFrom: { secretKeyRef: { name: 'run-r1-2', key: 'env.0' } } },
      { name: 'BOTH', valueFrom: { secretKeyRef: { name: 'run-r1-2', key: 'env.1' } } },
    ]);
  });

  it('passes command and arguments as they are', () => {
    const run = runOf(jobSpec({ command: ['sh', '$(X)'], args: ['$$', 'a'] }), CONTEXT);
    assert.deepEqual(
      [run?.command, run?.args],
      [
        ['sh', '$$(X)'],
        ['$$$$', 'a'],
      ],
    );
    const empty = runOf(jobSpec({ command: [], args: [] }), CONTEXT);
    assert.equal('command' in Object(empty) || 'args' in Object(empty), false);
  });

  it('carries out every option whose capability it announces', () => {
    for (const options of sampleOptions(CONTAINER_CAPABILITIES)) {
      assert.notDeepEqual(
        podOf(jobSpec(options), CONTEXT),
        podOf(jobSpec(), CONTEXT),
        Object.keys(options).join(),
      );
    }
  });

  it('runs as the user of the run, with the group of the image unless the run has one, without more rights', () => {
    const common = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };
    for (const [user, ids] of [
      ['0', { runAsUser: 0 }],
      ['1000', { runAsUser: 1000 }],
      ['1000:2000', { runAsUser: 1000, runAsGroup: 2000 }],
    ] as const)
      assert.deepEqual(runOf(jobSpec({ user }), CONTEXT)?.securityContext, { ...common, ...ids });
    assert.equal(runOf(jobSpec({ workdir: '/a $(B)' }), CONTEXT)?.workingDir, '/a $(B)');
  });

  it('gives a user other than root, whom the image may not know, a home and a name, unless the run has its own', () => {
    const home = { name: 'HOME', value: '/longshore/home' };
    assert.deepEqual(accountOf({ user: '1042:7' }), [
      home,
      { name: 'USER', value: 'user1042' },
      { name: 'LOGNAME', value: 'user1042' },
    ]);
    assert.deepEqual(accountOf({ user: '1042', env: { HOME: '/data' } }), [
      { name: 'HOME', value: '/data' },
      { name: 'USER', value: 'user1042' },
      { name: 'LOGNAME', value: 'user1042' },
    ]);
    for (const user of [null, '0']) assert.deepEqual(accountOf({ user }), []);
    const [inputs] = podOf(jobSpec({ user: '1042' }), CONTEXT)?.initContainers ?? [];
    assert.match(
      String(inputs?.command?.[2]),
      / && mkdir \/longshore\/home && chmod 1777 \/longshore\/home$/,
    );
  });

  it('puts the files of a run at their paths, with modes and owner, from memory and read-only', () => {
    const files = [
      { path: '/etc/job/a', content: 'a', mode: 0o555, isSecret: false },
      { path: '/key', content: 'k', mode: 0o400, isSecret: true },
    ];
    const pod = podOf(jobSpec({ files, user: '1000:7' }), CONTEXT);
    const [inputs, run] = pod?.initContainers ?? [];
    assert.ok(
      inputs?.command?.[2]?.endsWith(
        ' && cp /longshore-secret/file.0 /longshore-run-files/file.0 && chmod 555 /longshore-run-files/file.0 && ' +
          'chown 1000:7 /longshore-run-files/file.0 && cp /longshore-secret/file.1 /longshore-run-files/file.1 && ' +
          'chmod 400 /longshore-run-files/file.1 && chown 1000:7 /longshore-run-files/file.1',
      ),
      inputs?.command?.[2],
    );
    assert.deepEqual(inputs?.securityContext?.capabilities?.add, ['CHOWN']);
    assert.deepEqual(run?.volumeMounts?.slice(1), [
      { name: 'longshore-run-files', mountPath: '/etc/job/a', subPath: 'file.0', readOnly: true },
      { name: 'longshore-run-files', mountPath: '/key', subPath: 'file.1', readOnly: true },
    ]);
    assert.deepEqual(pod?.volumes?.[1], { name: 'longshore-run-files', emptyDir: { medium: 'Memory' } });
    assert.deepEqual(
      pod.volumes.at(-1)?.secret?.items?.map(({ key }) => key),
      ['input.json', 'output.json', 'file.0', 'file.1'],
    );
    assert.equal(pod.containers[0]?.volumeMounts?.length, 1);
    const ofRoot = podOf(jobSpec({ files }), CONTEXT)?.initContainers?.[0];
    assert.doesNotMatch(ofRoot?.command?.[2] ?? '', /chown/);
    assert.equal(ofRoot?.securityContext?.capabilities?.add, undefined);
  });

  it('gives the pod the time of the run to stop, and never none', () => {
    const pods = [0, 10, 3600].map((stop_grace_s) => podOf(jobSpec({ stop_grace_s }), CONTEXT));
    assert.deepEqual(
      pods.map((pod) => pod?.terminationGracePeriodSeconds),
      [1, 10, 3600],
    );
  });

  it('takes over the settings', () => {
    const settings = {
      ...CONTEXT.settings,
      serviceAccount: 'runs',
      priorityClass: 'low',
      pullSecrets: ['reg'],
      pullPolicy: 'IfNotPresent' as const,
      tolerations: [{ key: 'gpu', operator: 'Exists' as const }],
    };
    const registry = { server: 'ghcr.io', username: 'u', password: 'p' };
    const pod = podOf(jobSpec({ registry, image: 'ghcr.io/a/b' }), { ...CONTEXT, settings });
    assert.equal(pod?.serviceAccountName, 'runs');
    assert.equal(pod?.priorityClassName, 'low');
    assert.deepEqual(pod?.imagePullSecrets, [{ name: 'reg' }, { name: 'run-r1-2-pull' }]);
    assert.deepEqual(pod?.tolerations, settings.tolerations);
    assert.equal(pod?.initContainers?.[1]?.imagePullPolicy, 'IfNotPresent');
  });
});

describe('the Secrets of an attempt', () => {
  it('hold the input, the template and the values of secrets', () => {
    const spec = jobSpec({ inputs: { a: 1 }, outputTemplate: { b: 2 }, secrets: { TOKEN: 'ä' } });
    const [secret, ...others] = secretManifests(spec, LABELS);
    assert.deepEqual(secret?.metadata, { name: 'run-r1-2', labels: LABELS });
    assert.deepEqual(textsOf(secret?.data), {
      'input.json': '{"a":1}',
      'output.json': '{"b":2}',
      'env.0': 'ä',
      'names.json': '{"env.0":"TOKEN"}',
    });
    assert.deepEqual(others, []);
    assert.equal(textsOf(secretManifests(jobSpec(), LABELS)[0]?.data)['output.json'], '');
  });

  it('have keys that every API server takes, however long names are', () => {
    const secrets = { ['A'.repeat(300)]: 'a', TOKEN: 't' };
    const files = [{ path: `/${'p'.repeat(300)}`, content: 'c', mode: 0o444, isSecret: true }];
    const spec = jobSpec({ secrets, files });
    const keys = Object.keys(secretManifests(spec, LABELS)[0]?.data ?? {});
    for (const key of keys) assert.match(key, /^[-._a-zA-Z0-9]{1,253}$/);
    const named = runOf(spec, CONTEXT)?.env?.flatMap(({ name, valueFrom }) =>
      valueFrom === undefined ? [] : [[name, valueFrom.secretKeyRef?.key]],
    );
    assert.deepEqual(named, [
      ['A'.repeat(300), 'env.0'],
      ['TOKEN', 'env.1'],
    ]);
  });

  it('hold the files, and the paths of those that have the value of a secret', () => {
    const files = ['/a', '/key'].map((path) => ({
      path,
      content: path,
      mode: 0o444,
      isSecret: path === '/key',
    }));
    const [secret] = secretManifests(jobSpec({ files }), LABELS);
    const { 'file.0': first, 'file.1': second, 'names.json': names } = textsOf(secret?.data);
    assert.deepEqual([first, second, names], ['/a', '/key', '{"file.1":"/key"}']);
  });

  it('hold the login at the registry of the image', () => {
    const entry = { username: 'u', password: 'p', auth: 'dTpw' };
    assert.deepEqual(login('ghcr.io/a/b:1', 'https://ghcr.io'), { auths: { 'ghcr.io': entry } });
    assert.deepEqual(login('a/b', 'docker.io'), { auths: { 'https://index.docker.io/v1/': entry } });
    assert.throws(() => login('ghcr.io/a/b:1', 'quay.io'), { name: 'RunFault', reported: 'image' });
  });

  it('refuse what the API server cannot store', () => {
    const spec = jobSpec({ inputs: { a: 'x'.repeat(2 ** 20) } });
    assert.throws(() => secretManifests(spec, LABELS), {
      name: 'RunFault',
      message: /have 1048584 bytes together; the limit on Kubernetes is 1048576 bytes/,
    });
  });
});

function accountOf(more: Parameters<typeof jobSpec>[0]): unknown {
  return runOf(jobSpec(more), CONTEXT)?.env?.filter(({ name }) => ['HOME', 'USER', 'LOGNAME'].includes(name));
}
