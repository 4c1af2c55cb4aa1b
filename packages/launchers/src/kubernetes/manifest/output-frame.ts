import { refusedOutputs } from '@longshore/worker/runtime/outputs';

/** Limit of the output file, in bytes: its text must fit into a log file that a node does not rotate. */
export const MAX_OUTPUT_BYTES = 2 ** 20;

const BEGIN = /^longshore-outputs (\d+|missing|irregular|unreadable)$/;
const END = 'longshore-end';

/**
 * Shell script that prints the output file in a frame: its size, the file as base64, an end line. Follows no link, and reads nothing
 * of a file that is too large.
 */
export function outputsScript(file: string): string {
  return `f=${file}
if [ -L "$f" ]; then s=irregular
elif [ ! -e "$f" ]; then s=missing
elif [ ! -f "$f" ]; then s=irregular
elif [ ! -r "$f" ]; then s=unreadable
else s=$(stat -c %s "$f") || exit 1
fi
echo "longshore-outputs $s"
case $s in [0-9]*) if [ "$s" -le ${MAX_OUTPUT_BYTES} ]; then base64 "$f" || exit 1; fi ;; esac
echo ${END}
`;
}

/**
 * Reads what the script printed.
 * @returns the output file; null when there is none; undefined when the frame is not complete
 * @throws RunFault when the output file cannot be used
 */
export function parseOutputFrame(log: string): Buffer | null | undefined {
  const lines = log.split('\n').map((line) => line.trim());
  const begin = lines.findIndex((line) => BEGIN.test(line));
  const end = lines.indexOf(END, begin + 1);
  if (begin < 0 || end < 0) return undefined;
  const size = BEGIN.exec(lines[begin] ?? '')?.[1] ?? '';
  switch (size) {
    case 'missing':
      return null;
    case 'irregular':
      throw refusedOutputs('it is no regular file');
    case 'unreadable':
      throw refusedOutputs('it cannot be read');
    default: {
      if (Number(size) > MAX_OUTPUT_BYTES)
        throw refusedOutputs(`it has ${size} bytes; the limit on Kubernetes is ${MAX_OUTPUT_BYTES} bytes`);
      const bytes = Buffer.from(lines.slice(begin + 1, end).join(''), 'base64');
      return bytes.length === Number(size) ? bytes : undefined;
    }
  }
}
