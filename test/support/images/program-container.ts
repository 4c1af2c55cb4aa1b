import { chmodSync, writeFileSync } from 'node:fs';

/**
 * Writes a script for SERVICE_WORKER_SLURM_CONTAINER that executes programs in place of containers: those of the folder
 * `images` beside the script, which the runtime `process` takes for images.
 */
export function writeProgramContainer(path: string): void {
  const script = `#!/bin/bash
read_list() { list=(); [ ! -e "$1" ] || while IFS= read -r -d '' item; do list+=("$item"); done <"$1"; }
while IFS= read -r -d '' pair <&3; do export "$pair"; done
exec 3<&-
name=\${LONGSHORE_IMAGE##*/}
program="$(dirname "$0")/images/\${name%%:*}/program"
[ -x "$program" ] || { echo "there is no image $LONGSHORE_IMAGE" >"$LONGSHORE_JOB/image-error"; exit 1; }
read_list "$LONGSHORE_JOB/command"; command=("\${list[@]}")
read_list "$LONGSHORE_JOB/args"; args=("\${list[@]}")
[ -e "$LONGSHORE_JOB/command" ] || command=("$program")
unset LONGSHORE_JOB LONGSHORE_IMAGE
exec "\${command[@]}" "\${args[@]}"
`;
  writeFileSync(path, script);
  chmodSync(path, 0o755);
}
