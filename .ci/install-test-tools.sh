#!/bin/sh
# Installs what the tests with a real container engine need (test/support/docker-engine.ts starts it): Debian's engine,
# a registry, and a static busybox to make images from; and the browser that the tests of the dashboard use
# (test/support/browser.ts); Python for the example worker; and Compose, which checks docker/compose.yaml. Needs root on
# Debian or Ubuntu; does nothing when all is there.
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
need python3 python3-minimal
# A dynamic busybox would not run in an image of its own.
dpkg-query -W -f '${Status}\n' busybox-static 2>/dev/null | grep -q '^install ok installed' ||
  packages="$packages busybox-static"

[ -n "$packages" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "install-test-tools: needs root to install$packages" >&2
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
# The lists of a fresh machine are empty or old.
# shellcheck disable=SC2086 # one word per package
apt-get install -y -q --no-install-recommends $packages ||
  { apt-get update -q && apt-get install -y -q --no-install-recommends $packages; }
