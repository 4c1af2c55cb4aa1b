import type { Schemas } from '@longshore/client';
import { shellWords } from '@longshore/common/shell-words';
import type { FieldKind, FormField } from '../../run-form/form-values.js';

/** What a definition says of one input. */
type InputSpec = Schemas['InputSpec'];

/** How inputs of the checked types are entered; one of another type is a label. */
const KINDS: ReadonlyMap<string, FieldKind> = new Map([
  ['string', 'verbatim'],
  ['str', 'verbatim'],
  ['integer', 'integer'],
  ['int', 'integer'],
  ['number', 'number'],
  ['float', 'number'],
  ['boolean', 'boolean'],
  ['bool', 'boolean'],
  ['object', 'object'],
  ['dict', 'object'],
  ['array', 'array'],
  ['list', 'array'],
  ['file', 'file'],
]);

/** The fields of the inputs that a definition declares; what is not entered is not given, and a default takes its place. */
export function inputFields(specs: Readonly<Record<string, InputSpec>>): FormField[] {
  return Object.entries(specs).map(([name, spec]) => {
    const kind = KINDS.get(spec.type.toLowerCase()) ?? 'label';
    const given = spec.default === null ? undefined : JSON.stringify(spec.default);
    const values = choicesOf(kind, spec);
    return {
      path: `inputs.${name}`,
      keys: ['inputs', name],
      kind,
      label: name,
      hint: hintOf(kind, spec),
      ...(spec.required && given === undefined ? { required: 'This input is required.' } : {}),
      ...(given === undefined ? {} : { placeholder: given }),
      ...(values === undefined
        ? {}
        : {
            choices: [
              ['', given === undefined ? 'Not given' : `Default (${given})`] as const,
              ...values.map((value) => [value, value] as const),
            ],
          }),
    };
  });
}

type Program = Pick<Schemas['OpDefinition'], 'image' | 'command' | 'args'>;

/**
 * The command line of a run, as a shell would read it; of a definition, an input stands as it is written in arguments.
 * @param specs of the definition's inputs
 */
export function commandLine(
  { image, command, args }: Program,
  specs: Readonly<Record<string, InputSpec>> = {},
): string {
  const start = command === null ? `(entrypoint of ${image})` : shellWords(command);
  if (args === null && command === null) return `${start} (arguments of the image)`;
  const words = (args ?? []).flatMap((arg) => {
    if (typeof arg === 'string') return [arg];
    const { flag, input, join } = arg;
    if (KINDS.get(specs[input]?.type.toLowerCase() ?? '') === 'boolean') return [flag];
    const value = `\${inputs.${input}}`;
    return join === undefined || join === null ? [flag, value] : [flag + join + value];
  });
  return `${start} ${shellWords(words)}`.trimEnd();
}

function choicesOf(kind: FieldKind, { enum: values }: InputSpec): readonly string[] | undefined {
  if (kind === 'boolean') return ['true', 'false'];
  const isPlain = kind === 'verbatim' || kind === 'integer' || kind === 'number';
  return isPlain ? values?.map(String).filter((value) => value !== '') : undefined;
}

/** What an input has to be, in a line below its control. */
function hintOf(kind: FieldKind, spec: InputSpec): string {
  const isJson = kind === 'object' || kind === 'array';
  // A label is shown without its prefix.
  const form = kind === 'label' ? `${spec.type.replace(/^label:/, '')}, JSON or else text` : spec.type;
  const absence = spec.required ? 'required' : 'optional';
  const need = spec.default === null ? absence : `default ${JSON.stringify(spec.default)}`;
  return [spec.description ?? '', `${form}${isJson ? ', as JSON' : ''}`, limitsOf(spec), need]
    .filter((part) => part !== '')
    .join(' · ');
}

/** The limits of an input in words; empty without any. */
export function limitsOf({ minimum, maximum, max_length: length, enum: values }: InputSpec): string {
  return [
    minimum === undefined ? '' : `at least ${minimum}`,
    maximum === undefined ? '' : `at most ${maximum}`,
    length === undefined ? '' : `at most ${length} characters`,
    values === undefined ? '' : `one of ${values.map((value) => JSON.stringify(value)).join(', ')}`,
  ]
    .filter((limit) => limit !== '')
    .join(', ');
}
