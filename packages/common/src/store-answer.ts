/** What a store answered, for people: of its text only the code, since the rest may repeat what was signed. */
export function storeRefusal(status: number, text: string): string {
  const [, code] = /<Code>(\w{1,64})<\/Code>/.exec(text.slice(0, 4096)) ?? [];
  return `the store answers HTTP ${status}${code === undefined ? '' : ` (${code})`}`;
}
