/** What the word after an option is; `options`: an option or the first operand. */
export type Next = 'options' | 'value' | 'code' | 'loop';

/** How a program that takes code in an argument reads its options. */
export interface Interpreter {
  readonly names: RegExp;
  /** Whether its first operand is code after an option word with these letters. */
  readonly makesOperandCode: (letters: string) => boolean;
  /** What may come after a word of single letters; none: only operands, which are no code. */
  readonly afterLetters: (letters: string) => readonly Next[];
  /** What may come after `--name` without a value. */
  readonly afterLong: (name: string) => readonly Next[];
  /** Whether options may come after code. */
  readonly goesOnAfterCode: boolean;
}

const NEVER = (): boolean => false;
/** Unknown: the option may take the next word as its value. */
const EITHER = (): readonly Next[] => ['options', 'value'];

/** `-c` makes the first operand code, wherever it stands among the options: `-ec`, `-c -e`, `-o errexit -c`. */
const SHELL: Interpreter = {
  names: /^r?(?:ba|da|a|z|k|mk|c|tc|fi)?sh[\d.-]*$/,
  makesOperandCode: (letters) => letters.includes('c'),
  afterLetters: (letters) => {
    if (/[oO]$/.test(letters)) return ['value'];
    // zsh reads the rest of the word as the value.
    return /[oO]/.test(letters) ? EITHER() : ['options'];
  },
  afterLong: (name) => (/^--(?:rcfile|init-file|emulate)$/.test(name) ? ['value'] : ['options']),
  goesOnAfterCode: false,
};

const PYTHON: Interpreter = {
  names: /^(?:python|pypy)[\d.]*[a-z]*(?:-dbg)?$/,
  makesOperandCode: NEVER,
  afterLetters: (letters) => {
    const [, letter = '', rest = ''] = /^[^cmWXQ]*([cmWXQ]?)(.*)$/s.exec(letters) ?? [];
    if (letter === 'm' || (letter === 'c' && rest !== '')) return [];
    if (letter === '' || rest !== '') return ['options'];
    return letter === 'c' ? ['code'] : ['value'];
  },
  afterLong: EITHER,
  goesOnAfterCode: false,
};

/** @param code letters of options whose value is code @param loop those that make what follows a loop @param valued those that take another value */
function scripted(names: RegExp, code: RegExp, loop: RegExp, valued: RegExp): Interpreter {
  return {
    names,
    makesOperandCode: NEVER,
    afterLetters: (letters) => {
      if (code.test(letters)) return ['code'];
      if (loop.test(letters)) return ['loop'];
      return valued.test(letters) ? ['value'] : ['options'];
    },
    afterLong: EITHER,
    goesOnAfterCode: true,
  };
}

export const INTERPRETERS: readonly Interpreter[] = [
  SHELL,
  PYTHON,
  scripted(/^perl[\d.]*$/, /^[^MmI]*[eE]$/, /^[^MmIi]*[pn]$/, /^[^Mm]*I$/),
  scripted(/^j?ruby[\d.]*$/, /^[^IrCEFK]*e$/, /^[^IrCEFK]*[pn]$/, /^[^IrCEFK]*[IrCE]$/),
  scripted(/^node(?:js)?[\d.]*$/, /[ep]$/, /n$/, /[rC]$/),
];

/** Long options whose value is code, of any of them; modules of node may be `data:` URLs. */
export const CODE_OPTION = /^--(?:eval|print|(?:init-)?command|import|(?:experimental-)?loader)$/;

/** Programs that call another one, which their arguments name. */
export const WRAPPER = /^(?:env|exec|busybox[\w.-]*)$/;
