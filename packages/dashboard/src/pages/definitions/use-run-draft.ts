import { useState } from 'react';
import type { Schemas } from '../../api/use-api.js';
import { readObject, type Typed } from '../../lib/json-object.js';
import { readInput, readInputs, toTexts, type InputSpec, type InputTexts } from './run-inputs.js';

/** What is wrong with a draft, where it is. */
export interface DraftProblems {
  readonly inputs: ReadonlyMap<string, string>;
  readonly json?: string | undefined;
  readonly priority?: string | undefined;
  readonly outputs?: string | undefined;
}

/** A run that is being put together: its inputs field by field or as one JSON text. */
export interface RunDraft {
  readonly isJson: boolean;
  readonly json: string;
  readonly texts: InputTexts;
  readonly priority: string;
  readonly outputs: string;
  readonly problems: DraftProblems;
  readonly isComplete: boolean;
  /** What is sent; leave it where it is while the draft is not complete. */
  readonly body: Schemas['DefinitionRunCreate'];
  readonly setJson: (text: string) => void;
  readonly setText: (input: string, text: string | undefined) => void;
  readonly setPriority: (text: string) => void;
  readonly setOutputs: (text: string) => void;
  /** Goes from fields to JSON or back, with what was entered; from JSON that cannot be read it does not go. */
  readonly turn: () => void;
}

/** The state of a form that starts a run. Without declared inputs there is only the JSON text. */
export function useRunDraft(specs: Readonly<Record<string, InputSpec>>): RunDraft {
  const hasFields = Object.keys(specs).length > 0;
  const [isJson, setIsJson] = useState(!hasFields);
  const [json, setJson] = useState('{}');
  const [texts, setTexts] = useState<InputTexts>(new Map());
  const [priority, setPriority] = useState('');
  const [outputs, setOutputs] = useState('');

  const fields = readInputs(specs, texts);
  const whole = readObject(json);
  const rank = priority.trim() === '' ? { value: undefined } : readInput('integer', priority);
  const template: Partial<Typed> = outputs.trim() === '' ? {} : readObject(outputs);

  const problems: DraftProblems = {
    inputs: isJson ? new Map() : fields.problems,
    json: isJson ? whole.problem : undefined,
    priority: 'problem' in rank ? rank.problem : undefined,
    outputs: template.problem,
  };
  const inputs = (isJson ? whole.value : undefined) ?? fields.inputs;
  return {
    isJson,
    json,
    texts,
    priority,
    outputs,
    problems,
    isComplete:
      problems.inputs.size === 0 &&
      [problems.json, problems.priority, problems.outputs].every((problem) => problem === undefined),
    body: {
      inputs,
      ...('value' in rank && typeof rank.value === 'number' ? { priority: rank.value } : {}),
      ...(template.value === undefined ? {} : { outputs: template.value }),
    },
    setJson,
    setText: (input, text) => {
      const next = new Map(texts);
      if (text === undefined) next.delete(input);
      else next.set(input, text);
      setTexts(next);
    },
    setPriority,
    setOutputs,
    turn: () => {
      if (!isJson) {
        setJson(JSON.stringify(fields.inputs, null, 2));
        setIsJson(true);
      } else if (hasFields && whole.value !== undefined) {
        setTexts(toTexts(specs, whole.value));
        setIsJson(false);
      }
    },
  };
}
