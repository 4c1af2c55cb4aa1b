import { Field, TextInput } from './inputs.js';

interface Props {
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** Why a run, or several, are cancelled. */
export function ReasonField({ value, onChange }: Props) {
  return (
    <Field label="Reason" hint="Optional; shown with the run.">
      {(control) => <TextInput {...control} maxLength={500} value={value} onChange={onChange} />}
    </Field>
  );
}
