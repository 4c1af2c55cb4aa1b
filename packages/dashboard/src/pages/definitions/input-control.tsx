import type { ControlProps } from '../../components/controls/field.js';
import { Select, TextArea, TextInput } from '../../components/controls/inputs.js';
import { kindOf, limitsOf, nameOfType, type InputSpec } from './run-inputs.js';

interface Props {
  readonly control: ControlProps;
  readonly spec: InputSpec;
  /** Undefined: not given. */
  readonly text: string | undefined;
  readonly onChange: (text: string | undefined) => void;
}

/** The control that fits the type of an input. An emptied control is an input that is not given. */
export function InputControl({ control, spec, text, onChange }: Props) {
  const placeholder = spec.default === null ? '' : JSON.stringify(spec.default);
  const change = (next: string): void => onChange(next === '' ? undefined : next);
  const shared = {
    ...control,
    value: text ?? '',
    onChange: change,
    placeholder,
    'aria-required': spec.required,
  };
  const kind = kindOf(spec.type);
  if (spec.enum !== undefined && (kind === 'text' || kind === 'integer' || kind === 'number')) {
    const values = spec.enum.map(String).filter((value) => value !== '');
    return (
      <Select
        {...control}
        aria-required={spec.required}
        value={text ?? ''}
        options={[['', notGiven(spec)], ...values.map((value) => [value, value] as const)]}
        onChange={change}
      />
    );
  }
  switch (kind) {
    case 'text':
      return <TextInput {...shared} autoComplete="off" />;
    case 'integer':
      return <TextInput {...shared} inputMode="numeric" autoComplete="off" mono />;
    case 'number':
      return <TextInput {...shared} inputMode="decimal" autoComplete="off" mono />;
    case 'boolean':
      return (
        <Select
          {...control}
          aria-required={spec.required}
          value={text ?? ''}
          options={[
            ['', notGiven(spec)],
            ['true', 'true'],
            ['false', 'false'],
          ]}
          onChange={change}
        />
      );
    case 'object':
    case 'array':
    case 'label':
      return <TextArea {...shared} rows={4} />;
  }
}

/** What holds when nothing is chosen. */
function notGiven({ default: value }: InputSpec): string {
  return value === null ? 'Not given' : `Default (${JSON.stringify(value)})`;
}

/** What an input has to be, in a line below its control. */
export function hintOf(spec: InputSpec): string {
  const kind = kindOf(spec.type);
  const isJson = kind === 'object' || kind === 'array';
  const form = kind === 'label' ? `${nameOfType(spec.type)}, JSON or else text` : spec.type;
  const absence = spec.required ? 'required' : 'optional';
  const need = spec.default === null ? absence : `default ${JSON.stringify(spec.default)}`;
  return [spec.description ?? '', `${form}${isJson ? ', as JSON' : ''}`, limitsOf(spec), need]
    .filter((part) => part !== '')
    .join(' · ');
}
