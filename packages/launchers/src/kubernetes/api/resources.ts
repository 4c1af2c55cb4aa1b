import type { CoreV1Event, V1Job, V1Node, V1Pod, V1Secret } from '@kubernetes/client-node';

/** A type of the client library as the API server sends it: times are texts. */
type Json<T> = T extends Date
  ? string
  : T extends (infer E)[]
    ? readonly Json<E>[]
    : T extends object
      ? { readonly [K in keyof T]: Json<T[K]> }
      : T;

export type Job = Json<V1Job>;
export type Pod = Json<V1Pod>;
export type Node = Json<V1Node>;
export type Secret = Json<V1Secret>;
export type ClusterEvent = Json<CoreV1Event>;
export type PodTemplate = NonNullable<Job['spec']>['template'];
export type PodSpec = NonNullable<PodTemplate['spec']>;
export type Container = PodSpec['containers'][number];
export type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];

/** Paths of the resources of a namespace. */
export class Paths {
  constructor(readonly namespace: string) {}

  jobs(name?: string): string {
    return `/apis/batch/v1/namespaces/${this.namespace}/jobs${ending(name)}`;
  }

  pods(name?: string): string {
    return `/api/v1/namespaces/${this.namespace}/pods${ending(name)}`;
  }

  secrets(name?: string): string {
    return `/api/v1/namespaces/${this.namespace}/secrets${ending(name)}`;
  }

  claims(name: string): string {
    return `/api/v1/namespaces/${this.namespace}/persistentvolumeclaims${ending(name)}`;
  }

  events(): string {
    return `/api/v1/namespaces/${this.namespace}/events`;
  }

  log(pod: string): string {
    return `${this.pods(pod)}/log`;
  }
}

/** Milliseconds since 1970 of a time of the API server; null: none. */
export function timeOf(text: string | undefined): number | null {
  return text === undefined ? null : Date.parse(text);
}

function ending(name: string | undefined): string {
  return name === undefined ? '' : `/${encodeURIComponent(name)}`;
}
