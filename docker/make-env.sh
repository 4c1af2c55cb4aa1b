#!/bin/sh
# Makes the keys and passwords of compose.yaml, of 192 random bits or more, in docker/.env. Changes nothing when it is there.
set -eu
cd "$(dirname "$0")"
umask 077

if [ -e .env ]; then
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
# 32 bytes in Base64.
secrets=$(head -c 32 /dev/urandom | base64)
# Of the engine's socket; of no use where the engine is elsewhere.
group=$(stat -c %g /var/run/docker.sock 2>/dev/null || echo 0)

cat >.env.new <<END
POSTGRES_PASSWORD=$postgres
LONGSHORE_ADMIN_KEY=$admin
LONGSHORE_WORKER_KEY=$worker
LONGSHORE_METRICS_KEY=$metrics
GRAFANA_ADMIN_PASSWORD=$grafana
# Encrypts the secrets of runs. A backup of the database cannot be used without it.
LONGSHORE_SECRETS_KEY=$secrets
# Group that owns the socket of the container engine on this machine.
DOCKER_GID=$group
END
mv .env.new .env
echo 'made docker/.env'
