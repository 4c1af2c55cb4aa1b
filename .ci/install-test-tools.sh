#!/bin/sh
# Installs what the tests with a real container engine need (test/support/images/docker-engine.ts starts it): Debian's engine,
# a registry, and a static busybox to make images from; and the browser that the tests of the dashboard use
# (test/support/browser/browser.ts); and Python, mypy; Compose for docker/compose.yaml; promtool for the alert
# rules; and a PostgreSQL with pg_dump, which is backed up and restored; and Patroni, etcd, HAProxy and PgBouncer for
# failovers; and Slurm with charliecloud and runc (test/support/workers/slurm-cluster.ts); and crun, as another runtime of the
# engine; and Podman (test/support/images/podman-engine.ts); and the OpenAPI generators of
# test/openapi-tools. Needs root on Debian or Ubuntu; does nothing when all is there.
set -eu

packages=''
need() { # COMMAND PACKAGE
  PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1 || packages="$packages $2"
}
need dockerd docker.io
need docker-registry docker-registry
need iptables iptables
need docker-compose docker-compose
need chromium chromium
# With its standard library: python3-minimal has neither json nor http.
need python3 python3
# Checks the types of the client for Python.
need mypy mypy
# Its programs are in a folder of its version: 15 in Debian 12, 17 in Debian 13.
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || packages="$packages postgresql"
need psql postgresql-client
need patroni patroni
need etcd etcd-server
need haproxy haproxy
need pgbouncer pgbouncer
need munged munge
need slurmctld slurmctld
need slurmd slurmd
need sbatch slurm-client
need ch-run charliecloud
need runc runc
need podman podman
need crun crun
# A dynamic busybox would not run in an image of its own.
dpkg-query -W -f '${Status}\n' busybox-static 2>/dev/null | grep -q '^install ok installed' ||
  packages="$packages busybox-static"

# Of Debian's Prometheus only the checker of its files: neither the server nor the libraries of its pages.
promtool=''
command -v promtool >/dev/null 2>&1 || promtool=missing

[ -d test/openapi-tools/node_modules ] || npm ci --prefix test/openapi-tools

[ -n "$packages$promtool" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "install-test-tools: needs root to install$packages${promtool:+ promtool}" >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
# The packages must not start services: the tests start their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
fi
# Nor make a cluster: the tests make theirs.
clusters=/etc/postgresql-common/createcluster.conf
if [ ! -e "$clusters" ]; then
  mkdir -p "$(dirname "$clusters")"
  echo 'create_main_cluster = false' >"$clusters"
fi
# The lists of a fresh machine are empty or old.
if [ -n "$packages" ]; then
  # A file of settings that was there before the package is kept.
  install='apt-get install -y -q --no-install-recommends -o Dpkg::Options::=--force-confold'
  # shellcheck disable=SC2086 # one word per package
  $install $packages || { apt-get update -q && $install $packages; }
fi
if [ -n "$promtool" ]; then
  folder=$(mktemp -d)
  (
    cd "$folder"
    apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }
    dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
    install -m 755 usr/bin/promtool /usr/local/bin/promtool
  )
  rm -rf "$folder"
fi
