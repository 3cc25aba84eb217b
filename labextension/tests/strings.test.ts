/** Everything that people read goes through the translation, in a form that a catalogue can be made of. */

import { readdirSync, readFileSync } from 'fs';
import { join } from 'path';

import ts from 'typescript';

const SOURCES = join(__dirname, '..', 'src');
const METHODS = new Set(['__', '_n', '_p', '_np']);
/** Text that people read: a word that begins with a capital letter, or words with a blank between them. */
const READ = /^[A-Z][a-z]+(?:[ ….:,]|$)|[a-z] [a-z]/;
/** Names, selectors, log lines and code, which stay as they are in every language. */
const NOT_READ = [
  /^(?:Recursive Language Model|Kernel|Enter|Tab)$/, // the side panel's type in Lab
  /^rlm_jupyter: /,
  /^from rlm_jupyter import RLM$/, // code of a cell
  /: (?:its settings could not be read|live cells need a newer version)$/, // for the console
  /^Shows the cells of a recursive language model/, // the plugin's description, for developers
  /^[.#[][\w-]/,
  /^rlm-[a-z]+ rlm-[a-z]*$/, // classes
  /^auto px$/, // a length
  /^(?:Uint8Array|JetBrains)/,
  /^<\/?\w+/
];

interface Found {
  text: string;
  where: string;
}

function look(source: string, name: string): { untranslated: Found[]; unreadable: Found[]; texts: string[] } {
  const untranslated: Found[] = [];
  const unreadable: Found[] = [];
  const texts: string[] = [];
  const file = ts.createSourceFile(name, source, ts.ScriptTarget.ES2020, true);
  const where = (node: ts.Node): string =>
    `${name}:${file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1}`;

  function literal(node: ts.Expression): string | null {
    if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) {
      return node.text;
    }
    if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) {
      const [left, right] = [literal(node.left), literal(node.right)];
      return left === null || right === null ? null : left + right;
    }
    return null;
  }

  function visit(node: ts.Node): void {
    if (ts.isImportDeclaration(node) || ts.isTypeNode(node)) {
      return;
    }
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
      const method = node.expression.name.text;
      if (METHODS.has(method)) {
        const count = method.endsWith('n') ? 2 : 1;
        const texted = node.arguments.slice(0, count).map(literal);
        if (texted.length < count || texted.includes(null)) {
          unreadable.push({ text: node.getText(file), where: where(node) });
        }
        texts.push(...texted.filter(text => text !== null));
        node.arguments.slice(count).forEach(visit);
        return;
      }
    }
    const isText = ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node);
    const text = isText ? node.text : ts.isTemplateExpression(node) ? node.getText(file).slice(1, -1) : '';
    const plain = text.replace(/\$\{[^}]*\}/g, '').trim();
    if (READ.test(plain) && !NOT_READ.some(shape => shape.test(plain))) {
      untranslated.push({ text, where: where(node) });
    }
    ts.forEachChild(node, visit);
  }
  visit(file);
  return { untranslated, unreadable, texts };
}

const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf-8' }).filter(name => name.endsWith('.ts'));
const seen = files.map(name => look(readFileSync(join(SOURCES, name), 'utf-8'), name));

test('there are strings to be translated', () => {
  const texts = seen.flatMap(({ texts }) => texts);
  expect(texts).toContain('Stop');
  expect(texts).toContain('%1 sub-calls in flight');
  expect(texts.length).toBeGreaterThan(80);
});

test('no text that people read goes past the translation', () => {
  expect(seen.flatMap(({ untranslated }) => untranslated)).toEqual([]);
});

test('each text stands in the call itself, where a catalogue is made from the sources', () => {
  expect(seen.flatMap(({ unreadable }) => unreadable)).toEqual([]);
});

test('a text that goes past it is seen', () => {
  const { untranslated, unreadable } = look(
    "button.title = 'Go there'; trans.__(NAME); trans.__('Fine'); say(`Not so ${fine}`); node.className = 'rlm-bar';",
    'a.ts'
  );
  expect(untranslated.map(({ text }) => text)).toEqual(['Go there', 'Not so ${fine}']);
  expect(unreadable.map(({ text }) => text)).toEqual(['trans.__(NAME)']);
});
