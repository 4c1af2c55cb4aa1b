import type { ContainerTool, SlurmSettings } from '@longshore/worker/settings/slurm-settings';
import { containerFunctions } from './containers/container-tools.js';
import { ISOLATION_FUNCTIONS } from './containers/isolation-script.js';
import { mountFunctions } from './mounts/mount-script.js';
import type { JobSpec } from '../launcher/engine.js';
import { RunFault } from '@longshore/worker/runtime/runtime';

/** Exit code of a job script on a node that does not see the shared folder. */
export const FOLDER_UNSEEN = 78;

/** What the script of a job holds: the launcher's own settings, and nothing that a user of the service has written. */
interface JobScriptParts {
  /** Folder of the attempts of the deployment. */
  readonly root: string;
  /** Name of the attempt's folder. */
  readonly folder: string;
  readonly tool: ContainerTool;
  /** Folder of the nodes for empty folders of runs; TMPDIR: that of the job's variable. Null: there is none. */
  readonly scratchDir: string | null;
}

/**
 * The script of a job, for bash 4.2 and later. Before anything else, the job takes the attempt by a symbolic link: of several
 * jobs of the attempt, or of one that Slurm starts again, one executes it, and the others end quietly. The exit record is
 * the last that it writes: `exited CODE SIGNALLED LOG_BYTES TIME`, or `image ...` when there is no image, `error ...` or `infrastructure ...` when
 * a mount or file cannot be made. Times are milliseconds since 1970, by the node.
 */
export function jobScript({ root, folder, tool, scratchDir }: JobScriptParts): string {
  return `#!/bin/bash
# One attempt of a run of Longshore. What the run says is in files of its folder, and not in this script.
umask 077
export PATH="\${PATH:-/usr/local/bin:/usr/bin:/bin}:/usr/sbin:/sbin"
cd -- '${root}' || exit ${FOLDER_UNSEEN}
cd -- './${folder}' 2>/dev/null || exit 0
job='${root}/${folder}'
# A controller that lost its newest state may start a job again under the same number.
me="$SLURM_JOB_ID.$(uname -n).$$.$(date +%s%N)"
ln -s -T -- "$me" taken 2>/dev/null || [ "$(readlink taken)" = "$me" ] || exit 0

read_list() { # FILE: its parts, which end with NUL, into the array list
  local item
  list=()
  [ -e "$1" ] || return 0
  while IFS= read -r -d '' item; do list+=("$item"); done <"$1"
}
last_line() { grep -v '^[[:space:]]*$' "$1" | tail -n 1 | cut -c 1-500; }
finish() { # KIND CODE
  local ended_at=$(date +%s%3N)
  # The log is whole when its writer ends. What a program without a namespace of processes has left may hold it up.
  [ -z "$has_log" ] || read -r -t 5 _ <&6
  [ -z "$scratch" ] || remove_tree "$scratch"
  [ -z "$disk" ] || remove_tree "$disk"
  printf '%s %d %d %d %s\\n' "$1" "$2" "$ended" "$(stat -c %s log)" "$ended_at" >exit.new && mv -f exit.new exit
  exit "$2"
}
await() { # the end of the child $pid; its exit code is in $code
  local status
  code=
  while :; do
    interrupted=
    wait "$pid"
    status=$?
    # A signal ends the wait early. After one that came just behind the end, the shell may not know the child any more.
    { [ "$status" = 127 ] && [ -n "$code" ]; } || code=$status
    [ -n "$interrupted" ] || return 0
  done
}

read_list env && env=("\${list[@]}")
# The GPUs that Slurm gave to the job, if any; the last of several variables of one name counts.
gpus=
for name in GPU_DEVICE_ORDINAL ROCR_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES; do
  case \${!name} in '' | NoDevFiles) ;; *) env+=("$name=\${!name}") gpus=\${name%%_*} ;; esac
done
oci_config=
[ ! -e oci-config ] || oci_config=$(<oci-config)
rm -f env oci-config
read_list command && command=("\${list[@]}")
read_list args && args=("\${list[@]}")
read_list mount-points && points=("\${list[@]}")
read_list mount-sources && sources=("\${list[@]}")
has_command=
[ ! -e command ] || has_command=yes
image=$(<image)
image_dir=
[ ! -e image-dir ] || image_dir=$(<image-dir)
work_dir=/
[ ! -e work-dir ] || work_dir=$(<work-dir)
container_name="longshore-$SLURM_JOB_ID"
scratch= scratch_in= own_pids= io= disk= pid= interrupted= code= ended=0 has_log=
${mountFunctions(scratchDir)}${ISOLATION_FUNCTIONS}${containerFunctions(tool)}
trap 'ended=1 interrupted=yes; [ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null' TERM
trap 'ended=1 interrupted=yes; [ -z "$pid" ] || kill_container 2>/dev/null' USR1
[ -z "$scratch_in" ] || scratch=$(mktemp -d -p "$scratch_in") || exit 1

prepare </dev/null >prepare.log 2>&1 &
pid=$!
await
[ "$ended" = 0 ] || finish exited 143
[ "$code" = 0 ] || finish image 1
( check_image && copy_folders ) 2>>prepare.log &
pid=$!
await
[ "$ended" = 0 ] || finish exited 143
[ "$code" = 0 ] || { read -r cause _ <mount-error; finish "$cause" 1; }
make_scratch || { echo 'infrastructure The node of the job has no place for an empty folder' >mount-error; finish infrastructure 1; }
# A pipe: a program could change a file's size. A log that cannot be written does not end the program.
coproc writer { trap '' TERM USR1; exec 9<&-; cat >>log || cat >/dev/null; }
eval "exec 6<&\${writer[0]} 7>&\${writer[1]} \${writer[0]}<&- \${writer[1]}>&-"
has_log=yes
container </dev/null >&7 2>&1 6<&- 7>&- 9<&- &
pid=$!
exec 7>&-
[ "$ended" = 0 ] || kill -TERM "$pid" 2>/dev/null
await
if [ ! -e started ] && [ "$ended" = 0 ]; then
  [ -s mount-error ] || echo 'infrastructure The node of the job cannot make mounts, or not start the container' >mount-error
  read -r cause _ <mount-error
  finish "$cause" 1
fi
[ ! -s image-error ] || finish image 1
finish exited "$code"
`;
}

/**
 * Arguments of sbatch for the resources of an attempt.
 * @throws RunFault when the cluster has no such GPU
 */
export function sbatchArguments(
  { constraints, selector }: JobSpec,
  settings: SlurmSettings,
  partitions: readonly string[],
): string[] {
  const { account, qos, timeLimit, features, args } = settings;
  const { cpuMillis, ramMb } = constraints;
  const needed = selector.flatMap((tag) => features.get(tag) ?? []);
  return [
    '--no-requeue',
    // The few variables that sbatch gets itself. With NONE, the node would start a login shell of the user for each job.
    '--export=ALL',
    '--chdir=/',
    '--input=/dev/null',
    '--output=/dev/null',
    '--error=/dev/null',
    '--nodes=1',
    '--ntasks=1',
    ...(partitions.length > 0 ? [`--partition=${partitions.join(',')}`] : []),
    ...(cpuMillis > 0 ? [`--cpus-per-task=${Math.ceil(cpuMillis / 1000)}`] : []),
    ...(ramMb > 0 ? [`--mem=${ramMb}M`] : []),
    ...gpuArguments(constraints, settings.gpus),
    ...(needed.length > 0 ? [`--constraint=${[...new Set(needed)].join('&')}`] : []),
    ...(account === null ? [] : [`--account=${account}`]),
    ...(qos === null ? [] : [`--qos=${qos}`]),
    ...(timeLimit === null ? [] : [`--time=${timeLimit}`]),
    ...args,
  ];
}

/** GPUs of the smallest type that has the tags and enough memory. Slurm gives each to one job alone. */
function gpuArguments(
  { vramMb, gpus, gpuIds, gpuSelector }: JobSpec['constraints'],
  types: ReadonlyMap<string, number>,
): string[] {
  if (vramMb === 0 && gpus === 0 && gpuIds.length === 0) return [];
  const count = Math.max(1, gpus);
  const [type] = [...types]
    .filter(([name, memory]) => memory >= vramMb && gpuSelector.every((tag) => tag === name))
    .toSorted(([, one], [, other]) => one - other)
    .map(([name]) => name);
  if (type === undefined)
    throw new RunFault(
      `No GPU of SERVICE_WORKER_SLURM_GPUS has ${[`${vramMb} MB of memory`, ...gpuSelector.map((tag) => `the tag '${tag}'`)].join(' and ')}`,
    );
  return [`--gres=gpu:${type === 'gpu' ? '' : `${type}:`}${count}`];
}
