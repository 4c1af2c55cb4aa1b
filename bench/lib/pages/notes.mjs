/**
 * Reads bench/notes.md: why goals are missed.
 * @param text sections headed `## BENCHMARK: start of the goal`
 * @returns `reasonOf(name, goal)`: the text of the section, or null
 */
export function readNotes(text) {
  const sections = text
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const [head, ...lines] = section.split('\n');
      const [name, ...goal] = head.split(': ');
      return { name: name.trim(), goal: goal.join(': ').trim(), reason: lines.join('\n').trim() };
    });
  return {
    reasonOf(name, goal) {
      const found = sections.find((section) => section.name === name && goal.startsWith(section.goal));
      return found?.reason ?? null;
    },
  };
}
