import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { PROJECT, until } from '../service-process.js';
import type { TestNamespace } from './test-namespace.js';

/* oxlint-disable typescript/no-explicit-any -- objects of an API server are of any shape */

const FOLDER = join(PROJECT, 'docker', 'kubernetes');
const RBAC = '/apis/rbac.authorization.k8s.io/v1';

/** The service account of docker/kubernetes in a namespace of a test, with the permissions that these files give it. */
export class LimitedAccount {
  private constructor(
    private readonly namespace: TestNamespace,
    /** The files' objects that were applied. */
    private readonly objects: readonly any[],
    /** Logs in as the account. */
    readonly kubeconfig: string,
  ) {}

  /** Applies the files. Those of the worker itself are only checked by the API server. */
  static async create(namespace: TestNamespace): Promise<LimitedAccount> {
    const { api } = namespace.cluster;
    const applied = await objectsOf(namespace.name, 'service-account.yaml', 'role.yaml', 'cluster-role.yaml');
    for (const object of applied) await api.must('POST', pathOf(object), object);
    for (const object of await objectsOf(namespace.name, 'settings.yaml', 'deployment.yaml'))
      await api.must('POST', `${pathOf(object)}?dryRun=All`, object);
    const account = applied.find(({ kind }) => kind === 'ServiceAccount').metadata.name;
    let secret: any;
    await until(async () => {
      const { items } = await api.must('GET', `/api/v1/namespaces/${namespace.name}/secrets`);
      secret = items.find(
        ({ metadata }: any) => metadata.annotations?.['kubernetes.io/service-account.name'] === account,
      );
      return secret?.data?.token !== undefined;
    }, 'the account has a token');
    const token = Buffer.from(secret.data.token, 'base64').toString();
    return new LimitedAccount(namespace, applied, api.kubeconfig({ token, namespace: namespace.name }));
  }

  /** Gives it what the files say. */
  async allowAll(): Promise<void> {
    for (const object of this.roles()) await this.replace(object);
  }

  /** Takes one verb on a resource from a role. */
  async forbid(kind: 'Role' | 'ClusterRole', verb: string, resource: string): Promise<void> {
    const role = this.roles().find((object) => object.kind === kind);
    assert.ok(
      role.rules.some(({ resources, verbs }: any) => resources.includes(resource) && verbs.includes(verb)),
      `the ${kind} allows to ${verb} ${resource}`,
    );
    const rules = role.rules.map((rule: any) =>
      rule.resources.includes(resource)
        ? { ...rule, verbs: rule.verbs.filter((one: string) => one !== verb) }
        : rule,
    );
    await this.replace({ ...role, rules: rules.filter(({ verbs }: any) => verbs.length > 0) });
  }

  /** Removes what is not in the namespace. */
  async remove(): Promise<void> {
    for (const object of this.objects.filter(({ kind }) => kind.startsWith('Cluster')))
      await this.namespace.cluster.api.must('DELETE', `${pathOf(object)}/${object.metadata.name}`);
  }

  private roles(): any[] {
    return this.objects.filter(({ kind }) => kind.endsWith('Role'));
  }

  private async replace(object: any): Promise<void> {
    await this.namespace.cluster.api.must('PUT', `${pathOf(object)}/${object.metadata.name}`, object);
  }
}

async function objectsOf(namespace: string, ...files: readonly string[]): Promise<any[]> {
  const texts = await Promise.all(files.map((file) => readFile(join(FOLDER, file), 'utf8')));
  const own = texts.map((text) => text.replaceAll('namespace: longshore', `namespace: ${namespace}`));
  return own.flatMap((text) =>
    parseAllDocuments(text).map((document) => withOwnName(document.toJS(), namespace)),
  );
}

/** What is not in the namespace is named after it: the files may be applied in the cluster as well. */
function withOwnName(object: any, namespace: string): any {
  if (!object.kind.startsWith('Cluster')) return object;
  const roleRef = object.roleRef === undefined ? {} : { roleRef: { ...object.roleRef, name: namespace } };
  return { ...object, ...roleRef, metadata: { ...object.metadata, name: namespace } };
}

/** Where objects of the kind are. */
function pathOf({ apiVersion, kind, metadata }: any): string {
  const group = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`;
  const within = kind.startsWith('Cluster') ? RBAC : `${group}/namespaces/${metadata.namespace}`;
  return `${within}/${kind.toLowerCase()}s`;
}
