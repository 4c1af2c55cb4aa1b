import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, it } from 'vitest';
import type { PodTemplate } from '../api/resources.js';
import { jobSpec } from '../../testing/job-spec.js';
import { CONTEXT, SETTINGS } from '../../testing/job-context.js';
import { jobManifest } from './job-manifest.js';
import { choosePatch } from './pod-template-patch.js';

const folder = mkdtempSync(join(tmpdir(), 'longshore-patch-'));
const file = join(folder, 'pod.yaml');

/** The template of a run after the patch. */
async function patched(yaml: string, settings = SETTINGS): Promise<PodTemplate | undefined> {
  writeFileSync(file, yaml);
  const context = { ...CONTEXT, settings: { ...settings, podTemplate: file } };
  return jobManifest(jobSpec({ env: { A: 'mine' } }), { ...context, patch: await choosePatch(context) }).spec
    ?.template;
}

/** A patch of the container of the run. */
const ofRun = (fields: string): string => `spec: {initContainers: [{name: run, ${fields}}]}`;

describe('the patch of the pod template', () => {
  afterAll(() => rmSync(folder, { recursive: true }));

  it('adds and replaces fields, and merges containers and variables by name', async () => {
    const template = await patched(`
metadata:
  annotations: {team: a}
  labels: {team: b}
spec:
  nodeSelector: {disk: ssd}
  schedulerName: theirs
  runtimeClassName: sandbox
  initContainers:
    - name: run
      imagePullPolicy: IfNotPresent
      securityContext: {readOnlyRootFilesystem: true}
      resources: {limits: {ephemeral-storage: 10Gi}}
      env: [{name: HTTP_PROXY, value: p}, {name: A, value: theirs}]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
`);
    assert.deepEqual(template?.metadata?.annotations, { team: 'a' });
    assert.equal(template?.metadata?.labels?.['longshore.run'], 'r1');
    const { spec } = template ?? {};
    assert.deepEqual(spec?.nodeSelector, { disk: 'ssd' });
    assert.equal(spec?.schedulerName, 'theirs');
    assert.equal(spec?.runtimeClassName, 'sandbox');
    const run = spec?.initContainers?.[1];
    assert.equal(run?.imagePullPolicy, 'IfNotPresent');
    assert.deepEqual(run?.securityContext, {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      readOnlyRootFilesystem: true,
    });
    assert.deepEqual(run?.resources, { limits: { 'ephemeral-storage': '10Gi' } });
    assert.deepEqual(
      run?.env?.map(({ name, value }) => `${name}=${value}`),
      [
        'A=theirs',
        'SERVICE_INPUT_PATH=/longshore/input.json',
        'SERVICE_OUTPUT_PATH=/longshore/output.json',
        'SERVICE_RUN_ID=r1',
        'SERVICE_RUN_ATTEMPT=2',
        'SERVICE_CPU=1',
        'SERVICE_RAM_MB=0',
        'NVIDIA_VISIBLE_DEVICES=void',
        'HTTP_PROXY=p',
      ],
    );
    assert.deepEqual(
      run?.volumeMounts?.map(({ mountPath }) => mountPath),
      ['/longshore', '/data'],
    );
    assert.deepEqual(
      spec?.volumes?.map(({ name }) => name),
      ['longshore-files', 'longshore-secret', 'data'],
    );
  });

  it('admits the label and the annotations that meshes and autoscalers read', async () => {
    const template = await patched(`
metadata:
  labels: { 'sidecar.istio.io/inject': 'false' }
  annotations:
    karpenter.sh/do-not-disrupt: 'true'
    cluster-autoscaler.kubernetes.io/safe-to-evict: 'false'
`);
    assert.equal(template?.metadata?.labels?.['sidecar.istio.io/inject'], 'false');
    assert.equal(template.metadata.labels['longshore.run'], 'r1');
    assert.deepEqual(template.metadata.annotations, {
      'karpenter.sh/do-not-disrupt': 'true',
      'cluster-autoscaler.kubernetes.io/safe-to-evict': 'false',
    });
  });

  it('may choose a user for runs without one, a profile of the nodes, and take capabilities away', async () => {
    const template = await patched(`
spec:
  securityContext: { runAsUser: 1000, runAsNonRoot: true, seccompProfile: { type: Localhost, localhostProfile: p } }
  initContainers:
    - { name: inputs, resources: { limits: { memory: 128Mi } } }
    - { name: run, securityContext: { seccompProfile: { type: RuntimeDefault } } }
  containers:
    - { name: outputs, securityContext: { capabilities: { add: [] } } }
`);
    assert.deepEqual(template?.spec?.securityContext, {
      runAsUser: 1000,
      runAsNonRoot: true,
      seccompProfile: { type: 'Localhost', localhostProfile: 'p' },
    });
    assert.deepEqual(template.spec.containers[0]?.securityContext?.capabilities, { drop: ['ALL'], add: [] });
  });

  it('may select nodes by the label of a tag only as the tag does', async () => {
    const tags = new Map([['eu', { name: 'zone', value: 'eu-1' }]]);
    const settings = { ...SETTINGS, tags };
    const template = await patched('spec: {nodeSelector: {zone: eu-1}}', settings);
    assert.deepEqual(template?.spec?.nodeSelector, { zone: 'eu-1' });
    await assert.rejects(patched('spec: {nodeSelector: {zone: us-1}}', settings), {
      name: 'SettingsError',
      message: /spec.nodeSelector.zone is the label of the tag 'eu'/,
    });
  });

  const refused: Readonly<Record<string, readonly [string, RegExp]>> = {
    'that is no YAML': ['a: [', /cannot be used: /],
    'that holds no fields': ['[a]', /the file must hold fields/],
    'with an unknown field': ['spec: {restartpolicy: Always}', /spec has the unknown field 'restartpolicy'/],
    'of a whole pod': ['kind: Pod', /the file has the unknown field 'kind'/],
    'with an unknown field of a container': [
      'spec: {containers: [{name: outputs, cmd: x}]}',
      /an entry of spec.containers has the unknown field 'cmd'/,
    ],
    'that starts containers again': ['spec: {restartPolicy: OnFailure}', /spec.restartPolicy must keep/],
    'that changes the time to stop': [
      'spec: {terminationGracePeriodSeconds: 0}',
      /spec.terminationGracePeriodSeconds follows the stop_grace_s/,
    ],
    'that adds a container': [
      'spec: {containers: [{name: proxy}]}',
      /spec.containers must be outputs and no others/,
    ],
    'that removes the containers': [
      'spec: {initContainers: null}',
      /spec.initContainers must be inputs, run and no others/,
    ],
    'that changes the image of the run': [
      'spec: {initContainers: [{name: run, image: x}]}',
      /spec.initContainers.run.image must keep/,
    ],
    'that changes the entrypoint': [
      'spec: {initContainers: [{name: run, command: [x]}]}',
      /spec.initContainers.run.command must keep/,
    ],
    'that changes a variable of the launcher': [
      'spec: {initContainers: [{name: run, env: [{name: SERVICE_INPUT_PATH, value: x}]}]}',
      /spec.initContainers.run.env must keep/,
    ],
    'that changes the volume': [
      'spec: {volumes: [{name: longshore-files, hostPath: {path: /x}}]}',
      /spec.volumes must keep what the launcher sets/,
    ],
    'that removes a mount': [
      'spec: {containers: [{name: outputs, volumeMounts: null}]}',
      /spec.containers.outputs.volumeMounts must keep/,
    ],
    'with a label of the launcher': [
      'metadata: {labels: {longshore.run: x}}',
      /labels.longshore.run is set by the launcher/,
    ],
    'that removes the labels': ['metadata: {labels: null}', /metadata.labels must keep/],
    'with an annotation of the launcher': [
      'metadata: {annotations: {longshore.name: x}}',
      /annotations.longshore.name is set by the launcher/,
    ],
    'that removes the annotations': ['metadata: {annotations: null}', /metadata.annotations must keep/],
    'that changes the working directory': [ofRun('workingDir: /x'), /run.workingDir must keep/],
    'that lets the program go on beside the others': [
      ofRun('restartPolicy: Always'),
      /run.restartPolicy must keep/,
    ],
    'that makes the program privileged': [
      ofRun('securityContext: {privileged: true}'),
      /run.securityContext.privileged must keep/,
    ],
    'that lets the program get privileges': [
      ofRun('securityContext: {allowPrivilegeEscalation: true}'),
      /run.securityContext.allowPrivilegeEscalation must keep/,
    ],
    'that removes the limits of the privileges': [
      ofRun('securityContext: null'),
      /run.securityContext.allowPrivilegeEscalation must keep/,
    ],
    'that gives the program a capability': [
      ofRun('securityContext: {capabilities: {add: [SYS_ADMIN]}}'),
      /run.securityContext.capabilities must not give more/,
    ],
    'that gives the launcher another capability': [
      'spec: {containers: [{name: outputs, securityContext: {capabilities: {add: [SYS_PTRACE]}}}]}',
      /outputs.securityContext.capabilities must not give more/,
    ],
    'that lets the program keep capabilities': [
      ofRun('securityContext: {capabilities: {drop: [CHOWN]}}'),
      /run.securityContext.capabilities must not give more/,
    ],
    'that chooses another user than the run': [
      ofRun('securityContext: {runAsUser: 0}'),
      /run.securityContext.runAsUser must keep the user of the run/,
    ],
    'that chooses another group than the run': [
      ofRun('securityContext: {runAsGroup: 0}'),
      /run.securityContext.runAsGroup must keep the user of the run/,
    ],
    'that shows all of /proc': [ofRun('securityContext: {procMount: Unmasked}'), /procMount must keep/],
    'that removes the profile of seccomp': [
      'spec: {securityContext: {seccompProfile: null}}',
      /spec.securityContext.seccompProfile must be RuntimeDefault or a Localhost profile/,
    ],
    'that removes the security context of the pod': [
      'spec: {securityContext: null}',
      /spec.securityContext.seccompProfile must be/,
    ],
    'that switches seccomp off for the program': [
      ofRun('securityContext: {seccompProfile: {type: Unconfined}}'),
      /run.securityContext.seccompProfile must be/,
    ],
    'that switches AppArmor off': [
      'spec: {securityContext: {appArmorProfile: {type: Unconfined}}}',
      /spec.securityContext.appArmorProfile must not be Unconfined/,
    ],
    'that switches AppArmor off by an annotation': [
      'metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/run: unconfined}}',
      /must not be unconfined/,
    ],
    'that gives runs the network of the node': ['spec: {hostNetwork: true}', /spec.hostNetwork must not be/],
    'that gives runs the processes of the node': ['spec: {hostPID: true}', /spec.hostPID must not be true/],
    'that gives runs the token of an account': [
      'spec: {automountServiceAccountToken: true}',
      /spec.automountServiceAccountToken must keep/,
    ],
    'that shows runs the services': ['spec: {enableServiceLinks: null}', /spec.enableServiceLinks must keep/],
    'that removes the login of the run': [
      'spec: {imagePullSecrets: null}',
      /spec.imagePullSecrets must keep/,
    ],
    'that removes the nodes that the run requires': [
      'spec: {affinity: null}',
      /spec.affinity must keep the nodes/,
    ],
    'that changes the memory of the run': [
      ofRun('resources: {limits: {memory: 1Gi}}'),
      /run.resources.limits must keep what the run asks for/,
    ],
    'that changes the CPUs of the run': [
      ofRun('resources: {requests: {cpu: 1m}}'),
      /run.resources.requests must keep what the run asks for/,
    ],
    'that selects GPUs': [
      'spec: {nodeSelector: {nvidia.com/gpu.product: x}}',
      /spec.nodeSelector.nvidia.com\/gpu.product follows the gpu_selector/,
    ],
    'that requires nodes by affinity': [
      'spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}}',
      /use spec.nodeSelector/,
    ],
  };
  for (const [what, [yaml, message]] of Object.entries(refused)) {
    it(`is refused with one line: one ${what}`, async () => {
      await assert.rejects(patched(yaml), (error: Error) => {
        assert.equal(error.name, 'SettingsError');
        assert.match(
          error.message,
          /^SERVICE_WORKER_KUBERNETES_POD_TEMPLATE \(.*pod.yaml\) cannot be used: [^\n]+$/,
        );
        assert.match(error.message, message);
        return true;
      });
    });
  }

  it('is refused when there is no such file', async () => {
    const settings = { ...SETTINGS, podTemplate: join(folder, 'none.yaml') };
    await assert.rejects(choosePatch({ ...CONTEXT, settings }), { name: 'SettingsError', message: /ENOENT/ });
  });
});
