const duties: (() => Promise<void>)[] = [];

/** Has something done at the end of each test file of this process, for support code that keeps processes or files. */
export function atEndOfFile(duty: () => Promise<void>): void {
  duties.push(duty);
}

/** Does it; called by the setup file of the test projects. */
export async function cleanUp(): Promise<void> {
  for (const duty of duties) await duty();
}
