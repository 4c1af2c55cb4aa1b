/**
 * The shell functions that keep a container apart from its node. `check_image` fails the attempt when the image has a link where the
 * container gets something: tools follow the links of an image, also those that lead out of it. It looks before anything is mounted.
 * `within`, before the command line of a container tool, becomes it, in a mount namespace with what `make_mounts` makes, and in a
 * namespace of processes with a /proc of its own if the tool makes none. That ends with its first process, and with it all that
 * a program has started.
 *
 * $own_pids: `always`; `root`, if another user would have to become root in a namespace for that, which changes what the tool does, so that this
 * happens only with mounts; empty for tools that make such a namespace. `image_root` prints the folder of the unpacked image, if there
 * is one; $io is where the container has inputs and outputs.
 */
export const ISOLATION_FUNCTIONS = `
passes() { # PATH: whether the image has plain folders there, or nothing
  cd -P -- "$root" || return 1
  enter "\${1#/}" ro
  [ $? -le 1 ]
}
check_image() {
  local root target name folders=$((\${#sources[@]} / 4))
  root=$(image_root)
  [ -n "$root" ] || return 0
  cd -P -- "$root" || fault infrastructure 'The node of the job has no folder of the image'
  for target in /proc /dev /sys /tmp "$io" "$work_dir"; do
    passes "$target" || fault error "The image has a link or something else in the place of the folder '$target'"
  done
  for target in "\${points[@]#*:}"; do
    name=
    [ "$((folders--))" -gt 0 ] || name=\${target##*/}
    passes "\${target%"$name"}" && { [ -n "$image_dir" ] || [ -z "$name" ] || [ ! -L "./$name" ]; } ||
      fault error "A part of the path of a file or mount is too long, or a link or something else in the image: '$target'"
  done
}
has_pids() {
  case $own_pids in always) ;; root) [ "$(id -u)" = 0 ] || [ -e mount-points ] ;; *) false ;; esac
}
first_process() { # JOB COMMAND...: process 1 of its namespace, which the kernel sends no signal that it does not handle
  local job=$1 pid= code= ended= interrupted=
  shift
  trap 'ended=yes interrupted=yes; [ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null' TERM
  echo >&8
  exec 8>&-
  mount -t proc -o nosuid,nodev,noexec longshore /proc 2>>"$job/prepare.log" ||
    fault infrastructure 'The node of the job cannot give the container a /proc of its own'
  date +%s%3N >"$job/started"
  export -n PWD OLDPWD SHLVL
  { exec "$@"; } &
  pid=$!
  [ -z "$ended" ] || kill -TERM "$pid" 2>/dev/null
  await
  exit "$code"
}
relay() { # JOB COMMAND...: makes the first process of a new namespace, and passes signals on
  local pid= code= ended= killed= interrupted= is_ready=
  trap 'ended=yes interrupted=yes; [ -z "$is_ready" ] || kill -TERM "$pid" 2>/dev/null' TERM
  trap 'killed=yes interrupted=yes; [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null' USR1
  first_process "$@" &
  pid=$!
  while ! read -r -t 1 _ <&8; do kill -0 "$pid" 2>/dev/null || break; done
  is_ready=yes
  exec 8>&-
  [ -z "$ended" ] || kill -TERM "$pid" 2>/dev/null
  [ -z "$killed" ] || kill -KILL "$pid" 2>/dev/null
  await
  exit "$code"
}
within() { # COMMAND...
  local as_user= last='date +%s%3N >started; export -n PWD OLDPWD SHLVL; exec "$@"'
  [ "$(id -u)" = 0 ] || as_user=--map-root-user
  if has_pids; then
    # A pipe that both ends hold.
    exec 8<> <(:)
    last='exec unshare --pid bash -c "$(declare -f fault await first_process relay); relay \\"\\$@\\"" bash "$job" "$@"'
  elif [ ! -e mount-points ]; then
    date +%s%3N >started
    exec "$@"
  fi
  exec unshare --mount $as_user bash -c "$(
    declare -f fault enter attach has_file has_points make_mounts await first_process relay
  )
    job=\\$1 disk=\\$2 image_dir=\\$3; shift 3; [ ! -e mount-points ] || make_mounts 2>>prepare.log; $last" bash "$job" "$disk" "$image_dir" "$@"
}
kill_container() { if has_pids; then kill -USR1 "$pid"; else kill -KILL "$pid"; fi; }
`;
