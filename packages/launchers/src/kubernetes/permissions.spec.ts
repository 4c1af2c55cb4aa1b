import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'vitest';
import { parseVolumes } from '@longshore/worker/settings/volumes';
import { Paths } from './api/resources.js';
import { checkAccess, checkVolumes, mayListNodes } from './permissions.js';
import { ScriptedApi, status } from '../testing/scripted-api.js';

const REVIEWS = 'POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
const NAMESPACE = 'GET /api/v1/namespaces/runs';
const CLAIMS = `${NAMESPACE}/persistentvolumeclaims`;

const refused = (why: string) => ({
  name: 'SettingsError',
  message: `The runtime kubernetes cannot be used: ${why} (docs/kubernetes.md)`,
});

describe('the check of permissions', () => {
  const scripted = ScriptedApi.forEachTest();

  beforeEach(() => {
    scripted.on(NAMESPACE, { body: {} });
  });

  /** Allows all but some, such as `watch pods/log runs`; the namespace of the cluster is empty. */
  function allowAllBut(...forbidden: readonly string[]): void {
    scripted.on(REVIEWS, (response, { body }) => {
      const { verb, resource, subresource, namespace = '' } = Object(body).spec.resourceAttributes;
      const name =
        `${verb} ${resource}${subresource === undefined ? '' : `/${subresource}`} ${namespace}`.trim();
      response.end(JSON.stringify({ status: { allowed: !forbidden.includes(name) } }));
    });
  }

  it('asks for every verb that is used, in the namespace and in the cluster', async () => {
    allowAllBut();
    assert.equal(await checkAccess(scripted.api, 'runs', false), true);
    assert.equal(scripted.routes().filter((route) => route === REVIEWS).length, 17);
  });

  it('asks to patch pods where the runs of the launcher have files', async () => {
    allowAllBut('patch pods runs');
    assert.equal(await checkAccess(scripted.api, 'runs', false), true);
    await assert.rejects(
      checkAccess(scripted.api, 'runs', false, true),
      refused("its account may not patch pods in the namespace 'runs'"),
    );
  });

  it('names what is missing in one line', async () => {
    allowAllBut('create jobs runs', 'get pods/log runs', 'list nodes');
    await assert.rejects(
      checkAccess(scripted.api, 'runs', false),
      refused("its account may not create jobs, get pods/log in the namespace 'runs'"),
    );
  });

  it('needs no nodes when the resources are set', async () => {
    allowAllBut('list nodes', 'list pods');
    assert.equal(await checkAccess(scripted.api, 'runs', true), false);
    await assert.rejects(
      checkAccess(scripted.api, 'runs', false),
      refused(
        'its account may not list nodes, list pods in the cluster: set SERVICE_WORKER_CPU and SERVICE_WORKER_RAM_MB to what the runs may use, or allow it',
      ),
    );
  });

  it('asks whether versions of nodes can be read', async () => {
    allowAllBut();
    assert.equal(await mayListNodes(scripted.api), true);
    allowAllBut('list nodes');
    assert.equal(await mayListNodes(scripted.api), false);
  });

  it('tells of a namespace that does not exist, and of a login that is refused', async () => {
    allowAllBut();
    scripted.on(NAMESPACE, status(404, 'NotFound', 'not found'));
    await assert.rejects(
      checkAccess(scripted.api, 'runs', true),
      refused("the namespace 'runs' does not exist"),
    );
    scripted.on(NAMESPACE, status(401, 'Unauthorized', 'Unauthorized'));
    await assert.rejects(
      checkAccess(scripted.api, 'runs', true),
      refused(`the API server at ${scripted.api.server} refuses the login`),
    );
  });

  it('does not need to see the namespace', async () => {
    allowAllBut();
    scripted.on(NAMESPACE, status(403, 'Forbidden', 'forbidden'));
    assert.equal(await checkAccess(scripted.api, 'runs', false), true);
  });

  it('looks for the claim of each volume, and tells which one is missing or cannot be seen', async () => {
    const volumes = parseVolumes('data=pvc:first,results=pvc:second') ?? new Map();
    scripted.on(`${CLAIMS}/first`, { body: {} });
    scripted.on(`${CLAIMS}/second`, { body: {} });
    await checkVolumes(scripted.api, new Paths('runs'), volumes);
    scripted.on(`${CLAIMS}/second`, status(404, 'NotFound', 'not found'));
    const claim = "the claim 'second' of the volume 'results' (SERVICE_WORKER_VOLUMES)";
    await assert.rejects(
      checkVolumes(scripted.api, new Paths('runs'), volumes),
      refused(`${claim} does not exist in the namespace 'runs'`),
    );
    scripted.on(`${CLAIMS}/second`, status(403, 'Forbidden', 'forbidden'));
    await assert.rejects(
      checkVolumes(scripted.api, new Paths('runs'), volumes),
      refused(`its account may not get persistentvolumeclaims, so it cannot see ${claim}`),
    );
  });
});
