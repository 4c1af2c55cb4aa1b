#!/usr/bin/env bash
# A real Kubernetes 1.20.2 with one node for tests, on Debian as root:
#   cluster.sh build             from Debian's source package: about 6 minutes, 2.2 GB during the build, 130 MB afterwards
#   cluster.sh check             exits with 1 and prints what is missing when `up` could not work
#   cluster.sh up                starts it, and prints the path of the kubeconfig of its administrator
#   cluster.sh down              ends it, and removes its state, mounts and network bridge
#   cluster.sh status            exits with 0 when the API server answers
#   cluster.sh kill|start PART   ends one part by SIGKILL (etcd, apiserver, controllers, scheduler, kubelet), or starts it
# LONGSHORE_KUBERNETES_DIR is the folder of its programs and state. Ports and bridge are fixed: one cluster per machine. It has
# no Services, DNS or network plug-in; containers reach the host at 10.88.0.1, and images are those of its own dockerd
# (DOCKER_HOST=unix://$LONGSHORE_KUBERNETES_DIR/run/docker.sock).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
home=${LONGSHORE_KUBERNETES_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/longshore-kubernetes}
data=$home/data
pki=$home/pki
bridge=longshore-k8s
gateway=10.88.0.1
etcd_url=http://127.0.0.1:12379
parts='etcd apiserver controllers scheduler kubelet'
export DOCKER_HOST=unix://$home/run/docker.sock KUBECONFIG=$home/admin.kubeconfig
export PATH=$home/bin:$home/root/usr/bin:$PATH:/usr/sbin:/sbin

fail() {
  echo "kubernetes: $*" >&2
  exit 1
}

check() {
  [ "$(id -u)" = 0 ] || fail 'starting a cluster needs root'
  local command
  for command in dockerd docker runc ip openssl; do
    command -v "$command" >/dev/null || fail "$command is not installed (docker.io, runc, iproute2 and openssl of Debian)"
  done
  [ -d /sys/fs/cgroup/memory ] || fail 'this kubelet needs control groups of version 1 (/sys/fs/cgroup/memory)'
  [ -x "$home/bin/hk" ] && [ -x "$home/img/pause/pause" ] ||
    fail "not built in $home: run 'bash scripts/kubernetes/cluster.sh build' (about 6 minutes)"
}

build() {
  mkdir -p "$home"/{bin,log,gotmp,root,apt/{lists/partial,cache/archives/partial,sources},debs}
  cd "$home"
  # Sources of the machine's own package lists, in lists of their own: nothing is installed.
  cp /etc/apt/sources.list.d/*.sources apt/sources/ 2>/dev/null || true
  sed -i 's/^Types: deb$/Types: deb deb-src/' apt/sources/*.sources 2>/dev/null || true
  if [ -s /etc/apt/sources.list ]; then
    sed -n 'p; s/^deb /deb-src /p' /etc/apt/sources.list >apt/sources/machine.list
  fi
  cat >apt/apt.conf <<CONF
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$home/apt/sources";
Dir::State::Lists "$home/apt/lists";
Dir::Cache "$home/apt/cache";
APT::Sandbox::User "root";
CONF
  export APT_CONFIG=$home/apt/apt.conf
  apt-get -qq update
  (
    cd debs
    apt-get -qq download golang-1.19-go golang-1.19-src etcd-server busybox-static golang-github-modern-go-reflect2-dev
    apt-get -qq source --download-only kubernetes
  )
  local deb
  for deb in debs/*.deb; do dpkg-deb -x "$deb" root; done

  export GOROOT=$home/root/usr/lib/go-1.19 GOPATH=$home/gopath GO111MODULE=off GOFLAGS= CGO_ENABLED=0
  export GOCACHE=$home/gocache GOTMPDIR=$home/gotmp PATH=$home/root/usr/lib/go-1.19/bin:$PATH
  local source=$GOPATH/src/k8s.io/kubernetes
  mkdir -p "$GOPATH/src/k8s.io"
  rm -rf "$source"
  dpkg-source -x debs/kubernetes_*.dsc "$source" >log/source.log 2>&1
  # With the vendored reflect2 1.0.1, a program of Go 1.18 or newer dies with "unexpected fault address 0x0".
  rm -rf "$source/vendor/github.com/modern-go/reflect2"
  cp -r root/usr/share/gocode/src/github.com/modern-go/reflect2 "$source/vendor/github.com/modern-go/"
  mkdir -p "$source/cmd/hk"
  cp "$here/main.go" "$source/cmd/hk/"
  cd "$source"
  generate_openapi
  local flags='-s -w' package value
  for package in component-base/version client-go/pkg/version; do
    for value in gitVersion=v1.20.2 gitMajor=1 gitMinor=20 gitTreeState=clean; do
      flags="$flags -X k8s.io/kubernetes/vendor/k8s.io/$package.$value"
    done
  done
  nice -n 10 go build -tags providerless -ldflags "$flags" -o "$home/bin/hk" ./cmd/hk

  cd "$home"
  for name in kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do ln -sf hk "bin/$name"; done
  mkdir -p img/pause img/bb/bin img/bb/tmp
  # The real one: a pod whose first process ignores SIGTERM takes 30 seconds to delete.
  gcc -Os -static -s -DVERSION=3.2 -o img/pause/pause "$source/build/pause/linux/pause.c"
  cp root/bin/busybox img/bb/bin/
  for name in $(img/bb/bin/busybox --list); do [ "$name" = busybox ] || ln -sf busybox "img/bb/bin/$name"; done
  rm -rf apt debs gocache gotmp gopath root/usr/lib/go-1.19 root/usr/share
}

# The API server serves its types by a file that the source package lacks.
generate_openapi() {
  local packages
  go build -o "$home/gotmp/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
  packages=$(
    {
      grep -rl --include=*.go '+k8s:openapi-gen=' pkg cmd plugin
      cd staging/src && grep -rl --include=*.go '+k8s:openapi-gen=' k8s.io | sed 's#^#vendor/#'
    } | grep -Ev '^vendor/k8s.io/(code-generator|sample-apiserver)/|_test.go$|zz_generated' |
      xargs -n1 dirname | LC_ALL=C sort -u | sed 's#^#k8s.io/kubernetes/#' | paste -sd,
  )
  nice -n 10 "$home/gotmp/openapi-gen" --logtostderr -i "$packages" -p k8s.io/kubernetes/pkg/generated/openapi \
    -O zz_generated.openapi -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$home/log/violations" \
    --output-base "$GOPATH/src"
}

certificate() { # NAME SUBJECT ALTERNATIVE_NAMES
  openssl req -newkey rsa:2048 -nodes -subj "$2" -keyout "$1.key" -out "$1.csr" 2>/dev/null
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -out "$1.crt" 2>/dev/null \
    -extfile <(printf 'extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=%s\n' "$3")
}

# Certificates and random tokens of this cluster alone, with a kubeconfig for each user.
credentials() {
  (umask 077 && mkdir -p "$pki")
  cd "$pki"
  openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=ca -keyout ca.key -out ca.crt 2>/dev/null
  certificate apiserver /CN=kube-apiserver "DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:$gateway,IP:$address"
  certificate to-kubelet /O=system:masters/CN=apiserver-kubelet-client DNS:client
  certificate kubelet /CN=node1 "DNS:node1,IP:$address"
  openssl genrsa -out accounts.key 2048 2>/dev/null
  openssl rsa -in accounts.key -pubout -out accounts.pub 2>/dev/null
  local user name groups token
  : >tokens.csv
  while read -r user name groups; do
    token=$(openssl rand -hex 24)
    echo "$token,$name,$user,\"$groups\"" >>tokens.csv
    cat >"$home/$user.kubeconfig" <<CONFIG
apiVersion: v1
kind: Config
clusters: [{name: tests, cluster: {server: "https://127.0.0.1:16443", certificate-authority: "$pki/ca.crt"}}]
users: [{name: user, user: {token: $token}}]
contexts: [{name: tests, context: {cluster: tests, user: user}}]
current-context: tests
CONFIG
    chmod 600 "$home/$user.kubeconfig"
  done <<'USERS'
admin admin system:masters
controllers system:kube-controller-manager
scheduler system:kube-scheduler
node system:node:node1 system:nodes
limited limited
USERS
}

launch() { # PART PROGRAM ARGUMENT...
  local part=$1
  shift
  setsid nohup "$@" </dev/null >>"$home/log/$part.log" 2>&1 &
  echo $! >"$home/run/$part.pid"
}

start() {
  case $1 in
    docker)
      launch docker dockerd --data-root "$home/docker/data" --exec-root "$home/docker/exec" -H "$DOCKER_HOST" \
        --pidfile "$home/run/dockerd.self" --bridge $bridge --iptables=false --ip6tables=false --ip-forward=false \
        --ip-masq=false --exec-opt native.cgroupdriver=cgroupfs --add-runtime "noadj=$home/bin/runc-noadj" \
        --default-runtime noadj
      ;;
    etcd)
      launch etcd etcd --name tests --data-dir "$data/etcd" --listen-client-urls $etcd_url --advertise-client-urls $etcd_url \
        --listen-peer-urls http://127.0.0.1:12380 --initial-advertise-peer-urls http://127.0.0.1:12380 \
        --initial-cluster tests=http://127.0.0.1:12380 --unsafe-no-fsync
      ;;
    apiserver)
      launch apiserver kube-apiserver --etcd-servers=$etcd_url --bind-address=127.0.0.1 --advertise-address="$address" \
        --secure-port=16443 --insecure-port=0 --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
        --client-ca-file="$pki/ca.crt" --token-auth-file="$pki/tokens.csv" --authorization-mode=Node,RBAC \
        --enable-admission-plugins=NodeRestriction --service-account-issuer=https://kubernetes.default.svc \
        --service-account-key-file="$pki/accounts.pub" --service-account-signing-key-file="$pki/accounts.key" \
        --service-cluster-ip-range=10.96.0.0/24 --kubelet-client-certificate="$pki/to-kubelet.crt" \
        --kubelet-client-key="$pki/to-kubelet.key" --kubelet-preferred-address-types=InternalIP \
        --feature-gates=TTLAfterFinished=true
      ;;
    controllers)
      # A node counts as lost after 12 seconds in place of 40.
      launch controllers kube-controller-manager --kubeconfig="$home/controllers.kubeconfig" \
        --use-service-account-credentials=true --service-account-private-key-file="$pki/accounts.key" \
        --root-ca-file="$pki/ca.crt" --leader-elect=false --bind-address=127.0.0.1 --secure-port=10357 --port=0 \
        --cert-dir="$data/controllers" --feature-gates=TTLAfterFinished=true --node-monitor-grace-period=12s \
        --node-monitor-period=2s
      ;;
    scheduler)
      launch scheduler kube-scheduler --kubeconfig="$home/scheduler.kubeconfig" --leader-elect=false \
        --bind-address=127.0.0.1 --secure-port=10359 --port=0 --cert-dir="$data/scheduler"
      ;;
    kubelet)
      launch kubelet kubelet --config="$home/kubelet.yaml" --kubeconfig="$home/node.kubeconfig" --hostname-override=node1 \
        --node-ip="$address" --root-dir="$data/kubelet" --cert-dir="$data/kubelet-pki" --container-runtime=docker \
        --docker-endpoint="$DOCKER_HOST" --docker="$DOCKER_HOST" --pod-infra-container-image=local/pause:3.2 \
        --experimental-dockershim-root-directory="$data/dockershim" --network-plugin=
      ;;
    *) fail "unknown part $1" ;;
  esac
}

# The process of a part, if it runs: a number of a former boot may be that of another program.
pid_of() {
  local pid
  pid=$(cat "$home/run/$1.pid" 2>/dev/null) || return 1
  tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$home" || return 1
  echo "$pid"
}

stop() { # PART SIGNAL
  local pid
  pid=$(pid_of "$1") || return 0
  kill "-$2" "$pid" 2>/dev/null || true
  for _ in $(seq 1 80); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null || true
  rm -f "$home/run/$1.pid"
}

answers() {
  kubectl get --raw /readyz >/dev/null 2>&1
}

wait_for() { # WHAT COMMAND...
  local what=$1
  shift
  for _ in $(seq 1 240); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.25
  done
  fail "$what in vain for 60 s; see $home/log"
}

node_ready() {
  kubectl get node node1 --no-headers | grep -qw Ready && kubectl get serviceaccount default
}

import_image() { # FOLDER REFERENCE CHANGE
  tar -C "$home/img/$1" --owner=0 --group=0 -c . | docker import --change "$3" - "$2" >/dev/null
}

up() {
  check
  ! ip link show $bridge >/dev/null 2>&1 || fail "the bridge $bridge is there: a cluster runs, or 'cluster.sh down' is due"
  trap '[ $? = 0 ] || down' EXIT
  mkdir -p "$home"/{run,log} "$data"
  rm -f "$home"/log/*.log
  credentials
  cat >"$home/kubelet.yaml" <<CONFIG
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $address
port: 20250
healthzPort: 20248
tlsCertFile: $pki/kubelet.crt
tlsPrivateKeyFile: $pki/kubelet.key
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
failSwapOn: false
makeIPTablesUtilChains: false
enforceNodeAllocatable: []
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
volumeStatsAggPeriod: 5s
nodeStatusUpdateFrequency: 3s
CONFIG
  # Without CAP_SYS_RESOURCE, as in a container, runc cannot set a negative oom_score_adj, and no pod starts.
  cat >"$home/bin/runc-noadj" <<WRAPPER
#!/bin/sh
previous=
for argument in "\$@"; do
  [ "\$previous" = --bundle ] && sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/' "\$argument/config.json"
  previous=\$argument
done
exec $(command -v runc) "\$@"
WRAPPER
  chmod +x "$home/bin/runc-noadj"
  ip link add $bridge type bridge
  ip addr add $gateway/24 dev $bridge
  ip link set $bridge up
  start docker
  start etcd
  start apiserver
  wait_for 'waited for the API server' answers
  start controllers
  start scheduler
  wait_for 'waited for dockerd' docker info
  import_image pause local/pause:3.2 'ENTRYPOINT ["/pause"]'
  import_image bb local/busybox:1 'ENV PATH=/bin'
  start kubelet
  wait_for 'waited for the node' node_ready
  echo "$KUBECONFIG"
}

down() {
  local part ids mounts group
  for part in kubelet scheduler controllers apiserver etcd; do stop $part TERM; done
  ids=$(docker ps -aq 2>/dev/null) || true
  [ -z "$ids" ] || docker rm -f $ids >/dev/null 2>&1 || true
  stop docker TERM
  # What a dockerd that was killed left: containerd and the processes of containers.
  for part in /proc/[0-9]*; do
    if tr '\0' ' ' <"$part/cmdline" 2>/dev/null | grep -qE "$home/(docker|data)/"; then
      kill -9 "${part#/proc/}" 2>/dev/null || true
    fi
  done
  ip link del $bridge 2>/dev/null || true
  mounts=$(cut -d' ' -f2 /proc/mounts | grep "^$home/" | sort -r) || true
  [ -z "$mounts" ] || xargs -r -n1 umount -l <<<"$mounts" || true
  for group in /sys/fs/cgroup/*/kubepods; do
    [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
  done
  rm -rf "$data" "$home/docker" "$home/run" "$pki" "$home"/*.kubeconfig "$home/kubelet.yaml"
}

known_part() {
  case " $parts " in *" ${1:-} "*) ;; *) fail "the part must be one of: $parts" ;; esac
}

address=$(hostname -I | tr ' ' '\n' | grep -v : | grep -vF "$gateway" | head -1)
case ${1:-} in
  build | check | up | down) "$1" ;;
  status) answers ;;
  kill)
    known_part "${2:-}"
    stop "$2" KILL
    ;;
  start)
    known_part "${2:-}"
    start "$2"
    ;;
  *) fail 'usage: cluster.sh build|check|up|down|status|kill PART|start PART' ;;
esac
