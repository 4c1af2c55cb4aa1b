import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'vitest';
import { parseVolumes } from '../../../settings/volumes.js';
import { containerSpec, MemoryLog, runtimeOn } from '../../../testing/container-spec.js';
import { FakeDockerEngine } from '../../../testing/fake-docker-engine.js';
import { refuse } from '../../../testing/fake-engine-answers.js';
import type { ContainerSpec } from '../../runtime.js';
import type { DockerRuntime } from '../docker.runtime.js';

const CREATE = 'POST /containers/create';

describe('the mounts of a container', () => {
  const engine = FakeDockerEngine.forEachTest();
  let log: MemoryLog;

  beforeEach(() => {
    log = new MemoryLog();
  });

  function runtime(): DockerRuntime {
    const volumes = parseVolumes('data=/srv/data:ro,out=/srv/out,cache=docker-volume:cached');
    return runtimeOn(engine, { log, volumes: volumes ?? new Map() });
  }

  function hasVolume(): void {
    engine.answerNext('GET /volumes/cached', (response) => {
      response.end(JSON.stringify({ Name: 'cached', Driver: 'local', Options: null, Mountpoint: '/var/v' }));
    });
  }

  it('are what the operator offers by the names of the run, and volumes without a name', async () => {
    hasVolume();
    const folders = [
      { volume: 'data', path: '/data', read_only: true },
      { volume: 'out', path: '/out' },
      { volume: 'cache', path: '/cache', read_only: false },
    ];
    await runtime().start(spec({ scratch_mb: 5, path: '/scratch/a' }, ...folders));
    const { body } = engine.calls.findLast(({ route }) => route === CREATE) ?? {};
    const VolumeOptions = { NoCopy: true, Labels: {}, DriverConfig: { Name: '', Options: {} } };
    assert.deepEqual(Object(body).HostConfig.Mounts, [
      { Target: '/data', ReadOnly: true, Type: 'bind', Source: '/srv/data' },
      { Target: '/out', ReadOnly: false, Type: 'bind', Source: '/srv/out' },
      { Target: '/cache', ReadOnly: false, Type: 'volume', Source: 'cached', VolumeOptions },
      {
        Type: 'volume',
        Source: '',
        Target: '/scratch/a',
        VolumeOptions: { ...VolumeOptions, DriverConfig: { Name: 'local', Options: {} } },
      },
      {
        Type: 'volume',
        Source: '',
        Target: '/longshore',
        VolumeOptions: { ...VolumeOptions, DriverConfig: { Name: 'local', Options: {} } },
      },
    ]);
    const put = engine.calls.filter(({ route }) => route === 'PUT /containers/ID/archive');
    assert.deepEqual(
      put.map(({ query }) => query['path']),
      ['/', '/longshore', '/scratch'],
    );
  });

  it('are announced', () => {
    assert.deepEqual(runtime().capabilities.slice(-5), [
      'volume:data',
      'volume:out',
      'volume:out:rw',
      'volume:cache',
      'volume:cache:rw',
    ]);
  });

  it('fail the attempt where it is, with the name of the volume and no path of the host', async () => {
    const gone = 'invalid mount config for type "bind": bind source path does not exist: /srv/out';
    engine.answerNext(CREATE, (_response, _call, goOn) => goOn(), refuse(400, gone));
    await assert.rejects(runtime().start(spec({ volume: 'out', path: '/out' })), {
      name: 'Error',
      message: "The volume 'out' is missing on this worker, or cannot be mounted",
    });
    assert.deepEqual(
      log.warnings.map(({ message }) => message),
      ['volume not mounted'],
    );
    engine.answerNext('GET /volumes/cached', refuse(404, 'no such volume'));
    await assert.rejects(runtime().start(spec({ volume: 'cache', path: '/c' })), {
      name: 'Error',
      message: "The volume 'cache' is missing on this worker",
    });
  });

  it('fail as other faults of the engine do when it does not answer', async () => {
    engine.answerNext('GET /volumes/cached', (response) => response.destroy());
    await assert.rejects(runtime().start(spec({ volume: 'cache', path: '/c' })), { name: 'EngineFault' });
  });
});

function spec(...mounts: ContainerSpec['mounts']): ContainerSpec {
  return { ...containerSpec('tool'), mounts };
}
