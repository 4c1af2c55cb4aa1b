/** Addresses of one node: PostgreSQL and Patroni's REST interface. */
export interface NodePorts {
  readonly postgres: number;
  readonly rest: number;
}

/** Seconds that Patroni is set to: the silence after the death of a primary is about the first one. */
const PATRONI_TIMES = { ttl: 20, loop_wait: 5, retry_timeout: 7 } as const;

/** Far more than a test writes: that the standby lags must not keep it from being promoted. */
const GREATEST_LAG = 2 ** 30;

/** What a crash of the machine would need does not matter when only processes die. */
const POSTGRES = {
  fsync: 'off',
  max_connections: 200,
  synchronous_commit: 'on',
  unix_socket_directories: '',
  wal_log_hints: 'on',
} as const;

/** Patroni's configuration of a node; YAML takes JSON as it is. */
export function patroniSettings(node: {
  readonly name: string;
  readonly folder: string;
  readonly programs: string;
  readonly ports: NodePorts;
  readonly etcdPort: number;
}): string {
  const { name, folder, programs, ports, etcdPort } = node;
  const rest = `127.0.0.1:${ports.rest}`;
  const postgres = `127.0.0.1:${ports.postgres}`;
  const account = { username: 'longshore' };
  return JSON.stringify({
    scope: 'failover',
    name,
    restapi: { listen: rest, connect_address: rest },
    etcd3: { host: `127.0.0.1:${etcdPort}` },
    bootstrap: {
      dcs: {
        ...PATRONI_TIMES,
        maximum_lag_on_failover: GREATEST_LAG,
        synchronous_mode: true,
        postgresql: { use_pg_rewind: true, use_slots: true, parameters: POSTGRES },
      },
      initdb: [{ auth: 'trust' }, { encoding: 'UTF8' }, 'no-sync'],
    },
    postgresql: {
      listen: postgres,
      connect_address: postgres,
      bin_dir: programs,
      data_dir: `${folder}/data`,
      pgpass: `${folder}/pgpass`,
      authentication: { superuser: account, replication: account, rewind: account },
      pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust'],
      remove_data_directory_on_rewind_failure: true,
    },
  });
}

/** HAProxy's configuration: one port that leads to the primary, as Patroni's documentation has it. */
export function haproxySettings(port: number, nodes: readonly NodePorts[]): string {
  const servers = nodes.map(
    ({ postgres, rest }, i) => `  server node-${i} 127.0.0.1:${postgres} check port ${rest}`,
  );
  return `
defaults
  mode tcp
  timeout connect 2s
  timeout client 30m
  timeout server 30m
listen primary
  bind 127.0.0.1:${port}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 1s fall 3 rise 2 on-marked-down shutdown-sessions
${servers.join('\n')}
`;
}
