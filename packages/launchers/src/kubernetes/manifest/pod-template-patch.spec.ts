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
  enableServiceLinks: null
  initContainers:
    - name: run
      imagePullPolicy: IfNotPresent
      securityContext: {runAsUser: 1000}
      env: [{name: HTTP_PROXY, value: p}, {name: A, value: theirs}]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
`);
    assert.deepEqual(template?.metadata?.annotations, { team: 'a' });
    assert.equal(template?.metadata?.labels?.['longshore.run'], 'r1');
    const { spec } = template ?? {};
    assert.deepEqual(spec?.nodeSelector, { disk: 'ssd' });
    assert.equal(spec?.schedulerName, 'theirs');
    assert.equal('enableServiceLinks' in Object(spec), false);
    const run = spec?.initContainers?.[1];
    assert.equal(run?.imagePullPolicy, 'IfNotPresent');
    assert.deepEqual(run?.securityContext, {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      runAsUser: 1000,
    });
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

  const refused: Readonly<Record<string, readonly [string, RegExp]>> = {
    'that is no YAML': ['a: [', /cannot be used: /],
    'that holds no fields': ['[a]', /the file must hold fields/],
    'with an unknown field': ['spec: {restartpolicy: Always}', /spec has the unknown field 'restartpolicy'/],
    'of a whole pod': ['kind: Pod', /the file has the unknown field 'kind'/],
    'with an unknown field of a container': [
      'spec: {containers: [{name: outputs, cmd: x}]}',
      /an entry of spec.containers has the unknown field 'cmd'/,
    ],
    'that starts containers again': [
      'spec: {restartPolicy: OnFailure}',
      /spec.restartPolicy must stay Never/,
    ],
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
      /spec.volumes must keep the volumes of the launcher/,
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
