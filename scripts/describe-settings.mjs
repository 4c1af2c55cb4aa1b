/** A table of settings for a page. @param {readonly import('@longshore/common/settings/setting').Setting[]} settings */
export function settingsTable(settings) {
  const rows = settings.map(({ env, flag, default: value, description, allowed, required }) => [
    `\`${env}\``,
    flag === undefined ? '' : `\`--${flag}\``,
    required ? 'required' : value === undefined ? '' : `\`${value}\``,
    `${description} Must be ${allowed}.`.replaceAll('*', String.raw`\*`),
  ]);
  const table = [['variable', 'flag', 'default', 'meaning'], ...rows];
  const widths = [0, 1, 2, 3].map((column) => Math.max(...table.map((row) => row[column].length)));
  const line = (cells) => `| ${cells.map((cell, column) => cell.padEnd(widths[column])).join(' | ')} |`;
  const [head, ...body] = table.map(line);
  return [head, line(widths.map((width) => '-'.repeat(width))), ...body].join('\n');
}

/** Settings as comments of a file `.env`, with their defaults. */
export function settingsExample(settings) {
  return settings
    .map(({ env, default: value = '', description, allowed }) =>
      [...wrap(`${description} Must be ${allowed}.`), `#${env}=${value}`].join('\n'),
    )
    .join('\n\n');
}

const WIDTH = 120;

function wrap(text) {
  const lines = [];
  let line = '#';
  for (const word of text.split(' ')) {
    if (line.length + word.length >= WIDTH) {
      lines.push(line);
      line = '#';
    }
    line += ` ${word}`;
  }
  return [...lines, line];
}
