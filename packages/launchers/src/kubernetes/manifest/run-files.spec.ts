import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { RunArtifacts } from '@longshore/worker/service-api/run-artifacts';
import { unpackMessage } from '@longshore/worker/transfer/messages';
import type { JobSpec } from '../../launcher/engine.js';
import { CONTEXT, SETTINGS } from '../../testing/job-context.js';
import { jobSpec } from '../../testing/job-spec.js';
import type { Container, PodSpec, PodTemplate } from '../api/resources.js';
import { jobManifest } from './job-manifest.js';
import { checkImage } from './mounts.js';
import { secretManifests } from './secrets.js';

const file = {
  get: { url: 'https://s/x?signature=abc', bytes: 1, sha256: null },
  url: null,
  sha256: null,
  isUnpacked: false,
};
const target = (path: string) => ({ path, isRequired: true, isAlways: false });
const ARTIFACTS: RunArtifacts = {
  in: { '/data/x': file, '/app': { ...file, isUnpacked: true }, '/out/given': file },
  out: { model: target('/out/model'), plots: target('/out/plots/*'), log: target('/scratch/l') },
};
const context = { ...CONTEXT, settings: { ...SETTINGS, filesImage: 'worker:1' } };

function podOf(more: Partial<JobSpec>, patch = context.patch): PodSpec {
  const { spec } = jobManifest(jobSpec({ signedFiles: ARTIFACTS, ...more }), { ...context, patch });
  assert.ok(spec?.template.spec);
  return spec.template.spec;
}

const names = (list: readonly Container[] = []) => list.map(({ name }) => name);

function containerOf(pod: PodSpec, name: string): Container {
  const found = [...(pod.initContainers ?? []), ...pod.containers].find((one) => one.name === name);
  assert.ok(found, name);
  return found;
}

const mountsOf = (pod: PodSpec, name: string) =>
  (containerOf(pod, name).volumeMounts ?? []).map(
    ({ mountPath, subPath = '', readOnly = false }) => `${mountPath} ${subPath} ${readOnly ? 'ro' : 'rw'}`,
  );

describe('the pod of a run with files', () => {
  it('fetches before the program, and stores beside it', () => {
    const pod = podOf({});
    assert.deepEqual(names(pod.initContainers), ['inputs', 'files']);
    assert.deepEqual(names(pod.containers), ['run', 'outputs']);
    assert.deepEqual(
      ['inputs', 'files', 'outputs'].map((name) => containerOf(pod, name).image),
      ['helper:1', 'worker:1', 'worker:1'],
    );
  });

  it('has the program as all others have when the run leaves no files', () => {
    const pod = podOf({ signedFiles: { ...ARTIFACTS, out: {} } });
    assert.deepEqual(names(pod.initContainers), ['inputs', 'files', 'run']);
    assert.deepEqual(names(pod.containers), ['outputs']);
    assert.equal(containerOf(pod, 'outputs').image, 'helper:1');
  });

  it('mounts the outermost of what the run gets and leaves, and files so that they cannot be written', () => {
    const pod = podOf({ mounts: [{ path: '/scratch', scratch_mb: 1 }] });
    assert.deepEqual(mountsOf(pod, 'run'), [
      '/longshore  rw',
      '/scratch  rw',
      '/data/x data/x ro',
      '/app app rw',
      '/out out rw',
    ]);
    assert.ok(mountsOf(pod, 'files').includes('/longshore-files-root/scratch  rw'));
    assert.ok(mountsOf(pod, 'outputs').includes('/longshore-files-root/scratch  rw'));
    const { command } = containerOf(pod, 'inputs');
    assert.match(command?.at(-1) ?? '', /\(umask 0; mkdir -p '\/longshore-files-root\/scratch'\)$/);
  });

  it('shows what stores files those that the run mounts in its folders', () => {
    const files = [{ path: "/out/it's", content: 'x', mode: 0o444, isSecret: false }];
    assert.ok(mountsOf(podOf({ files }), 'outputs').includes("/longshore-files-root/out/it's file.0 ro"));
  });

  it('moves files as the user of the run, without capabilities', () => {
    const pod = podOf({ user: '5:6' });
    for (const name of ['files', 'outputs']) {
      assert.deepEqual(containerOf(pod, name).securityContext, {
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
        runAsUser: 5,
        runAsGroup: 6,
      });
    }
  });

  it('reads files of any user where the run names none, unless the template of the operator names one', () => {
    const root = containerOf(podOf({}), 'outputs').securityContext;
    assert.deepEqual([root?.runAsUser, root?.capabilities?.add], [0, ['DAC_OVERRIDE']]);
    // oxlint-disable-next-line unicorn/consistent-function-scoping -- the template of this test
    const patch = (template: PodTemplate): PodTemplate => ({
      ...template,
      spec: { containers: [], ...template.spec, securityContext: { runAsUser: 9 } },
    });
    assert.equal(containerOf(podOf({}, patch), 'outputs').securityContext?.runAsUser, undefined);
  });

  it('has what a template says of containers where most pods have them', () => {
    // oxlint-disable-next-line unicorn/consistent-function-scoping -- the template of this test
    const patch = (template: PodTemplate): PodTemplate => {
      const spec = template.spec ?? { containers: [] };
      const initContainers = (spec.initContainers ?? []).map((one) => ({ ...one, tty: one.name === 'run' }));
      return { ...template, spec: { ...spec, initContainers: [...initContainers, { name: 'files' }] } };
    };
    assert.equal(containerOf(podOf({}, patch), 'run').tty, true);
    const plain = jobManifest(jobSpec(), { ...context, patch }).spec?.template.spec;
    assert.deepEqual(names(plain?.initContainers), ['inputs', 'run']);
  });

  it('fails the run that leaves a file beside the folders of its image', () => {
    assert.throws(() => podOf({ signedFiles: { in: {}, out: { model: target('/model') } } }), {
      name: 'RunFault',
      message: 'On Kubernetes, the files that a run leaves must be in a folder below /',
    });
  });

  it('is not for images that may have no mounts', () => {
    assert.throws(() => checkImage(jobSpec({ signedFiles: ARTIFACTS }), ['other/*']), { name: 'RunFault' });
  });

  it('has signed URLs in a Secret alone, which only the containers that move files mount', () => {
    const spec = jobSpec({ signedFiles: ARTIFACTS });
    assert.doesNotMatch(JSON.stringify(jobManifest(spec, context)), /signature/);
    const { volumes = [], initContainers = [], containers } = podOf({});
    const { name: volume } = volumes.find((one) => one.secret?.secretName === 'run-r1-2-files') ?? {};
    const mounting = [...initContainers, ...containers].filter(({ volumeMounts = [] }) =>
      volumeMounts.some(({ name }) => name === volume),
    );
    assert.deepEqual(names(mounting), ['files', 'outputs']);
    const [, secret] = secretManifests(spec, {}, '10.0.0.0/8');
    assert.equal(secret?.metadata?.name, 'run-r1-2-files');
    const read = (key: string) => Buffer.from(secret?.data?.[key] ?? '', 'base64');
    const sources = unpackMessage('sources', read('sources.json.gz'));
    assert.deepEqual(sources, {
      in: ARTIFACTS.in,
      folders: ['/out', '/out/plots', '/scratch'],
      networks: '10.0.0.0/8',
      atMs: 0,
    });
    assert.deepEqual(unpackMessage('targets', read('targets.json.gz')), { out: ARTIFACTS.out });
  });
});
