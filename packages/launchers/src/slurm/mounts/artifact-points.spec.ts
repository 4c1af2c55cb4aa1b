import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import type { FetchedSource } from '@longshore/worker/runtime/runtime';
import type { ContainerTool } from '@longshore/worker/settings/slurm-settings';
import { NO_VOLUMES, parseVolumes } from '@longshore/worker/settings/volumes';
import { jobSpec } from '../../testing/job-spec.js';
import type { JobSpec } from '../../launcher/engine.js';
import { artifactPoints } from './artifact-points.js';
import { attemptMounts, mountPoints } from './attempt-mounts.js';

function source(path: string, kind: FetchedSource['kind']): FetchedSource {
  return { path, kind, entries: async function* () {} };
}

interface Given extends Partial<Pick<JobSpec, 'mounts' | 'files'>> {
  readonly in?: readonly FetchedSource[];
  readonly out?: readonly string[];
  readonly tool?: ContainerTool;
}

const VOLUMES = parseVolumes('v=/shared/v') ?? NO_VOLUMES;

/** Where a container has what, in the order of the mounts. */
function pointsOf({ in: fetched = [], out = [], tool = 'runc', ...more }: Given): string[] {
  const spec = jobSpec({ ...more, artifacts: { fetched, folders: out } });
  const artifacts = artifactPoints(spec, tool);
  const mounts = attemptMounts(spec, tool, VOLUMES, artifacts);
  const kinds = mounts.map(({ volume }) => (volume === '' ? 'scratch' : volume === '/' ? 'own' : volume));
  return mountPoints(mounts, spec.files, artifacts).map(
    ({ mode, path }, index) => `${kinds[index] ?? 'file'} ${mode} ${path}`,
  );
}

function file(path: string): JobSpec['files'][number] {
  return { path, content: '', mode: 0o444, isSecret: false };
}

describe('the places of artifacts in a container', () => {
  test('are folders that can be written and files that cannot, each mounted once with all that is below', () => {
    assert.deepEqual(
      pointsOf({
        in: [source('/data/a', 'file'), source('/app', 'folder'), source('/out/base', 'file')],
        out: ['/app/out', '/out', '/out/plots'],
      }),
      ['own rw /app', 'own rw /out', 'file ro /data/a'],
    );
    assert.equal(artifactPoints(jobSpec(), 'runc'), null);
  });

  test('come before what is mounted within them, and behind the empty folder that has them', () => {
    assert.deepEqual(
      pointsOf({
        in: [source('/scratch/in', 'file')],
        out: ['/scratch/out', '/work'],
        mounts: [
          { volume: 'v', path: '/work/v' },
          { scratch_mb: 1, path: '/scratch' },
        ],
        files: [file('/work/config')],
      }),
      [
        'scratch rw /scratch',
        'own rw /scratch/out',
        'own rw /work',
        'v rw /work/v',
        'file ro /work/config',
        'file ro /scratch/in',
      ],
    );
  });

  test('take the place of empty folders from which the run leaves something', () => {
    const mounts = [
      { scratch_mb: 1, path: '/out' },
      { scratch_mb: 1, path: '/work/tmp' },
    ];
    assert.deepEqual(pointsOf({ out: ['/out', '/work'], mounts }), ['own rw /out', 'own rw /work']);
  });

  test('are the whole of /tmp for charliecloud, which makes another one', () => {
    const given = { in: [source('/tmp/a', 'file')], out: ['/tmp/b/c'] };
    assert.deepEqual(pointsOf({ ...given, tool: 'charliecloud' }), ['own rw /tmp']);
    assert.deepEqual(pointsOf({ ...given, tool: 'runc' }), ['own rw /tmp/b/c', 'file ro /tmp/a']);
  });

  for (const [what, given, message] of [
    ['in a volume', { out: ['/v/out'], mounts: [{ volume: 'v', path: '/v' }] }, /is in the mount '\/v'/],
    ['that is a volume', { out: ['/v'], mounts: [{ volume: 'v', path: '/v' }] }, /is in the mount '\/v'/],
    ['below a file', { out: ['/a/b'], files: [file('/a')] }, /the run has a file at '\/a'/],
    ['that is the root', { out: ['/'] }, /'\/' of a file or mount/],
    ['of the system', { out: ['/proc/x'] }, /'\/proc\/x' of a file or mount/],
    ['with the inputs', { out: ['/mnt'] }, /'\/mnt' of a file or mount/],
    ['with a name that the tool cannot take', { out: ['/a b'], tool: 'apptainer' }, /'\/a b' of a file/],
  ] as const satisfies readonly (readonly [string, Given, RegExp])[])
    test(`refuse a folder ${what}`, () => {
      assert.throws(() => pointsOf(given), { name: 'RunFault', message });
    });
});
