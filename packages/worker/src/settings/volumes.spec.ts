import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { parseVolumes, volumeCapabilities, volumesProblem, type OfferedVolumes } from './volumes.js';

function parsed(text: string): OfferedVolumes {
  const volumes = parseVolumes(text);
  assert.ok(volumes, text);
  return volumes;
}

describe('SERVICE_WORKER_VOLUMES', () => {
  it('names folders of the host, volumes of Docker and claims of Kubernetes, each writable unless it ends in :ro', () => {
    const text =
      'datasets=/srv/data sets:ro, results=/mnt/r,cache=docker-volume:my_cache, c-1=pvc:team.claim:ro';
    assert.deepEqual(Object.fromEntries(parsed(text)), {
      datasets: { kind: 'folder', source: '/srv/data sets', isWritable: false },
      results: { kind: 'folder', source: '/mnt/r', isWritable: true },
      cache: { kind: 'docker-volume', source: 'my_cache', isWritable: true },
      'c-1': { kind: 'pvc', source: 'team.claim', isWritable: false },
    });
  });

  for (const wrong of [
    '',
    ',',
    'a',
    '=/a',
    'a=',
    'a=/',
    'a=a',
    'a=./a',
    'a=/a/',
    'a=//a',
    'a=/a//b',
    'a=/a/../b',
    'a=/a/.',
    'a=/a:rw',
    'a=/a:ro:ro',
    'A=/a',
    'a_b=/a',
    '-a=/a',
    `${'a'.repeat(64)}=/a`,
    'a=/a,a=/b',
    'a=/a\u0001',
    'a=nfs:x',
    'a=docker-volume:',
    'a=docker-volume:/a',
    'a=docker-volume:-a',
    'a=pvc:',
    'a=pvc:A',
    'a=pvc:a/b',
    Array.from({ length: 101 }, (_, index) => `v${index}=/a`).join(),
  ]) {
    it(`is refused as ${JSON.stringify(wrong).slice(0, 40)}`, () =>
      assert.equal(parseVolumes(wrong), undefined));
  }

  it('is announced by name, and once more where runs may write', () => {
    assert.deepEqual(volumeCapabilities(parsed('a=/a:ro,b=/b')), ['volume:a', 'volume:b', 'volume:b:rw']);
  });

  it('says which volume the runtime cannot offer', () => {
    for (const [text, runtime, problem] of [
      ['a=/a,b=docker-volume:b', 'docker', null],
      [
        'a=/a,b=pvc:b',
        'docker',
        "with the runtime docker, the volume 'b' must be an absolute path or docker-volume:NAME",
      ],
      ['a=pvc:a', 'kubernetes', null],
      ['a=/a', 'kubernetes', "with the runtime kubernetes, the volume 'a' must be pvc:NAME"],
      ['a=/a', 'slurm', null],
      ['a=pvc:a', 'slurm', "with the runtime slurm, the volume 'a' must be an absolute path"],
      ['a=/a', 'process', 'the runtime process offers no volumes'],
    ] as const) {
      assert.equal(volumesProblem(parsed(text), runtime), problem);
    }
  });
});
