"""What real files made `structure` say wrongly: of comments, of code and languages it doesn't know, of lists."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest

from rlm_jupyter.prompts.structure import PROSE, structure

PROSE_EN = (
    "It was a bright morning when the ferry left the harbour. Nobody had seen the captain since Monday. "
    '"Where is he?" said Ada; "he promised to come." The clerk (a thin man of forty) shook his head. '
    "In 1921 the bridge was closed for 3 years. They waited, as they always had, for the bell to ring. "
) * 4

COMMENTS = {
    "shell": "#!/bin/bash\nset -e\n# first do this\ncd /tmp\n# then that\nls\n# at last\nrm x\n",
    "shell, spaced": "# Clean up.\n\n# first do this\ncd /tmp\n\n# then that\nls\n\n# at last\nrm x\n",
    "systemd": "# This is free software.\n# It may be changed.\n#\n# See the file.\n\n[Unit]\nDescription=A\n[Service]\nType=x\n",
    "cmake": "# Find it.\n\n# the paths\nfind_path(A b.h)\n\n# the library\nfind_library(C d)\n\n# what is set\nset(E 1)\n",
    "properties": "# hosts\na.host=x\n# ports\na.port=1\n# names\na.name=z\n## users\na.user=y\n",
    "YAML": "# the host\nhost: x\n\n# the port\nport: 1\n\n# the name\nname: z\n",
    "Dockerfile": "# build\nFROM a\n\n# copy\nCOPY b c\n\n# run\nRUN d\n",
    "gitignore": "# Python\n\n*.pyc\n__pycache__/\n\n# Editors\n\n*.swp\n\n# Packages\n\ndist/\nbuild/\n",
    "hashes alone": "### Begin\n## a\n## b\nx = 1\n## c\ny = 2\n",
    "in a fence": "It is so.\n\n```sh\n# first\ncd a\n# second\nls\n# third\nrm b\n```\n\nThat is all.\n",
}


@pytest.mark.parametrize("text", COMMENTS.values(), ids=COMMENTS)
def test_comments_are_no_headings(text: str) -> None:
    assert "headings" not in " ".join(structure(text))


MARKDOWN = {
    "blank lines": "# A\n\nThe one.\n\n## B\n\nThe other.\n\n## C\n\nThe last.\n",
    "text right behind": "# A\nThis is the first part.\n\n# B\nThis is the second part.\n\n# C\nThis is the last one.\n",
    "no blank lines": "## A\nThis is the first part.\n## B\nThis is the second part.\n## C\nThis is the last one.\n",
    "with code": "# A\n\n```sh\n# no heading\nls -l\n```\n\n## B\n\n```sh\ncd a; ls\n```\n\n## C\n\n```sh\nrm b\n```\n",
}


@pytest.mark.parametrize("text", MARKDOWN.values(), ids=MARKDOWN)
def test_headings_are_headings(text: str) -> None:
    assert "It has 3 headings" in " ".join(structure(text))


UNKNOWN_CODE = {
    "exports": "export A=1\nexport B=2\nexport PATH=$A:$B\n" * 4,
    "Makefile": "CC := gcc\nLD := ld\nAR := ar\nall: a.o\n\t$(CC) -o a a.o\nCFLAGS := -O2\n" * 3,
    "Pascal": "program A;\nvar x: integer;\nbegin\n  x := 1;\n  y := x + 1;\n  z := 3;\nend.\n" * 3,
    "C#": "using System;\nnamespace A.B\n{\n    public class C\n    {\n        private int x;\n        public int X { get; set; }\n"
    "        public override string ToString() {\n            return x;\n        }\n    }\n}\n",
    "PHP": "<?php\nnamespace A;\nclass B {\n    private $x;\n    public function y($z) {\n        return $this->x;\n    }\n"
    "    public static function w() {\n    }\n    protected function v() {\n    }\n}\n",
    "Swift": "import Foundation\nlet x: Int = 3\nvar y = 4\nlet z = 5\nfunc f(a: Int) -> Int {\n    let b = a\n    return b\n}\n"
    * 3,
    "Lua": "local x = 3\nlocal function f(a)\n  return a\nend\nfunction g(b)\n  return b\nend\nlet = 3\nfunction h()\nend\n"
    * 2,
    "Julia": "function f(x)\n  return x\nend\nfunction g(y)\n  return y\nend\nconst a = 3\nconst b = 4\nconst c = 5\n",
    "MATLAB": "function y = f(x)\n  y = x;\nend\nfunction g(x)\n  disp(x);\nend\nfunction h(x)\nend\nfunction i(x)\nend\n"
    * 2,
    "Perl": "use strict;\nuse warnings;\nuse File::Spec;\nuse A::B;\nmy $x = 3;\nsub f {\n    return $x;\n}\nuse C::D;\n",
    "Ruby": "require 'a'\nclass A < B\n  def f(x)\n    puts x\n  end\n  def g(y)\n    y\n  end\n  def h(z)\n  end\nend\n"
    * 2,
    "Scala": "import a.b.C\nclass A(x: Int) {\n  def f(y: Int): Int = {\n    y\n  }\n  def g(z: Int): Int = z\n  def h(w: Int) = w\n}\n"
    * 2,
    "Elixir": "defmodule A do\n  import B\n  def f(x) do\n    x\n  end\n  def g(y) do\n    y\n  end\n  def h(z), do: z\nend\n"
    * 2,
    "Groovy": "import a.b.C\nimport d.e.F\ndef f(x) {\n    x\n}\ndef g(y) {\n    y\n}\ndef h(z) {\n}\nimport i.j.K\n",
    "Haskell": "module A where\nimport Data.List\nimport Data.Char\nimport qualified Data.Map as M\nimport B\nimport C\nf :: Int -> Int\nf x = x\n",
    "requests": "DELETE /users/1\nDELETE /users/2\nUPDATE /users/3\nSELECT /users/4\nDELETE /users/5\n" * 3,
    "Python's changes": "--- a/x.py\n+++ b/x.py\n@@ -1,6 +1,7 @@\n import os\n def f(x):\n     return x\n+def g(y):\n+    return y\n"
    " class A:\n     def h(self):\n         pass\n if x:\n",
    "a tutorial": "Do so:\n\n```python\nimport a\nfrom b import c\n\ndef f(x):\n    return x\n\nclass A:\n    def g(self):\n"
    "        self.x = 3\n```\n",
    "Cython": "cimport a\nimport b\nfrom c cimport d\ndef f(x):\n    return x\ncdef int g(y):\n    return y\nclass A:\n    def h(self):\n",
}


@pytest.mark.parametrize("text", UNKNOWN_CODE.values(), ids=UNKNOWN_CODE)
def test_code_of_other_languages_is_not_named(text: str) -> None:
    assert not [line for line in structure(text) if "source code" in line or line == PROSE]


TYPESCRIPT = (
    "import { A } from './a';\nexport class B {\n  private x: number = 3;\n  public y: string;\n  private async f(): Promise<void> {\n"
    "    const z = await g();\n  }\n  public h(): void {\n  }\n}\nexport const k = 3;\n"
)
KNOWN_CODE = {
    "JavaScript or TypeScript": TYPESCRIPT,
    "JavaScript": "const a = require('a');\nfunction f(x) {\n  return x;\n}\nlet y = 3;\nmodule.exports = f;\nvar z = 4;\n",
    "Python": "import a\nfrom b import c\n\ndef f(x):\n    return x\n\nclass A(B):\n    def g(self):\n        self.x = 3 +\n"
    * 2,
    "Go": 'package a\nimport "fmt"\nfunc f(x int) int {\n  y := x\n  if err != nil {\n  }\n  return y\n}\n',
    "SQL": "CREATE TABLE a (\n  b int\n);\nINSERT INTO a VALUES (1);\nSELECT b FROM a;\nUPDATE a SET b = 2;\nDELETE FROM a;\n",
    "Java": "package a.b;\nimport java.util.List;\npublic class A {\n  @Override\n  public int x() {\n  }\n  private int y = 3;\n}\n",
}


@pytest.mark.parametrize("name", KNOWN_CODE)
def test_code_is_named(name: str) -> None:
    assert f"source code in {name}" in structure(KNOWN_CODE[name])[0]


OTHER_WORDS = {
    "HTML with links": '<li><a href="https://x1.com/a">Do as you like, no 1</a> <em>now</em></li>\n' * 20,
    "short names": "function a(e,o,d){var s=e.a,n=o.de,c=d.se;return a.no(o,e)+as.em(de,um,da)}" * 30,
    "base64": "MIIEowIBAAKCAQ/a/o/e+de+os/AoaE/do+se/em\n" * 30,
    "Hungarian": "A fiú reggel iskolába ment, és a tanár nem volt ott. Senki sem tudta, hogy hol van, de a híd zárva volt. "
    * 9,
    "Catalan": "El noi va anar a l'escola al matí i la mestra no hi era. Ningú no sabia la resposta, però els veïns de la casa ho van dir amb por. "
    * 9,
    "Romanian": "Băiatul a mers la școală de dimineață și nu a găsit pe nimeni. Podul este închis de un an, o dată cu drumul din sat, ca să nu se piardă. "
    * 9,
    "Afrikaans": "Die seun het in die oggend na die skool gegaan en die onderwyser was nie daar nie. Niemand het geweet wat om te doen nie. "
    * 9,
    "English with des and die": "The dies were cast as he died, and no man of the van door met him on his way to the den. "
    * 9,
}


@pytest.mark.parametrize("text", OTHER_WORDS.values(), ids=OTHER_WORDS)
def test_languages_that_are_not_told_are_not_named(text: str) -> None:
    assert "written in" not in " ".join(structure(text))


SCRIPTS = {
    "پسر صبح به مدرسه رفت. معلم کجا بود؟ هیچ کس جواب را نمی‌دانست. ": "Arabic letters",
    "لڑکا صبح اسکول گیا۔ استاد کہاں تھا؟ کسی کو جواب معلوم نہیں تھا۔ ": "Arabic letters",
    "ذهب الولد إلى المدرسة في الصباح. أين كان المعلم؟ لم يعرف أحد الجواب. ": "Arabic letters",
    "דער ייִנגל איז געגאַנגען אין שול. ווּ איז געווען דער לערער? קיינער האָט נישט געוווּסט. ": "Hebrew letters",
    "लड़का सुबह स्कूल गया। शिक्षक कहाँ था? किसी को उत्तर नहीं पता था। ": "Devanagari letters",
    "東京都議会議員選挙管理委員会。昭和五十年度予算総額。国立大学附属図書館。": "Chinese characters",
    "今天天气很好。我们去公园散步，看到了很多人在那里跑步。": "Chinese",
    "今日は天気がとても良いです。私たちは公園へ散歩に行きました。": "Japanese",
    "Мальчик утром пошёл в школу. Где был учитель? Никто не знал ответа. ": "Cyrillic letters",
    "Το αγόρι πήγε στο σχολείο το πρωί. Κανείς δεν ήξερε την απάντηση. ": "Greek",
}


@pytest.mark.parametrize(("text", "name"), SCRIPTS.items())
def test_letters_are_named_where_several_languages_have_them(text: str, name: str) -> None:
    assert structure(text * 9) == (f"It is written in {name}.", PROSE)


LANGUAGES = {
    "German": "Der Hund ist nicht in dem Haus. Die Katze wurde auch nicht gesehen, und eine Maus lief mit ihr durch den Garten. ",
    "French": "Le chat est dans la maison. Les enfants ne sont pas avec le chien sur la route du village, et il pleut. ",
    "Spanish": "El perro de los vecinos no es muy grande. Se va con su amigo por las tardes, y la casa está cerrada. ",
    "Italian": "Il cane dei vicini non è molto grande. La casa della nonna è chiusa da un anno, e i bambini sono nel giardino con gli amici. ",
    "Portuguese": "O cão dos vizinhos não é muito grande. Os meninos foram com uma amiga para a escola, mas não havia ninguém na rua. ",
    "Dutch": "De man in het huis is niet van plan om te gaan. Hij werd door zijn hond naar de stad gebracht, en dat is ook waar. ",
}


@pytest.mark.parametrize("name", LANGUAGES)
def test_languages_are_told_by_several_words(name: str) -> None:
    assert structure(LANGUAGES[name] * 5) == (f"It is written in {name}.", PROSE)


NO_PROSE = {
    "C#'s comments": "/// <summary>\n/// Gets the name of it. It may be null.\n/// </summary>\n/// <returns>The name.</returns>\nstring Name();\n"
    * 9,
    "PHP's comments": "/**\n * Returns the name of it. It may be null.\n * @return string\n */\nfunction name() {\n    return $this->name;\n}\n"
    * 9,
    "C's comments": "/* The name of it, which may be null. */\nstruct a;\n/* The number of it.\n * It is not 0.\n */\nlong b(c d);\n"
    * 9,
    "YAML": "openapi: 3\npaths:\n  /a:\n    get:\n      description: It returns the name of the user. It may be null.\n      type: string\n"
    * 9,
    "YAML, wrapped": "a:\n  description: |-\n    It returns the name of the user.\n    It may be null, or have no letters at all.\n  type: string\n"
    * 9,
    "Erlang": "-module(a).\n-export([f/1]).\nf(X) -> g(X).\n%% It returns the name. It may be null.\nh(Y) -> Y.\n" * 9,
    "COBOL": "       MOVE A TO B.\n       ADD 1 TO TOTAL-SUM.\n       PERFORM READ-NEXT UNTIL DONE.\n       STOP RUN.\n"
    * 9,
    "LaTeX": "\\section{Results}\nThe bridge was closed. Nobody knew why.\n\\begin{equation}\na = b\n\\end{equation}\n\\label{a}\n"
    * 9,
    "names of companies": "Acme Inc.\nFoo Ltd.\nBar Corp.\nHolm and Sons Ltd.\n" * 9,
    "addresses": "Main St. 1\nMr. Hugo Holm\nElm Rd. 3\nMrs. Ada Roth\n" * 9,
    "Lisp": '(defun f (x)\n  "Return the name of it. It may be nil."\n  (when x (g x)))\n(setq a 1)\n' * 9,
    "messages": 'msgid "The bridge is closed."\nmsgstr "Le pont est fermé."\n\n' * 9,
    "HTML": "<p>The bridge was closed. Nobody knew why.</p>\n<p>They waited for it. It rained.</p>\n" * 9,
    "settings": "# The name of it. It may be empty.\nname = x\n# The number of it. It is not 0.\nnumber = 1\n" * 9,
}


@pytest.mark.parametrize("text", NO_PROSE.values(), ids=NO_PROSE)
def test_sentences_in_something_else_are_no_running_text(text: str) -> None:
    assert PROSE not in structure(text)


WRAPPED = textwrap.fill(PROSE_EN, 70)
RUNNING = {
    "wrapped": WRAPPED,
    "in one line": PROSE_EN,
    "paragraphs": "\n\n".join([PROSE_EN] * 5),
    "indented": textwrap.indent(WRAPPED, "    "),
    "Windows' lines": WRAPPED.replace("\n", "\r\n"),
    "quoted": textwrap.indent(WRAPPED, "> "),
    "chapters": "\n\n".join(f"CHAPTER {number}\n\n{WRAPPED}" for number in ("I", "II", "III")),
    "headings": "\n\n".join(f"## Part {number}\n\n{PROSE_EN}" for number in range(4)),
    "numbered": "".join(
        f"{i}. The committee wrote down the price of timber. Nobody objected to it.\n" for i in range(9)
    ),
    "letters in brackets": "(a) The tenant shall pay the rent on the first day of each month; he may not withhold it.\n"
    * 9,
    "a dialogue": '"Where were you?" she asked.\n\n"At home."\n\n"All night long?"\n\nHe looked at the door, and then at her.\n\n'
    * 4,
    "a transcript": "ADA: Where were you last night?\nHUGO: I was at home. I told you so.\nADA: Nobody saw you there.\n"
    * 5,
    "a chat": "user: Where can I find the report for May?\nassistant: It is in the folder. Shall I open it?\n" * 9,
    "an e-mail": "From: Ada Holm <ada@x.org>\nTo: Hugo Roth <hugo@x.org>\nSubject: The bridge\n\nDear Hugo,\n\nthank you for your "
    "letter. The bridge is closed until June, and nobody knows why.\nI will ask the clerk. He should know.\n\nBest regards,\nAda\n"
    * 4,
    "subtitles": "1\n00:00:01,000 --> 00:00:03,500\nWhere were you last night?\n\n2\n00:00:04,000 --> 00:00:06,000\nI was at home. "
    "Nobody saw me there,\nbut that is not my fault.\n\n" * 9,
    "marks": "_Hamlet_ was played that night, and the house was full.[1] Mr. Brown, who had come\nfrom B---- by the mail-coach, sat "
    "in the pit.  He had paid 3s. 6d. for it, and *said* so.\n\n* * * * *\n\n" * 9,
    "capitals": "THE SOFTWARE IS PROVIDED AS IT IS, WITHOUT WARRANTY OF ANY KIND.\nNobody is liable for it. You may copy it.\n"
    * 9,
    "dashes": "— Where were you last night? she asked.\n— At home, as always. I told you so.\nHe looked at the door, and left.\n"
    * 9,
    "links": "The [bridge](https://x.org/a_b) was closed. See https://x.org/c?d=e for more; **nobody** knew `why`.\n"
    * 9,
    "list": "- The committee wrote down the price of timber.\n- Nobody objected to the plan, and it was adopted.\n" * 9,
}


@pytest.mark.parametrize("text", RUNNING.values(), ids=RUNNING)
def test_running_text_is_running_text(text: str) -> None:
    assert structure(text)[-1] == PROSE


@pytest.mark.parametrize(
    "line",
    [
        "part I knew well, for I had been there before, and it was not",
        "book I read in the winter of that year, when the ferry had",
        "Part I knew nothing of; it was the other one that I had seen.",
        "part 2 of it was lost, and nobody ever found it in the harbour",
        "Chapter 4.",
    ],
)
def test_lines_of_paragraphs_are_no_chapters(line: str) -> None:
    text = f"He had forgotten most of what he had once been told about the\n{line}\n\n" * 5
    assert "chapters" not in " ".join(structure(text))


@pytest.mark.parametrize(
    "name", ["CHAPTER {}", "Chapter {}.", "Kapitel {}: Der Weg", "chapter {}", "BOOK {}\r", "Part {} – The Road"]
)
def test_chapters_are_chapters(name: str) -> None:
    text = "\n\n".join(f"{name.format(number)}\n\nThe bridge was closed." for number in range(1, 5))
    assert "It has 4 chapters" in " ".join(structure(text))


def _keys(rows: list[dict[str, Any]]) -> str:
    return structure(json.dumps(rows))[0]


@pytest.mark.parametrize("count", [301, 900, 30_000])
def test_a_key_that_a_later_object_lacks_is_lacking(count: int) -> None:
    rows: list[dict[str, Any]] = [{"a": 1, "b": 2}] * (count - 1)
    assert "not in all of them: b (int)" in _keys([*rows, {"a": 1}])
    assert "not in all of them" not in _keys([*rows, {"a": 1, "b": 2}])


@pytest.mark.parametrize(
    ("values", "types"),
    [
        ([None] * 5 + [1.5] * 4, "float, or None"),
        ([1.5] * 9 + [None], "float, or None"),
        ([1] * 5 + ["x"] * 4, "int or str"),
        ([1] * 5 + ["x"] * 3 + [None], "int or str, or None"),
        ([1] * 5 + ["x"] * 3 + [1.5, True], "int, str, …"),
        ([None] * 9, "NoneType"),
        ([2] * 9, "int"),
    ],
)
def test_mixed_types_are_named(values: list[Any], types: str) -> None:
    assert f"with the keys price ({types}). `" in _keys([{"price": value} for value in values])


class Hostile(str):
    """Text whose methods raise."""

    def _raise(self, *_: object, **__: object) -> Any:
        raise RuntimeError("no method of it is to be called")

    startswith = endswith = find = count = split = splitlines = strip = lstrip = rstrip = lower = _raise
    __contains__ = __getitem__ = __iter__ = __len__ = __eq__ = __add__ = _raise
    __hash__ = str.__hash__


@pytest.mark.parametrize(
    "text",
    [
        "# A\n\nThe one.\n\n## B\n\nThe other.\n",
        '[{"a": 1}]',
        "CHAPTER I\n\nIt rained.\n" * 3,
        PROSE_EN,
        KNOWN_CODE["Java"],
        "a,b\n1,2\n3,4\n",
    ],
)
def test_methods_of_a_subclass_are_not_called(text: str) -> None:
    assert structure(Hostile(text)) == structure(text)
