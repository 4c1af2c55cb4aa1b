#!/bin/sh
# Makes the keys and passwords of compose.yaml, of 192 random bits each: docker/.env, and docker/metrics.key for
# Prometheus. Changes nothing when they are there.
set -eu
cd "$(dirname "$0")"
umask 077

# Prometheus reads it as an account of its own.
write_metrics_key() {
  printf '%s' "$1" >metrics.key
  chmod 644 metrics.key
}

if [ -e .env ]; then
  [ -e metrics.key ] || write_metrics_key "$(sed -n 's/^LONGSHORE_METRICS_KEY=//p' .env)"
  echo 'docker/.env is there already and stays; docs/docker.md says how keys are exchanged' >&2
  exit 0
fi

secret() {
  made=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
  [ "${#made}" -eq 48 ] || { echo 'make-env: no random numbers' >&2; exit 1; }
  printf '%s' "$made"
}

postgres=$(secret)
admin=$(secret)
worker=$(secret)
metrics=$(secret)
grafana=$(secret)
# Of the engine's socket; of no use where the engine is elsewhere.
group=$(stat -c %g /var/run/docker.sock 2>/dev/null || echo 0)

write_metrics_key "$metrics"
cat >.env.new <<END
POSTGRES_PASSWORD=$postgres
LONGSHORE_ADMIN_KEY=$admin
LONGSHORE_WORKER_KEY=$worker
LONGSHORE_METRICS_KEY=$metrics
GRAFANA_ADMIN_PASSWORD=$grafana
# Group that owns the socket of the container engine on this machine.
DOCKER_GID=$group
END
mv .env.new .env
echo 'made docker/.env and docker/metrics.key'
