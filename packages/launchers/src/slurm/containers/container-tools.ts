import { hasImageFolders, type ContainerTool } from '@longshore/worker/settings/slurm-settings';

/** Where a container sees the folder with the input and the output file. */
export function folderInContainer(tool: ContainerTool, hostFolder: string): string {
  // An image folder is read-only, so a mount point must be there already: /mnt is in every usual image.
  if (hasImageFolders(tool)) return '/mnt';
  return typeof tool === 'string' ? '/longshore' : hostFolder;
}

/**
 * The shell functions that execute a container, for the job script. `prepare` gets the image; `container` becomes the
 * container; `kill_container` ends it at once; what they leave is in $scratch, a folder of the job below $scratch_in; `image_root`, $own_pids and $io: {@link ISOLATION_FUNCTIONS}. They find $job (the folder of the attempt), $image, the arrays env (NAME=VALUE), command and args,
 * $has_command, the array points (ro:PATH or rw:PATH: where the container has $job/mounts/0 and so on, folders or files), and $gpus (CUDA, ROCR or GPU; empty:
 * Slurm gave the job none), and may write a sentence to image-error. `within`, before the tool, makes namespaces, mounts and files.
 * Values of the run are only ever expanded in double quotes. No variable of the run is set in the shell under its own name,
 * and the command line is complete before anything of the run is exported.
 */
export function containerFunctions(tool: ContainerTool): string {
  return typeof tool === 'string' ? FUNCTIONS[tool] : SCRIPT(tool.script);
}

/**
 * The variables reach the container by a prefix, so that LD_PRELOAD or PATH of a run do not change the tool. Without
 * --no-eval (since 1.1), a shell in the container would evaluate values and arguments. The image is a folder, so that it can be looked into.
 */
const APPTAINER = `
scratch_in=\${TMPDIR:-/tmp} own_pids= io=/longshore
image_root() { echo "$scratch/image"; }
prepare() {
  apptainer build --sandbox --fix-perms "$scratch/image" "docker://$image" ||
    { last_line prepare.log >image-error; return 1; }
}
container() {
  local pair index
  set -- --containall --no-eval --bind "$job/io:/longshore"
  for index in "\${!points[@]}"; do
    set -- "$@" --bind "$job/mounts/$index:\${points[index]#*:}:\${points[index]%%:*}"
  done
  case $gpus in CUDA) set -- --nv "$@" ;; ROCR) set -- --rocm "$@" ;; esac
  if [ -n "$has_command" ]; then set -- exec "$@" "$scratch/image" "\${command[@]}"
  else set -- run "$@" "$scratch/image"
  fi
  set -- apptainer "$@" "\${args[@]}"
  for pair in "\${env[@]}"; do export "APPTAINERENV_$pair"; done
  within "$@"
}
`;

/**
 * The variables are in a configuration on the node; enroot reads them line by line. The container sees all GPUs that the
 * job sees, because CUDA_VISIBLE_DEVICES counts among these, or none, whatever run and image say.
 */
const ENROOT = `
scratch_in=\${TMPDIR:-/tmp} own_pids=root io=/longshore
image_root() { echo "$scratch/data/$container_name"; }
prepare() {
  export ENROOT_DATA_PATH="$scratch/data"
  mkdir -- "$ENROOT_DATA_PATH" || return
  local source="docker://$image"
  case \${image%%/*} in "$image") ;; *.* | *:* | localhost) source="docker://\${image%%/*}#\${image#*/}" ;; esac
  enroot import --output "$scratch/image.sqsh" "$source" && enroot create --name "$container_name" "$scratch/image.sqsh" ||
    { last_line prepare.log >image-error; return 1; }
}
container() {
  export ENROOT_DATA_PATH="$scratch/data"
  local mounts="$job/io /longshore none x-create=dir,bind,rw" index
  for index in "\${!points[@]}"; do
    mounts+=$'\\n'"$job/mounts/$index \${points[index]#*:} none x-create=auto,rbind,\${points[index]%%:*}"
  done
  if [ "$gpus" = CUDA ]; then env=(NVIDIA_DRIVER_CAPABILITIES=compute,utility "\${env[@]}" NVIDIA_VISIBLE_DEVICES=all)
  else env+=(NVIDIA_VISIBLE_DEVICES=void)
  fi
  printf '%s\\n' "\${env[@]}" >"$scratch/variables"
  printf 'environ() { cat %q; }\\nmounts() { echo %q; }\\n' \\
    "$scratch/variables" "$mounts" >"$scratch/conf"
  printf '#!/bin/sh\\nexec "$@"\\n' >"$scratch/rc"
  [ -z "$has_command" ] ||
    within enroot start --conf "$scratch/conf" --rc "$scratch/rc" "$container_name" "\${command[@]}" "\${args[@]}"
  within enroot start --conf "$scratch/conf" "$container_name" "\${args[@]}"
}
`;

/**
 * ch-run reads variables line by line, so it gets the values under names of ours that no variable of the run has; the
 * file sets each variable to such a value, and --unset-env drops our names. Texts of the run are not expanded again.
 */
const CHARLIECLOUD = `
own_pids=always io=/mnt
image_root() { echo "$image_dir"; }
prepare() { :; }
container() {
  local carrier=LONGSHORE_VALUE index user binds=()
  while [[ " \${env[*]%%=*} " == *" $carrier"* ]]; do carrier+=_; done
  for index in "\${!points[@]}"; do binds+=(--bind "$job/mounts/$index:\${points[index]#*:}"); done
  set -- "$(type -P ch-run)" --private-tmp --set-env=/dev/fd/3 "--unset-env=$carrier*" --uid="$(id -u)" --gid="$(id -g)" \\
    --bind "$job/io:/mnt" "\${binds[@]}" --cd "$work_dir" "$image_dir" -- "\${command[@]}" "\${args[@]}"
  [ -n "$1" ] || exit 127
  exec 3< <(for index in "\${!env[@]}"; do printf '%s=$%s%d\\n' "\${env[index]%%=*}" "$carrier" "$index"; done)
  user=$(id -un)
  export -n $(compgen -e)
  export USER="$user" HOME=/ PATH=/usr/bin:/bin
  for index in "\${!env[@]}"; do export "$carrier$index=\${env[index]#*=}"; done
  within "$@"
}
`;

/** The configuration holds the variables: it is in the node's memory alone. */
const RUNC = `
scratch_in=/dev/shm own_pids= io=/mnt
image_root() { echo "$image_dir"; }
prepare() { printf '%s' "$oci_config" >"$scratch/config.json"; }
container() { within runc --root "$scratch/state" run --bundle "$scratch" "$container_name"; }
kill_container() { runc --root "$scratch/state" kill "$container_name" KILL; }
`;

const SCRIPT = (path: string): string => `
own_pids=root
image_root() { :; }
prepare() { :; }
container() {
  exec 3< <(printf '%s\\0' "\${env[@]}")
  export LONGSHORE_JOB="$job" LONGSHORE_IMAGE="$image"
  within '${path}'
}
`;

const FUNCTIONS: Readonly<Record<Extract<ContainerTool, string>, string>> = {
  apptainer: APPTAINER,
  enroot: ENROOT,
  charliecloud: CHARLIECLOUD,
  runc: RUNC,
};
