import { until } from '../service-process.js';
import type { KubeAnswer, KubeEvent } from './kube-api.js';
import { withPlaceholders, type RecordedAnswers } from './recording.js';
import type { TestNamespace } from './test-namespace.js';

/* oxlint-disable typescript/no-explicit-any -- objects of an API server are of any shape */

const REVIEWS = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';

/** Brings about the answers of a real API server that do not depend on a job. */
export async function recordAnswers(place: TestNamespace): Promise<RecordedAnswers> {
  const { cluster, name: namespace, podsPath, jobsPath } = place;
  const { api } = cluster;
  const limited = await cluster.openLimited();
  const secrets = `/api/v1/namespaces/${namespace}/secrets`;
  const secret = { metadata: { name: 'twice' } };
  const containers = [{ name: 'absent', image: '127.0.0.1:1/nowhere:1' }];
  const review = {
    spec: { resourceAttributes: { namespace, verb: 'list', group: 'batch', resource: 'jobs' } },
  };
  await api.must('POST', secrets, secret);
  await api.must('POST', podsPath, { metadata: { name: 'early' }, spec: { containers } });
  const early = `${podsPath}/early/log?container=absent`;
  await until(
    async () => (await api.ask('GET', early)).body.message?.includes('waiting to start'),
    'the pod waits',
  );
  const answers = {
    kubernetes: (await api.must('GET', '/version')).gitVersion,
    expired: await expiredWatch(place),
    forbidden: await named(limited.ask('GET', jobsPath), 'jobs', namespace),
    notFound: await named(api.ask('GET', `${jobsPath}/absent`), 'absent', namespace),
    alreadyExists: await named(api.ask('POST', secrets, secret), 'twice', namespace),
    logTooEarly: await named(api.ask('GET', early), 'early', namespace),
    accessAllowed: await named(api.ask('POST', REVIEWS, review), 'jobs', namespace),
    accessDenied: await named(limited.ask('POST', REVIEWS, review), 'jobs', namespace),
    nodes: (await api.must('GET', '/api/v1/nodes')).items.map(nodeOf),
  };
  limited.close();
  await api.must('DELETE', `${secrets}/twice`);
  await api.must('DELETE', `${podsPath}/early?gracePeriodSeconds=0`);
  return answers;
}

async function named(answer: Promise<KubeAnswer>, name: string, namespace: string): Promise<KubeAnswer> {
  return withPlaceholders(
    await answer,
    new Map([
      [name, 'name'],
      [namespace, 'namespace'],
    ]),
    null,
  );
}

/** What a watch says whose version is older than the API server's memory: it is restarted, and remembers nothing. */
async function expiredWatch({ cluster, name, podsPath }: TestNamespace): Promise<KubeAnswer> {
  const { metadata } = await cluster.api.must('GET', `/api/v1/namespaces/${name}`);
  await cluster.kill('apiserver');
  await cluster.startPart('apiserver');
  await cluster.untilAnswers();
  const seen: KubeEvent[] = [];
  const over = new AbortController();
  const watching = cluster.api.watch(
    podsPath,
    (event) => seen.push(event),
    over.signal,
    metadata.resourceVersion,
  );
  await until(() => seen.length > 0, 'the watch answers');
  over.abort();
  await watching;
  return { status: 200, body: seen[0] };
}

/** A node without what names the machine: images, addresses and ids. */
function nodeOf({ metadata, spec, status }: any): any {
  const { name, uid, labels, creationTimestamp } = metadata;
  const { architecture, operatingSystem, kubeletVersion } = status.nodeInfo;
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, uid, labels, creationTimestamp },
    spec,
    status: {
      capacity: status.capacity,
      allocatable: status.allocatable,
      conditions: status.conditions,
      nodeInfo: { architecture, operatingSystem, kubeletVersion },
    },
  };
}
