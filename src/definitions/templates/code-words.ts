import {
  CODE_OPTION,
  INTERPRETERS,
  SPLIT_OPTION,
  WRAPPERS,
  type Interpreter,
  type Next,
  type Wrapper,
} from './interpreters.js';
import { firstReference, showReference, type Parts } from './template-text.js';

/** A word of a command line that a definition makes. */
export interface Word {
  /** Where the definition has it. */
  readonly path: string;
  readonly parts: Parts;
  /** What it is in one run. */
  readonly value?: string;
}

/** The lists of words that one entry may become; an empty one: it may be left out. */
export type Alternatives = readonly (readonly Word[])[];

/** How deep `env -S` within `env -S` is read. */
const MAX_DEPTH = 3;
/** Number of words of `env -S` on a command line that are read. */
const MAX_SPLIT = 1000;

/** What may come next: a program; an argument of the image's entrypoint, which may name one; words of a program that is known. */
type State = 'program' | 'argument' | Wrapping | Reading;

interface Wrapping {
  readonly wrapper: Wrapper;
  readonly next: 'options' | 'value' | 'perhaps-value' | 'split';
  /** Number of words that still come before the program. */
  readonly operands: number;
}

interface Reading {
  /** The name of the interpreter in the definition. */
  readonly program: string;
  readonly interpreter: Interpreter;
  readonly next: Next | 'operands';
  readonly isOperandCode: boolean;
}

/** The states of a command line that can be read in several ways. */
type States = ReadonlyMap<string, State>;

interface Context {
  /** By path. */
  readonly problems: Map<string, string>;
  /** Paths of the words that are code, or have some. */
  readonly code: Set<string>;
  readonly depth: number;
  readonly split: { count: number };
}

/** A word as a state reads it. */
interface Read extends Word {
  /** What stands before the first reference. */
  readonly text: string;
  readonly isLiteral: boolean;
  readonly refuse: (problem: string) => void;
  /** Notes that the word is code. */
  readonly markCode: () => void;
}

/** What {@link readCommandLine} finds. */
interface CommandLine {
  /** One line for each word in which an input would become code of a program, or an option of it that takes code. */
  readonly problems: readonly string[];
  /** Paths of the words that are code. */
  readonly code: ReadonlySet<string>;
}

/**
 * Looks for programs that execute an argument where the command line begins and behind wrappers; words behind its script are data.
 * @param start whether the entries begin with the command or with arguments of the image's entrypoint
 */
export function readCommandLine(
  entries: readonly Alternatives[],
  start: 'program' | 'argument',
): CommandLine {
  const context: Context = { problems: new Map(), code: new Set(), depth: 0, split: { count: 0 } };
  let states = toStates([start]);
  for (const alternatives of entries) {
    states = toStates(alternatives.flatMap((words) => [...readWords(states, words, context).values()]));
  }
  return { problems: [...context.problems.values()], code: context.code };
}

function readWords(states: States, words: readonly Word[], context: Context): States {
  return words.reduce((before, word) => {
    const read = toRead(word, context);
    return toStates([...before.values()].flatMap((state) => readWord(state, read, context)));
  }, states);
}

function toRead(word: Word, { problems, code }: Context): Read {
  const [first = ''] = word.parts;
  const reference = firstReference(word.parts);
  return {
    ...word,
    text: typeof first === 'string' ? first : '',
    isLiteral: reference === undefined,
    refuse: (problem) => {
      const shown = reference === undefined ? '' : `${showReference(reference)}: `;
      problems.set(word.path, `${word.path}: ${shown}${problem}`);
    },
    markCode: () => code.add(word.path),
  };
}

function readWord(state: State, read: Read, context: Context): readonly State[] {
  if (typeof state === 'string') return readProgram(state, read);
  return 'wrapper' in state ? readWrapped(state, read, context) : readArgument(state, read);
}

function readProgram(state: 'program' | 'argument', word: Word): readonly State[] {
  const name = nameOf(word);
  if (name === undefined) {
    const reference = firstReference(word.parts);
    if (state === 'argument' || reference === undefined) return [];
    // The caller chooses the program.
    return INTERPRETERS.filter(({ beginsWithCode = false }) => !beginsWithCode).map((interpreter) => ({
      program: showReference(reference),
      interpreter,
      ...begin(interpreter),
    }));
  }
  const interpreter = INTERPRETERS.find(({ names }) => names.test(name));
  if (interpreter) return [{ program: name, interpreter, ...begin(interpreter) }];
  const wrapper = WRAPPERS.find(({ names }) => names.test(name));
  return wrapper ? [{ wrapper, next: 'options', operands: wrapper.operands }] : [];
}

/** How an interpreter reads its first argument. */
function begin({ beginsWithCode = false }: Interpreter): Pick<Reading, 'next' | 'isOperandCode'> {
  return { next: 'options', isOperandCode: beginsWithCode };
}

/** Reads a word as an argument of a program that calls another one. */
function readWrapped(state: Wrapping, read: Read, context: Context): readonly State[] {
  const { wrapper, next, operands } = state;
  const { text, isLiteral, value = '' } = read;
  const after: Wrapping = { ...state, next: 'options' };
  if (wrapper.startsAt !== undefined) {
    if (!isLiteral && value.startsWith('-')) read.refuse(startOf('the program before it', '-'));
    return isLiteral && wrapper.startsAt.test(text) ? [state, 'program'] : [state];
  }
  if (next === 'split') return readSplit(after, text, read, context);
  if (next === 'value') return [after];
  if (next === 'perhaps-value') {
    // Which program an input names is known in a run.
    const isUnknown = !isLiteral && read.value === undefined;
    return isUnknown ? [after] : [after, ...readWrapped(after, read, context)];
  }
  const [, attached] = (wrapper.names.test('env') && SPLIT_OPTION.exec(text)) || [];
  if (attached === '' && isLiteral) return [{ ...state, next: 'split' }];
  if (attached !== undefined) return readSplit(after, attached, read, context);
  if (isLiteral && wrapper.valued.test(text)) return [{ ...state, next: 'value' }];
  if (text.startsWith('-') || text.includes('=')) {
    return [wrapper.isLoose === true && text !== '--' ? { ...state, next: 'perhaps-value' } : after];
  }
  if (text === '' && value.startsWith('-')) read.refuse(startOf('the program before it', '-'));
  if (operands > 0) return [{ ...after, operands: operands - 1 }];
  // What an input stands for may also be an assignment.
  return [...readProgram('program', read), ...(text === '' && !isLiteral ? [after] : [])];
}

/** Reads the words that `env -S` makes of a text. */
function readSplit(state: Wrapping, line: string, read: Read, context: Context): readonly State[] {
  const words = line
    .replaceAll(/["'\\]/g, '')
    .split(/\s+/)
    .filter(Boolean);
  read.markCode();
  const depth = context.depth + 1;
  context.split.count += words.length;
  const isTooMuch = depth > MAX_DEPTH || context.split.count > MAX_SPLIT;
  if (!read.isLiteral || isTooMuch) read.refuse(codeOf('env'));
  if (isTooMuch) return [];
  const split = words.map((part) => ({ path: read.path, parts: [part] }));
  return [...readWords(toStates([state]), split, { ...context, depth }).values()];
}

/** Reads a word as an argument of an interpreter. */
function readArgument(state: Reading, read: Read): readonly Reading[] {
  const { program, interpreter, next } = state;
  switch (next) {
    case 'value':
      return [{ ...state, next: 'options' }];
    case 'code':
    case 'loop':
      read.markCode();
      if (!read.isLiteral) {
        read.refuse(codeOf(program));
        return [];
      }
      if (next === 'loop') return readOption(state, read);
      // An option instead of code: the program may take it as either.
      return [
        ...(interpreter.goesOnAfterCode ? [{ ...state, next: 'options' } as const] : []),
        ...(read.text.startsWith('-') ? readOption(state, read) : []),
      ];
    case 'options':
      return readOption(state, read);
    case 'operands':
      if (state.isOperandCode) read.markCode();
      if (state.isOperandCode && !read.isLiteral) read.refuse(codeOf(program));
      return interpreter.hasManyOperands === true ? [{ ...state, isOperandCode: false }] : [];
  }
}

function readOption(
  state: Reading,
  { text, value = '', isLiteral, refuse, markCode }: Read,
): readonly Reading[] {
  const { program, interpreter, isOperandCode } = state;
  if (isLiteral && text === '-' && interpreter.hasManyOperands === true) return [state];
  if (isLiteral && (text === '--' || text === '-')) return [{ ...state, next: 'operands' }];
  if (text.startsWith('--')) {
    const [name = '', attached] = text.split('=', 2);
    const isCode = CODE_OPTION.test(name);
    if (isCode && attached !== undefined) markCode();
    if (!isLiteral && attached === undefined) refuse(optionOf(program));
    else if (!isLiteral && isCode) refuse(codeOf(program));
    const spares = interpreter.sparesOperand?.(name) === true;
    if (attached !== undefined || !isLiteral) {
      return [{ ...state, next: 'options', isOperandCode: isOperandCode && !spares }];
    }
    if (spares && !isCode) return [{ ...state, next: 'value', isOperandCode: false }];
    if (isCode) return [{ ...state, next: 'code', isOperandCode: isOperandCode && !spares }];
    return [{ ...state, next: interpreter.valued.test(name) ? 'value' : 'options' }];
  }
  if (interpreter.option.test(text)) {
    if (!isLiteral) {
      refuse(optionOf(program));
      return [];
    }
    const letters = text.slice(1);
    const isCode =
      (isOperandCode && interpreter.sparesOperand?.(text) !== true) || interpreter.makesOperandCode(letters);
    return interpreter.afterLetters(letters).map((next) => ({ ...state, next, isOperandCode: isCode }));
  }
  // The script, or code instead of it.
  if (isOperandCode) markCode();
  if (isOperandCode && !isLiteral) refuse(codeOf(program));
  else if (text === '' && interpreter.option.test(value)) refuse(startOf(program, value.charAt(0)));
  return interpreter.hasManyOperands === true ? [{ ...state, next: 'options', isOperandCode: false }] : [];
}

function codeOf(program: string): string {
  return `would become code of ${program}: pass it in env and use "$NAME"`;
}

function optionOf(program: string): string {
  return `could become an option of ${program} that takes code: put it behind --, or pass it in env and use "$NAME"`;
}

function startOf(program: string, sign: string): string {
  return `would become an option of ${program}: it must not begin with ${sign}`;
}

/** The file name of a program; undefined where a reference whose value is not known is part of it. */
function nameOf({ parts, value }: Word): string | undefined {
  const last = value ?? parts.at(-1) ?? '';
  if (typeof last !== 'string') return undefined;
  if (value === undefined && parts.length > 1 && !last.includes('/')) return undefined;
  return last.slice(last.lastIndexOf('/') + 1);
}

/** Each state once. */
function toStates(states: readonly State[]): States {
  return new Map(states.map((state) => [keyOf(state), state]));
}

function keyOf(state: State): string {
  if (typeof state === 'string') return state;
  if ('wrapper' in state) return `${WRAPPERS.indexOf(state.wrapper)} ${state.next} ${state.operands}`;
  const { program, interpreter, next, isOperandCode } = state;
  return JSON.stringify([program, INTERPRETERS.indexOf(interpreter), next, isOperandCode]);
}
