import { readFileSync } from 'node:fs';
import { Copy, DockerfileParser, Env, From } from 'dockerfile-ast';

/** One step of a stage, as far as it changes files or what runs after it. */
export type Step =
  | { readonly kind: 'run'; readonly script: string }
  | {
      readonly kind: 'copy';
      readonly from: string | null;
      readonly sources: readonly string[];
      readonly to: string;
    }
  | { readonly kind: 'workdir'; readonly path: string }
  | { readonly kind: 'env'; readonly name: string; readonly value: string };

/** A stage of a Dockerfile. */
export interface Stage {
  readonly name: string;
  /** Another stage, or an image. */
  readonly from: string;
  readonly steps: readonly Step[];
  /** What it says about the container; null where it says nothing. */
  readonly command: readonly string[] | null;
  readonly healthcheck: readonly string[] | null;
}

/** Instructions that only describe the image. */
const DESCRIPTIONS = new Set(['ARG', 'LABEL', 'EXPOSE', 'ENTRYPOINT', 'STOPSIGNAL', 'USER']);

/**
 * Reads the stages of a Dockerfile, in order.
 * @throws Error for an instruction that nobody here knows, so that none is skipped in silence
 */
export function readStages(path: string): Stage[] {
  const stages: Stage[] = [];
  let open: ({ -readonly [Key in keyof Stage]: Stage[Key] } & { steps: Step[] }) | null = null;
  for (const instruction of DockerfileParser.parse(readFileSync(path, 'utf8')).getInstructions()) {
    if (instruction instanceof From) {
      const from = instruction.getImage() ?? '';
      open = {
        name: instruction.getBuildStage() ?? from,
        from,
        steps: [],
        command: null,
        healthcheck: null,
      };
      stages.push(open);
      continue;
    }
    if (open === null) throw new Error(`${instruction.getKeyword()} comes before the first FROM`);
    const keyword = instruction.getKeyword();
    const text = instruction.getArgumentsContent() ?? '';
    if (instruction instanceof Copy) open.steps.push(copyStep(instruction));
    else if (instruction instanceof Env) open.steps.push(...envSteps(instruction));
    else if (keyword === 'RUN') open.steps.push({ kind: 'run', script: text });
    else if (keyword === 'WORKDIR') open.steps.push({ kind: 'workdir', path: text });
    else if (keyword === 'CMD') open.command = listIn(text);
    else if (keyword === 'HEALTHCHECK') open.healthcheck = listIn(text);
    else if (!DESCRIPTIONS.has(keyword)) throw new Error(`nobody here knows ${keyword}`);
  }
  return stages;
}

function copyStep(copy: Copy): Step {
  for (const flag of copy.getFlags()) {
    if (!['from', 'chown'].includes(flag.getName()))
      throw new Error(`nobody here knows COPY --${flag.getName()}`);
  }
  const paths = copy.getArguments().map((argument) => argument.getValue());
  const from =
    copy
      .getFlags()
      .find((flag) => flag.getName() === 'from')
      ?.getValue() ?? null;
  return { kind: 'copy', from, sources: paths.slice(0, -1), to: paths.at(-1) ?? '' };
}

function envSteps(env: Env): Step[] {
  return env
    .getProperties()
    .map((property) => ({ kind: 'env', name: property.getName(), value: property.getValue() ?? '' }));
}

/** The last list of strings in the arguments: the form that no shell reads. */
function listIn(text: string): readonly string[] {
  const list: unknown = JSON.parse(text.slice(text.indexOf('[')));
  if (!Array.isArray(list) || !list.every((word) => typeof word === 'string')) {
    throw new Error(`no list of strings: ${text}`);
  }
  return list;
}
