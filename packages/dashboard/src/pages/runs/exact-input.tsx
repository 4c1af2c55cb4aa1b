import { useState } from 'react';
import { TextInput } from '../../components/controls/inputs.js';
import type { ControlProps } from '../../components/controls/field.js';

interface Props {
  readonly control: ControlProps;
  readonly value: string;
  /** Texts to choose from; one that is chosen counts at once. */
  readonly suggestions: readonly string[];
  readonly onChange: (value: string) => void;
}

/** A text that is compared to the letter: it counts when it is finished, by Enter or by leaving. */
export function ExactInput({ control, value, suggestions, onChange }: Props) {
  const [draft, setDraft] = useState<string>();
  const commit = (text = draft): void => {
    setDraft(undefined);
    if (text !== undefined && text.trim() !== value) onChange(text.trim());
  };
  return (
    <>
      <TextInput
        {...control}
        mono
        list={`${control.id}-list`}
        value={draft ?? value}
        spellCheck={false}
        autoComplete="off"
        onChange={(text) => (text === '' || suggestions.includes(text) ? commit(text) : setDraft(text))}
        onBlur={() => commit()}
        onKeyDown={({ key }) => {
          if (key === 'Enter') commit();
          if (key === 'Escape') setDraft(undefined);
        }}
      />
      <datalist id={`${control.id}-list`}>
        {suggestions.map((text) => (
          <option key={text} value={text}>
            {text}
          </option>
        ))}
      </datalist>
    </>
  );
}
