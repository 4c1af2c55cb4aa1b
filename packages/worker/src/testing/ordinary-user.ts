import { execFileSync } from 'node:child_process';

export interface OrdinaryUser {
  readonly uid: number;
  readonly gid: number;
}

/** @returns an unprivileged account that can read this checkout, or the reason to skip the test */
export function ordinaryUser(): OrdinaryUser | string {
  if (process.getuid?.() !== 0) return 'every test here runs as an ordinary user';
  let user: OrdinaryUser;
  try {
    user = { uid: idOfNobody('-u'), gid: idOfNobody('-g') };
  } catch {
    return 'there is no account nobody';
  }
  try {
    const read = `fs.readFileSync(${JSON.stringify(import.meta.filename)})`;
    execFileSync(process.execPath, ['-e', read], { ...user, stdio: 'ignore', cwd: '/' });
    return user;
  } catch {
    return 'the account nobody cannot read this checkout, or not run this Node';
  }
}

function idOfNobody(option: '-u' | '-g'): number {
  return Number(execFileSync('id', [option, 'nobody'], { encoding: 'utf8' }).trim());
}
