import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { capacityOf, parseFree, jobComment, jobName, parseGpus, parseJobs } from './slurm-lines.js';

/** Lines of Slurm 22.05, shortened. */
const NODE =
  'NodeName=one Arch=x86_64 CPUAlloc=3 CPUEfctv=16 CPUTot=16 Gres=gpu:a100:2(S:0),gpu:l4:1 GresDrain=N/A ' +
  'GresUsed=gpu:a100:1(IDX:0),gpu:l4:0(IDX:N/A) RealMemory=4000 AllocMem=30 State=MIXED Partitions=main,short ';

describe('the lines of squeue', () => {
  test('are read back, and others are ignored', () => {
    const key = { runId: '0f7c-1', attempt: 12 };
    const name = jobName('team-a', key);
    const named = { name: 'a|b;c\n', labels: { team: 'x y', 'org/stage': '' } };
    const comment = jobComment('host:1/a', named);
    assert.equal(comment, 'longshore:host:1/a;name=a%7Cb%3Bc%0A&team=x+y&org%2Fstage=');
    const plain = jobComment('w:1', { name: null, labels: { long: 'x'.repeat(2000) } });
    const lines = [
      `41|PENDING|3|10M|gres:gpu:a100:1|${name}|${comment}|(ReqNodeNotAvail, UnavailableNodes:n[1-2]|x)`,
      `42|RUNNING|1|2G|N/A|${name}|(null)|None`,
      `45|RUNNING|1|2G|N/A|${name}|${plain}|None`,
      '43|RUNNING|1|0|N/A|team-b.0f7c-1.12|longshore:w|None',
      '44|RUNNING|1|0|N/A|team-a.wrap|(null)|None',
      'slurm_load_jobs error',
      '',
    ];
    const gpus = new Map([['a100', 1]]);
    const reason = '(ReqNodeNotAvail, UnavailableNodes:n[1-2]|x)';
    assert.deepEqual(parseJobs(lines.join('\n'), 'team-a'), [
      { ...key, id: '41', state: 'PENDING', cpus: 3, ramMb: 10, gpus, workerId: 'host:1/a', reason },
      { ...key, id: '42', state: 'RUNNING', cpus: 1, ramMb: 2048, gpus: new Map(), workerId: '', reason: '' },
      {
        ...key,
        id: '45',
        state: 'RUNNING',
        cpus: 1,
        ramMb: 2048,
        gpus: new Map(),
        workerId: 'w:1',
        reason: '',
      },
    ]);
  });

  test('name GPUs with and without a type', () => {
    assert.deepEqual([...parseGpus('gres/gpu:2')], [['gpu', 2]]);
    assert.deepEqual(
      [...parseGpus('gpu:a100:4(S:0-1),gpu:l4:1,shard:8')],
      [
        ['a100', 4],
        ['l4', 1],
      ],
    );
    assert.deepEqual([...parseGpus('(null)')], []);
    assert.deepEqual([...parseGpus('gpu')], [['gpu', 1]]);
    assert.deepEqual([...parseGpus('gpu:2(IDX:0,3)')], [['gpu', 2]]);
    assert.deepEqual([...parseGpus('gres/gpu:a100=2')], [['a100', 2]]);
  });

  test('name GPUs whose type begins with a digit', () => {
    assert.deepEqual([...parseGpus('gpu:2080ti:8(IDX:0-7)')], [['2080ti', 8]]);
    assert.deepEqual([...parseGpus('gpu:3080:4(S:0-1)')], [['3080', 4]]);
    assert.deepEqual([...parseGpus('gres:gpu:2080ti')], [['2080ti', 1]]);
  });
});

describe('the capacity of a cluster', () => {
  test('is what is free on usable nodes of the partitions, and what the launcher holds', () => {
    const nodes = [
      NODE,
      NODE.replace('MIXED', 'IDLE+DRAIN'),
      NODE.replace('MIXED', 'DOWN*'),
      NODE.replace('MIXED', 'IDLE*'),
      NODE.replace('MIXED', 'IDLE+CLOUD+POWERED_DOWN').replace('Partitions=main', 'Partitions=cloud'),
      NODE.replace('main,short', 'other'),
      '',
    ];
    const free = parseFree(nodes.join('\n'), ['main']);
    assert.deepEqual(
      [free.cpus, free.ramMb, [...free.gpus]],
      [
        13,
        3970,
        [
          ['a100', 1],
          ['l4', 1],
        ],
      ],
    );
    assert.equal(
      parseFree(nodes.join('\n'), ['cloud', 'main']).cpus,
      26,
      'nodes that are switched on when needed count',
    );
    const lines = [
      '1|RUNNING|3|30M|gres:gpu:a100:1|d.r.1|longshore:w|None',
      '2|PENDING|5|1G|N/A|d.q.1|longshore:w|Resources',
    ];
    const { cpuCores, ramMb, gpus } = capacityOf(
      free,
      parseJobs(lines.join('\n'), 'd'),
      new Map([['a100', 80_000]]),
    );
    assert.deepEqual([cpuCores, ramMb], [16, 4000]);
    assert.deepEqual(gpus, [
      { id: 0, vramMb: 80_000, tags: ['a100'] },
      { id: 1, vramMb: 80_000, tags: ['a100'] },
    ]);
  });
});
