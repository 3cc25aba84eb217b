/** The style takes all colours and fonts from the theme, so that it is right in every one. */

import { readFileSync } from 'fs';
import { join } from 'path';

const style = readFileSync(join(__dirname, '..', 'style', 'base.css'), 'utf-8').replace(/\/\*[\s\S]*?\*\//g, '');
const declarations = style.split('\n').flatMap(line => /^\s+([\w-]+): (.*);$/.exec(line)?.slice(1, 3).join(': ') ?? []);

test('colours and fonts are those of the theme', () => {
  expect(declarations.length).toBeGreaterThan(100);
  const own = /: (?:.* )?(?:#[0-9a-f]{3,8}|rgba?\(.*|hsla?\(.*|white|black|gr[ae]y|red|green|blue)(?: .*)?$/i;
  expect(declarations.filter(line => own.test(line))).toEqual([]);
  const themed = /^(?:color|background|border-\w+-color|font-family|font-size): /;
  const coloured = declarations.filter(line => themed.test(line));
  expect(coloured.filter(line => !/var\(--(?:jp|rlm)-|: (?:inherit|none)$/.test(line))).toEqual([]);
});

test('whatever takes the focus shows it', () => {
  const focusable = ['.rlm-button', '.rlm-runs-link', '.rlm-status-button', '.rlm-runs summary', '.rlm-child'];
  const outlined = [...style.matchAll(/([^{}]+)\{[^}]*outline: 2px solid[^}]*\}/g)].map(match => match[1]).join();
  expect(focusable.filter(name => !outlined.includes(`${name}:focus-visible`))).toEqual([]);
});

test('no summary is an item of a list, for which a browser counts those of the whole page again', () => {
  const uncounted = /([^{}]+)\{\s*counter-increment: none;/.exec(style)?.[1] ?? '';
  const summaries = [...style.matchAll(/[.\w[\]='-]+ summary\b/g)].map(([name]) => name.replace(/\[.*\]/, ''));
  expect(summaries.length).toBeGreaterThan(4);
  expect(summaries.filter(name => !uncounted.includes(name))).toEqual([]);
});
