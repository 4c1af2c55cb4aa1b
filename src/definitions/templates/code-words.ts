import { CODE_OPTION, INTERPRETERS, WRAPPER, type Interpreter, type Next } from './interpreters.js';
import { firstReference, showReference, type Parts, type Reference } from './template-text.js';

/** A word of a command line that a definition makes. */
export interface Word {
  /** Where the definition has it. */
  readonly path: string;
  readonly parts: Parts;
}

/** The lists of words that one entry may become; an empty one: it may be left out. */
export type Alternatives = readonly (readonly Word[])[];

/**
 * What may come next: the name of a program; an argument of the image's entrypoint, which may be the name of a program; words of such
 * as `env`, or those that it splits; words that an interpreter reads.
 */
type State = 'program' | 'argument' | 'wrapped' | 'split' | Reading;

interface Reading {
  /** The name of the interpreter in the definition. */
  readonly program: string;
  readonly interpreter: Interpreter;
  /** False: the word may also mean something else. */
  readonly isSure: boolean;
  readonly next: Next | 'operands';
  readonly isOperandCode: boolean;
}

/** The states of a command line that can be read in several ways. */
type States = ReadonlyMap<string, State>;

/**
 * One line for each word in which an input would become code of a shell, python, perl, ruby or node, or an option of one of them that
 * takes code. Wherever a word names such a program, it may be run by the words before it. What follows is read as the
 * program reads it; where that depends on what is not known, in each way.
 * @param start whether the entries begin with the command or with arguments of the image's entrypoint
 */
export function codeProblems(entries: readonly Alternatives[], start: 'program' | 'argument'): string[] {
  const problems = new Map<string, string>();
  let states = toStates([start]);
  for (const alternatives of entries) {
    const after = alternatives.flatMap((words) => [...readWords(states, words, problems).values()]);
    states = toStates(after);
  }
  return [...problems.values()];
}

function readWords(states: States, words: readonly Word[], problems: Map<string, string>): States {
  return words.reduce((before, word) => readWord(before, word, problems), states);
}

function readWord(states: States, word: Word, problems: Map<string, string>): States {
  const { path, parts } = word;
  const reference = firstReference(parts);
  const read = { text: prefixOf(parts), reference };
  const refuse = (problem: string): void => {
    if (reference !== undefined) problems.set(path, `${path}: ${showReference(reference)}: ${problem}`);
  };
  const after: State[] = readersOf(parts, states);
  for (const state of states.values()) {
    if (typeof state !== 'string') after.push(...readArgument(state, read, refuse));
    else after.push(...readCaller(state, word, read, refuse, problems));
  }
  return toStates(after);
}

interface Read {
  /** What stands before the first reference. */
  readonly text: string;
  readonly reference: Reference | undefined;
}

/** The interpreters that the word may name. */
function readersOf(parts: Parts, states: States): Reading[] {
  const program = nameOf(parts);
  const isProgram = states.has('program') || states.has('wrapped');
  const start = { next: 'options', isOperandCode: false } as const;
  if (program === undefined) {
    const reference = firstReference(parts);
    if (!isProgram || reference === undefined) return [];
    const any = { program: showReference(reference), isSure: false, ...start };
    return INTERPRETERS.map((interpreter) => ({ interpreter, ...any }));
  }
  const interpreter = INTERPRETERS.find(({ names }) => names.test(program));
  const isSure = isProgram || states.has('argument');
  return interpreter === undefined ? [] : [{ program, interpreter, isSure, ...start }];
}

/** Reads a word as the name of a program, or of one that such as `env` calls. */
function readCaller(
  state: Exclude<State, Reading>,
  { path, parts }: Word,
  { text, reference }: Read,
  refuse: (problem: string) => void,
  problems: Map<string, string>,
): readonly State[] {
  const readSplit = (line: string): readonly State[] => {
    if (reference !== undefined) refuse(codeOf('env'));
    const words = line.replaceAll(/["'\\]/g, '').split(/\s+/);
    const split = words.filter((part) => part !== '').map((part) => ({ path, parts: [part] }));
    return [...readWords(toStates(['wrapped']), split, problems).values()];
  };
  if (state === 'split') return readSplit(text);
  if (state === 'wrapped') {
    const [, attached] = /^(?:-[A-Za-z0]*S|--split-string=?)(.*)$/s.exec(text) ?? [];
    if (attached === '' && reference === undefined) return ['split'];
    if (attached !== undefined) return readSplit(attached);
    if (text.startsWith('-') || text.includes('=')) return ['wrapped'];
  }
  const name = nameOf(parts);
  return name !== undefined && WRAPPER.test(name) ? ['wrapped'] : [];
}

/** Reads a word as an argument of an interpreter. */
function readArgument(state: Reading, read: Read, refuse: (problem: string) => void): readonly Reading[] {
  const { text, reference } = read;
  const { program, interpreter, next } = state;
  const then = (...places: readonly Reading['next'][]): readonly Reading[] =>
    places.map((place) => ({ ...state, next: place }));
  switch (next) {
    case 'value':
      return then('options');
    case 'code':
    case 'loop':
      if (reference !== undefined) {
        refuse(codeOf(program));
        return [];
      }
      if (next === 'loop') return readOption(state, read, refuse, then);
      // An option instead of code: the program may take it as either.
      return [
        ...(interpreter.goesOnAfterCode ? then('options') : []),
        ...(text.startsWith('-') ? readOption(state, read, refuse, then) : []),
      ];
    case 'options':
      return readOption(state, read, refuse, then);
    case 'operands':
      if (state.isOperandCode && reference !== undefined) refuse(codeOf(program));
      return [];
  }
}

function readOption(
  state: Reading,
  { text, reference }: Read,
  refuse: (problem: string) => void,
  then: (...places: readonly Reading['next'][]) => readonly Reading[],
): readonly Reading[] {
  const { program, interpreter, isSure, isOperandCode } = state;
  const isLiteral = reference === undefined;
  if (isLiteral && (text === '--' || text === '-')) return then('operands');
  if (text.startsWith('--')) {
    const [name = '', value] = text.split('=', 2);
    if (!isLiteral && value === undefined) refuse(optionOf(program));
    else if (!isLiteral && CODE_OPTION.test(name)) refuse(codeOf(program));
    if (value !== undefined || !isLiteral) return then('options');
    return CODE_OPTION.test(name) ? then('code') : then(...interpreter.afterLong(name));
  }
  if (/^[-+]/.test(text)) {
    if (!isLiteral) {
      refuse(optionOf(program));
      return [];
    }
    const letters = text.slice(1);
    const isCode = isOperandCode || interpreter.makesOperandCode(letters);
    return then(...interpreter.afterLetters(letters)).map((after) => ({ ...after, isOperandCode: isCode }));
  }
  if (isOperandCode) {
    if (!isLiteral) refuse(codeOf(program));
  } else if (!isLiteral && text === '' && isSure) refuse(optionOf(program));
  return [];
}

function codeOf(program: string): string {
  return `would become code of ${program}: pass it in env and use "$NAME"`;
}

function optionOf(program: string): string {
  return `could become an option of ${program} that takes code: put it behind --, or pass it in env and use "$NAME"`;
}

/** The file name of a program; undefined where a reference is part of it. */
function nameOf(parts: Parts): string | undefined {
  const last = parts.at(-1) ?? '';
  if (typeof last !== 'string' || (parts.length > 1 && !last.includes('/'))) return undefined;
  return last.slice(last.lastIndexOf('/') + 1);
}

function prefixOf([first = '']: Parts): string {
  return typeof first === 'string' ? first : '';
}

/** Each state once. */
function toStates(states: readonly State[]): States {
  return new Map(states.map((state) => [keyOf(state), state]));
}

function keyOf(state: State): string {
  if (typeof state === 'string') return state;
  const { program, interpreter, isSure, next, isOperandCode } = state;
  return JSON.stringify([program, INTERPRETERS.indexOf(interpreter), isSure, next, isOperandCode]);
}
