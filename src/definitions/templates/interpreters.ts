/** What the word after an option is; `options`: an option or the first operand. */
export type Next = 'options' | 'value' | 'code' | 'loop';

/** How a program that takes code in an argument reads its options. */
export interface Interpreter {
  readonly names: RegExp;
  /** How options begin. */
  readonly option: RegExp;
  /** Whether its first operand is code after an option word with these letters. */
  readonly makesOperandCode: (letters: string) => boolean;
  /** What may come after a word of single letters; none: only data. */
  readonly afterLetters: (letters: string) => readonly Next[];
  /** Long options whose value is the next word. */
  readonly valued: RegExp;
  /** Whether options may come after code. */
  readonly goesOnAfterCode: boolean;
}

const NEVER = (): boolean => false;
const NONE = /^$/;

/** `-c` makes the first operand code, wherever it stands among the options: `-ec`, `-c -e`, `-o errexit -c`. */
const SHELL: Interpreter = {
  names: /^r?(?:ba|da|a|z|k|mk|c|tc|fi)?sh[\d.-]*$/,
  option: /^[-+]/,
  makesOperandCode: (letters) => letters.includes('c'),
  afterLetters: (letters) => {
    if (/[oO]$/.test(letters)) return ['value'];
    // zsh reads the rest of the word as the value.
    return /[oO]/.test(letters) ? ['options', 'value'] : ['options'];
  },
  valued: /^--(?:rcfile|init-file|emulate)$/,
  goesOnAfterCode: false,
};

const PYTHON: Interpreter = {
  names: /^(?:python|pypy)[\d.]*[a-z]*(?:-dbg)?$/,
  option: /^-/,
  makesOperandCode: NEVER,
  afterLetters: (letters) => {
    const [, letter = '', rest = ''] = /^[^cmWXQ]*([cmWXQ]?)(.*)$/s.exec(letters) ?? [];
    if (letter === 'm' || (letter === 'c' && rest !== '')) return [];
    if (letter === '' || rest !== '') return ['options'];
    return letter === 'c' ? ['code'] : ['value'];
  },
  valued: /^--check-hash-based-pycs$/,
  goesOnAfterCode: false,
};

interface ScriptedOptions {
  readonly names: RegExp;
  /** Letters of options whose value is code. */
  readonly code: RegExp;
  /** Those that make what follows a loop. */
  readonly loop: RegExp;
  /** Those that take another value. */
  readonly letter: RegExp;
  readonly valued: RegExp;
}

function scripted({ names, code, loop, letter, valued }: ScriptedOptions): Interpreter {
  return {
    names,
    option: /^-/,
    makesOperandCode: NEVER,
    afterLetters: (letters) => {
      if (code.test(letters)) return ['code'];
      if (loop.test(letters)) return ['loop'];
      return letter.test(letters) ? ['value'] : ['options'];
    },
    valued,
    goesOnAfterCode: true,
  };
}

export const INTERPRETERS: readonly Interpreter[] = [
  SHELL,
  PYTHON,
  scripted({
    names: /^perl[\d.]*$/,
    code: /^[^MmI]*[eE]$/,
    loop: /^[^MmIi]*[pn]$/,
    letter: /^[^Mm]*I$/,
    valued: NONE,
  }),
  scripted({
    names: /^j?ruby[\d.]*$/,
    code: /^[^IrCEFK]*e$/,
    loop: /^[^IrCEFK]*[pn]$/,
    letter: /^[^IrCEFK]*[IrCE]$/,
    valued: /^--(?:(?:(?:ex|in)ternal-)?encoding|enable|disable)$/,
  }),
  scripted({
    names: /^node(?:js)?[\d.]*$/,
    code: /[ep]$/,
    loop: /n$/,
    letter: /[rC]$/,
    valued:
      /^--(?:require|conditions|env-file(?:-if-exists)?|input-type|experimental-default-type|disable-warning|unhandled-rejections|title|watch-path|diagnostic-dir|test-reporter(?:-destination)?|test-name-pattern)$/,
  }),
];

/** Long options whose value is code, of any of them; modules of node may be `data:` URLs. */
export const CODE_OPTION = /^--(?:eval|print|(?:init-)?command|import|(?:experimental-)?loader)$/;

/** A program that calls another one, which its arguments name. */
export interface Wrapper {
  readonly names: RegExp;
  /** Options whose value is the next word. */
  readonly valued: RegExp;
  /** Number of words between its options and the program. */
  readonly operands: number;
}

export const WRAPPERS: readonly Wrapper[] = [
  { names: /^env$/, valued: /^(?:-[^-uC]*[uC]|--unset|--chdir)$/, operands: 0 },
  { names: /^exec$/, valued: /^-[cl]*a$/, operands: 0 },
  { names: /^(?:busybox[\w.-]*|nohup|setsid|catatonit|.*entrypoint(?:\.sh)?)$/, valued: NONE, operands: 0 },
  { names: /^(?:su-exec|gosu)$/, valued: NONE, operands: 1 },
  { names: /^tini(?:-static)?$/, valued: /^-[^-pe]*[pe]$/, operands: 0 },
  { names: /^dumb-init$/, valued: /^(?:-[cv]*r|--rewrite)$/, operands: 0 },
  { names: /^timeout$/, valued: /^(?:-[^-ks]*[ks]|--kill-after|--signal)$/, operands: 1 },
  { names: /^nice$/, valued: /^(?:-n|--adjustment)$/, operands: 0 },
  {
    names: /^sudo$/,
    valued: /^(?:-[^-acCDghprRtTuU]*[acCDghprRtTuU]|--(?:user|group|host|prompt|chdir|chroot|role|type))$/,
    operands: 0,
  },
  { names: /^stdbuf$/, valued: /^(?:-[ioe]|--input|--output|--error)$/, operands: 0 },
  {
    names: /^xargs$/,
    valued: /^(?:-[^-adEILnPs]*[adEILnPs]|--(?:arg-file|delimiter|max-args|max-procs|max-chars))$/,
    operands: 0,
  },
  { names: /^time$/, valued: /^(?:-[^-fo]*[fo]|--format|--output)$/, operands: 0 },
];

/** The option of `env` that splits a text into words, and what of it is attached. */
export const SPLIT_OPTION = /^(?:-[^-uCS]*S|--split-string=?)(.*)$/s;
