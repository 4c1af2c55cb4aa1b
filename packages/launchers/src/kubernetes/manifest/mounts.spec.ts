import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { parseVolumes, type OfferedVolumes } from '@longshore/worker/settings/volumes';
import type { JobSpec } from '../../launcher/engine.js';
import { CONTEXT } from '../../testing/job-context.js';
import { jobSpec } from '../../testing/job-spec.js';
import type { PodSpec } from '../api/resources.js';
import { jobManifest } from './job-manifest.js';
import { missingVolume, podMounts, unmountedVolume } from './mounts.js';

const LONG = 'v'.repeat(63);
const VOLUMES: OfferedVolumes =
  parseVolumes(`datasets=pvc:data:ro,results=pvc:team.results,${LONG}=pvc:long`) ?? new Map();

const podOf = (spec: Partial<JobSpec>): PodSpec | undefined =>
  jobManifest(jobSpec(spec), { ...CONTEXT, volumes: VOLUMES }).spec?.template.spec;

const event = (unmounted: string): string =>
  `Unable to attach or mount volumes: unmounted volumes=[${unmounted}], unattached volumes=[longshore-mount-1-b]: timed out`;

describe('the mounts of a run on Kubernetes', () => {
  it('are claims, below a folder of them if the run says so, and folders of limited size', () => {
    const pod = podOf({
      mounts: [
        { volume: 'datasets', path: '/data', read_only: true },
        { volume: 'results', path: '/out', sub_path: 'team-a/run $(X)' },
        { scratch_mb: 500, path: '/scratch' },
      ],
    });
    assert.deepEqual(pod?.volumes?.slice(2), [
      { name: 'longshore-mount-0-datasets', persistentVolumeClaim: { claimName: 'data', readOnly: true } },
      { name: 'longshore-mount-1-results', persistentVolumeClaim: { claimName: 'team.results' } },
      { name: 'longshore-scratch-2', emptyDir: { sizeLimit: '500Mi' } },
    ]);
    assert.deepEqual(pod.initContainers?.[1]?.volumeMounts?.slice(1), [
      { name: 'longshore-mount-0-datasets', mountPath: '/data', readOnly: true },
      { name: 'longshore-mount-1-results', mountPath: '/out', subPath: 'team-a/run $(X)' },
      { name: 'longshore-scratch-2', mountPath: '/scratch' },
    ]);
    assert.equal(pod.containers[0]?.volumeMounts?.length, 1);
  });

  it('are one volume of the pod for each claim, which nodes cannot mount twice, by however many names it is mounted', () => {
    const volumes = parseVolumes('data=pvc:a:ro,team=pvc:a,other=pvc:b:ro') ?? new Map();
    const mounts = [
      { volume: 'data', path: '/a', read_only: true },
      { volume: 'team', path: '/b', sub_path: 'b' },
      { volume: 'other', path: '/c', read_only: true },
      { volume: 'other', path: '/d', read_only: true, sub_path: 'd' },
    ];
    const pod = podMounts(jobSpec({ mounts }), volumes, '/reference');
    const [first, second] = ['longshore-mount-0-data', 'longshore-mount-2-other'];
    assert.deepEqual(pod.volumes, [
      { name: first, persistentVolumeClaim: { claimName: 'a' } },
      { name: second, persistentVolumeClaim: { claimName: 'b', readOnly: true } },
    ]);
    assert.deepEqual(pod.mounts, [
      { name: first, mountPath: '/a', readOnly: true },
      { name: first, mountPath: '/b', subPath: 'b' },
      { name: second, mountPath: '/c', readOnly: true },
      { name: second, mountPath: '/d', subPath: 'd', readOnly: true },
    ]);
    assert.deepEqual(pod.ownedMounts, [{ name: first, mountPath: '/longshore-mounts/1', subPath: 'b' }]);
  });

  it('are seen by the container of the launcher only where it sets the owner', () => {
    const mounts = [
      { volume: 'results', path: '/a', read_only: true, sub_path: 'b' },
      { volume: 'results', path: '/b' },
      { volume: 'results', path: '/c', sub_path: 'b' },
      { scratch_mb: 1, path: '/d' },
    ];
    const [inputs] = podOf({ mounts, user: '1000:7' })?.initContainers ?? [];
    assert.deepEqual(inputs?.volumeMounts?.slice(2), [
      { name: 'longshore-mount-0-results', mountPath: '/longshore-mounts/2', subPath: 'b' },
      { name: 'longshore-scratch-3', mountPath: '/longshore-mounts/3' },
    ]);
    assert.deepEqual(inputs.securityContext?.capabilities?.add, ['CHOWN']);
    const [open] = podOf({ mounts })?.initContainers ?? [];
    assert.equal(open?.securityContext?.capabilities?.add, undefined);
  });

  it('have names that Kubernetes takes, by which the volume of a missing claim is found', () => {
    const pod = podOf({ mounts: [{ volume: LONG, path: '/a' }] });
    const name = pod?.volumes?.at(-1)?.name ?? '';
    assert.match(name, /^longshore-mount-0-v{45}$/);
    const said = '0/3 nodes are available: persistentvolumeclaim "team.results" not found.';
    assert.equal(missingVolume(podOf({ mounts: [{ volume: 'results', path: '/a' }] }), said), 'results');
    for (const other of [undefined, '0/3 nodes are available', 'persistentvolumeclaim "other" not found'])
      assert.equal(missingVolume(pod, other), undefined);
  });

  it('are found by the event of a node that cannot mount them', () => {
    assert.equal(unmountedVolume(event('longshore-files longshore-mount-0-results')), 'results');
    const others = [event('longshore-files'), event(''), 'MountVolume.SetUp failed for volume "team"'];
    for (const other of [undefined, ...others]) assert.equal(unmountedVolume(other), undefined);
  });

  it('fail the attempt when the launcher does not offer them', () => {
    for (const [mount, message] of [
      [{ volume: 'other', path: '/a' }, "This worker does not offer the volume 'other'"],
      [{ volume: 'datasets', path: '/a' }, "This worker does not offer the volume 'datasets' for writing"],
    ] as const)
      assert.throws(() => podOf({ mounts: [mount] }), { name: 'Error', message });
  });

  it('give a new folder to the user of the run, or to everybody, and leave others as they are', () => {
    const base = mkdtempSync(join(tmpdir(), 'longshore-mounts-'));
    const reference = mkdtempSync(join(tmpdir(), 'longshore-reference-'));
    try {
      const modeAfter = (user: string | null, fill: (folder: string) => void): string => {
        const folder = mkdtempSync(join(base, 'f'));
        fill(folder);
        const { commands } = podMounts(
          jobSpec({ mounts: [{ volume: 'results', path: '/a', sub_path: 'b' }], user }),
          VOLUMES,
          reference,
        );
        const script = commands.join(' && ').replaceAll('/longshore-mounts/0', folder);
        execFileSync('/bin/sh', ['-c', script]);
        return (statSync(folder).mode & 0o7777).toString(8);
      };
      const own = `${process.getuid?.() ?? 0}:${process.getgid?.() ?? 0}`;
      assert.equal(
        modeAfter(null, () => undefined),
        '1777',
      );
      assert.equal(
        modeAfter(own, () => undefined),
        '755',
      );
      // An empty folder that was there before the pod.
      for (const user of [null, own])
        assert.equal(
          modeAfter(user, (folder) => utimesSync(folder, 1, 1)),
          '700',
        );
      assert.equal(
        modeAfter(null, (folder) => mkdirSync(join(folder, 'a'))),
        '700',
      );
      assert.equal(
        modeAfter(null, (folder) => writeFileSync(join(folder, '.a'), '')),
        '700',
      );
    } finally {
      for (const each of [base, reference]) rmSync(each, { recursive: true });
    }
  });
});
