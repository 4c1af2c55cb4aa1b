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
  /** Whether its first operand is code, unless an option makes it data. */
  readonly beginsWithCode?: boolean;
  /** Whether an option, as it is written up to `=`, makes the first operand data. */
  readonly sparesOperand?: (option: string) => boolean;
  /** Whether options may come after operands. */
  readonly hasManyOperands?: boolean;
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

/** A program whose options are single letters or words after one `-`; those that `code` matches, without it, take code. */
function plain(names: RegExp, code: RegExp, letter = NONE, valued = NONE): Interpreter {
  return scripted({ names, code, loop: NONE, letter, valued });
}

export const INTERPRETERS: readonly Interpreter[] = [
  SHELL,
  PYTHON,
  plain(/^(?:R|Rscript)$/, /^e$/, /^[fg]$/, /^--(?:file|encoding|gui)$/),
  plain(/^php[\d.]*$/, /^[^cdfz]*[rBRE]$/, /^[^cdfz]*[cdfzFStT]$/),
  plain(/^lua(?:jit)?[\d.]*$/, /^[^lj]*e$/, /^[lj]$/),
  plain(/^julia$/, /^[iq]*[eE]$/, /^[LJCHtpm]$/),
  plain(/^bun$/, /^[ep]$/, /^r$/, /^--(?:preload|cwd|config)$/),
  plain(/^(?:groovy|scala|elixir|iex|clojure|clj|racket|ghc|gnuplot|octave|octave-cli)$/, /^e$/),
  plain(/^guile[\d.]*$/, /^c$/, /^[Llsx]$/),
  plain(/^matlab$/, /^(?:r|batch)$/, /^(?:sd|logfile)$/),
  plain(/^(?:pwsh|powershell)$/, /^c(?:o(?:m(?:m(?:a(?:nd?)?)?)?)?)?$/i, /^(?:ep|ex\w*|wd|wo\w*)$/i),
  // `deno eval CODE`
  { ...plain(/^deno$/, NONE), option: /^(?:-|eval$)/, makesOperandCode: (letters) => letters === 'val' },
  {
    ...plain(/^(?:su|runuser)$/, /^[^gGsTuw]*c$/, /[gGsTuw]$/, /^--(?:group|supp-group|shell|user)$/),
    hasManyOperands: true,
  },
  {
    ...plain(/^[gmn]?awk$/, /^e$/, /^[fFvEi]$/, /^--(?:field-separator|assign|include|load)$/),
    beginsWithCode: true,
    sparesOperand: (option) => /^(?:-[feE]|--(?:file|exec|source))/.test(option),
  },
  {
    ...plain(/^g?sed$/, /^[^fl]*e$/, /^[^el]*f$|^[nEr]*l$/, /^--line-length$/),
    beginsWithCode: true,
    sparesOperand: (option) => /^(?:-[^-]*[ef]|--(?:expression|file))/.test(option),
  },
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
export const CODE_OPTION =
  /^--(?:eval|print|(?:init-)?command|import|(?:experimental-)?loader|run|process-(?:begin|code|end)|expression|source)$/;

/** Variables whose value shells, interpreters, loaders and common tools execute, or load code from. */
export const CODE_VARIABLES: readonly string[] = (
  'BASH_ENV ENV PROMPT_COMMAND PS0 PS1 PS2 PS4 SHELLOPTS BASHOPTS LD_PRELOAD LD_AUDIT GCONV_PATH ' +
  'DYLD_INSERT_LIBRARIES PYTHONSTARTUP PYTHONBREAKPOINT PERL5OPT PERL5DB RUBYOPT NODE_OPTIONS BUN_OPTIONS ' +
  'JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS JAVA_OPTS MAVEN_OPTS GRADLE_OPTS R_PROFILE ' +
  'R_PROFILE_USER LUA_INIT LUA_INIT_5_2 LUA_INIT_5_3 LUA_INIT_5_4 MAKEFLAGS PAGER MANPAGER LESSOPEN ' +
  'LESSCLOSE EDITOR VISUAL BROWSER GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR ' +
  'GIT_ASKPASS SSH_ASKPASS RSYNC_RSH'
).split(' ');

/** A program that calls another one, which its arguments name. */
export interface Wrapper {
  readonly names: RegExp;
  /** Options whose value is the next word. */
  readonly valued: RegExp;
  /** Number of words between its options and the program. */
  readonly operands: number;
  /** Whether any of its options may have its value in the next word: it has too many of them. */
  readonly isLoose?: boolean;
  /** Words after which the program comes, wherever they stand. */
  readonly startsAt?: RegExp;
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
  { names: /^find$/, valued: NONE, operands: 0, startsAt: /^-(?:exec|execdir|ok|okdir)$/ },
  // The number, mask, file, folder or subcommand before the program.
  ...[
    /^(?:mpirun|mpiexec(?:\.\w+)?|orterun|prterun|horovodrun|srun|aprun|jsrun|ibrun)$/,
    /^(?:command|builtin|doas|setpriv|unshare|nsenter|prlimit|ionice|numactl|strace|ltrace|valgrind|xvfb-run|dbus-run-session|npx|bunx)$/,
  ].map((names) => ({ names, valued: NONE, operands: 0, isLoose: true })),
  ...[
    /^(?:taskset|chrt|flock|chroot|runcon|s6-setuidgid|chpst|setuidgid)$/,
    /^(?:conda|mamba|micromamba|uv|poetry|pipenv|pdm|pixi|nsys|perf)$/,
  ].map((names) => ({ names, valued: NONE, operands: 1, isLoose: true })),
  { names: /^(?:singularity|apptainer)$/, valued: NONE, operands: 2, isLoose: true },
];

/** The option of `env` that splits a text into words, and what of it is attached. */
export const SPLIT_OPTION = /^(?:-[^-uCS]*S|--split-string=?)(.*)$/s;
