"""`Redactor`: takes what nobody should be sent by accident out of records and contexts.

The same secret becomes the same placeholder everywhere: `[key 1]`, `[user 1]`, and `~` for the home folder.
What is cut (the head of a prompt, the tail of an output) may hold a part of a secret: `settle`, once
everything was seen, makes a second pass find those as well.
"""

from __future__ import annotations

import base64
import binascii
import getpass
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from rlm_jupyter.models.providers import PROVIDERS
from rlm_jupyter.record.blobs import digest
from rlm_jupyter.record.redaction.patterns import Found, Kind, begins, found, is_common
from rlm_jupyter.record.redaction.pickles import rewritten
from rlm_jupyter.record.redaction.variants import partial, path_pattern, places, spellings
from rlm_jupyter.types.events import ReplyReceived, SubcallSettled
from rlm_jupyter.types.images import Image
from rlm_jupyter.types.values import PackedContext

_T = TypeVar("_T")
_NAMES = frozenset({"run_id", "parent", "child"})
"""Fields with a run's id: its words are those of the prompt, in small letters."""
_ID_END = re.compile(r"-[0-9a-f]{6}\Z")
"""Makes a run's id unlike all others: with its digits, words would look like a key."""
_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"%PDF", b"II*\0", b"MM\0*")
_SURE_CHARS = 16
_SHORTEST_CHARS = 8
_PREFIX_BYTES = 4
"""Of a text in a table's column: polars keeps them apart too, and loads no table in which the two differ."""
_ROOT = re.compile(r"(?:[A-Za-z]:)?[\\/]*")
"""Where all paths begin: no home folder of anybody."""
_MOST_CUT = 500
"""Keys that are looked for in parts: a list of thousands of them is looked for whole only."""


class Redactor:
    """Takes keys, home folders and user names out of values; the values themselves stay as they are.

    Parameters
    ----------
    values
        Texts that are secret, whatever they look like.
    home
        The home folder.
    user
        The user's name, taken out where it is a part of a path.
    """

    def __init__(self, values: Iterable[str] = (), *, home: str = "", user: str = "") -> None:
        self._placeholders: dict[tuple[Kind, str], str] = {}
        self._parts: list[str] = []
        self.places = 0
        """How many parts of texts were taken out."""
        self._values = sorted({value for value in values if _is_secret(value)}, key=len, reverse=True)
        homes = [] if _ROOT.fullmatch(home) else [path_pattern(home)]
        self._home = [re.compile(rf"(?:{spelling})(?![\w-])") for spelling in homes]
        self._home_in_bytes = [re.compile(spelling) for spelling in homes]
        named = rf"[/\\~]({re.escape(user)})(?![\w-]|\.\w)" if user and not is_common(user) else None
        self._user = None if named is None else re.compile(named)

    @classmethod
    def of_environment(cls) -> Redactor:
        """Make one for this machine: the providers' keys that are set, this user and their home folder."""
        values = [os.environ.get(name, "") for preset in PROVIDERS.values() for name in preset.secret_variables]
        try:
            user = getpass.getuser()
        except (OSError, KeyError, ImportError):  # a container's user may have no name
            user = ""
        return cls(values, home=os.path.expanduser("~"), user=user)  # noqa: PTH111 — never raises

    @property
    def keys(self) -> int:
        """How many different keys were found."""
        return len({placeholder for placeholder in self._placeholders.values() if placeholder.startswith("[key")})

    @property
    def people(self) -> int:
        """How many home folders and user names were found."""
        return len(set(self._placeholders.values())) - self.keys

    def settle(self) -> None:
        """Look for parts of what was found so far too, and count anew."""
        self.places = 0
        keys = [value for kind, value in self._placeholders if kind == "key"]
        self._placeholders.clear()
        if len(keys) <= _MOST_CUT:
            # a run's id has them in small letters
            low = {key: key.lower() for key in keys}
            cut = {v for v in keys for o in keys if o != v and (low[o].startswith(low[v]) or low[o].endswith(low[v]))}
            self._parts = [key for key in keys if len(key) >= _SURE_CHARS and key not in cut]

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        pieces, last = [], 0
        for start, end, placeholder in self._spans(text, within_words=False):
            pieces += [text[last:start], placeholder]
            last = end
        return "".join([*pieces, text[last:]]) if pieces else text

    def blob(self, data: bytes) -> bytes:
        """Return bytes without secrets, as long as before: they may be an array, or a table's column."""
        for width in (1, 2, 4):  # bytes of a character: text as numpy holds it has four
            if len(data) % width or (width > 1 and data.count(0) < len(data) * (width - 1) // width):
                continue
            characters = data[::width].decode("latin-1")
            spans = list(self._spans(characters, within_words=True))
            if spans:
                changed = bytearray(data)
                for start, end, placeholder in spans:
                    if not placeholder.startswith("[user") and (end - start >= _SURE_CHARS or placeholder == "~"):
                        start += _PREFIX_BYTES
                    instead = placeholder.encode().ljust(end - start, b"*")[: max(end - start, 0)]
                    changed[start * width : end * width : width] = instead
                data = bytes(changed)
        return data

    def value(self, value: Any) -> Any:
        """Return plain data, or a record's part, without secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self._item(str(key), item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(self.value, value))
        return self.record(value) if is_dataclass(value) and not isinstance(value, type) else value

    def record(self, record: _T, prompts: Mapping[str, str] | None = None) -> _T:
        """Return a record without secrets, that a notebook can be made of as before.

        Parameters
        ----------
        prompts
            Whole prompts by the id of the child run that was given them: a prompt that changes needs
            another digest, by which its answer is found again.
        """
        known: Any = record  # a dataclass, which the type can't say
        changes: dict[str, Any] = {}
        for field in fields(known):
            value = getattr(known, field.name)
            is_name = field.name in _NAMES and isinstance(value, str)
            changes[field.name] = self._name(value) if is_name else self.value(value)
        if isinstance(record, ReplyReceived) and record.read is not None:
            head = self.text(record.text[: record.read])
            changes |= {"text": head + self.text(record.text[record.read :]), "read": len(head)}
        if isinstance(record, SubcallSettled):
            prompt = record.prompt or (prompts or {}).get(record.child or "")
            if prompt is None and len(record.prompt_head) == record.prompt_chars:
                prompt = record.prompt_head
            if prompt is not None and (new := self.text(prompt)) != prompt:
                encoded = new.encode("utf-8", "surrogatepass")
                changes |= {"prompt_sha256": hashlib.sha256(encoded).hexdigest(), "prompt_chars": len(new)}
        if isinstance(record, Image) and (data := self.blob(record.data)) != record.data:
            changes |= {"data": data, "sha256": hashlib.sha256(data).hexdigest()}
        changed: _T = replace(known, **changes)
        return changed

    def context(self, packed: PackedContext) -> PackedContext:
        """Return a context without secrets; nothing is unpickled."""
        if packed.kind == "none":
            return packed
        first, *others = (bytes(buffer) for buffer in packed.buffers)
        if packed.kind == "str":
            first = self.text(str(first, "utf-8", "surrogatepass")).encode("utf-8", "surrogatepass")
        elif packed.kind == "bytes":
            first = self._plain_bytes(first)
        else:
            try:
                first = rewritten(first, self.text, self.blob)
            except ValueError:
                first = self.blob(first)
        buffers = (first, *map(self.blob, others))
        info = replace(self.record(packed.info), sha256=digest(buffers), nbytes=sum(map(len, buffers)))
        return PackedContext(packed.kind, buffers, info)

    def _plain_bytes(self, data: bytes) -> bytes:
        try:
            text = str(data, "utf-8")
        except UnicodeDecodeError:
            return self.blob(data)
        return self.text(text).encode()

    def _item(self, key: str, item: Any) -> Any:
        """Return a part of a bundle: pictures are looked into as the bytes that they are."""
        if isinstance(item, str) and key.partition("/")[0] in {"image", "application"}:
            try:
                data = base64.b64decode("".join(item.splitlines()), validate=True)
            except (binascii.Error, ValueError):
                return self.text(item)
            if data.startswith(_MAGIC):
                clean = self.blob(data)
                return item if clean == data else base64.b64encode(clean).decode()
        return self.value(item)

    def _name(self, name: str) -> str:
        """Return a run's id: of a key that stood in the prompt, it has the letters made small."""
        end_of_id = _ID_END.search(name)
        own = "" if end_of_id is None else end_of_id[0]
        name = name.removesuffix(own)
        for value in self._parts:
            slug = re.sub(r"\W+", "-", value.lower())
            for start, end in partial(name.lower(), slug):
                name = f"{name[:start]}{self._placeholder('key', value)}{name[end:]}"
                self.places += 1
                break
        return re.sub(r"\[(key|user) (\d+)\]", r"\1\2", self.text(name)) + own

    def _spans(self, text: str, *, within_words: bool) -> Iterator[tuple[int, int, str]]:
        """Yield what is taken out, in order and without overlaps, with what stands there instead."""
        parts = sorted(self._found(text, within_words=within_words), key=lambda part: (part.start, -part.end))
        merged: list[Found] = []
        for part in parts:
            if merged and part.start < merged[-1].end:
                before = merged[-1]
                kind: Kind = "key" if "key" in (before.kind, part.kind) else before.kind
                merged[-1] = Found(before.start, max(before.end, part.end), kind)
            else:
                merged.append(part)
        for part in merged:
            self.places += 1
            yield part.start, part.end, self._placeholder(part.kind, text[part.start : part.end])

    def _found(self, text: str, *, within_words: bool) -> Iterator[Found]:
        yield from found(text, within_words=within_words)
        for value in self._values:
            for spelling in spellings(value):
                yield from (Found(at, at + len(spelling), "key") for at in places(text, spelling))
        for pattern in self._home_in_bytes if within_words else self._home:
            for match in pattern.finditer(text):
                if within_words or (begins(text, match.start()) and text[match.start() - 1 : match.start()] != "."):
                    yield Found(*match.span(), "home")
        if self._user is not None:
            yield from (Found(*match.span(1), "user") for match in self._user.finditer(text))
        for value in self._parts:
            yield from (Found(start, end, "key") for start, end in partial(text, value))

    def _placeholder(self, kind: Kind, secret: str) -> str:
        if (kind, secret) not in self._placeholders:
            new = "~" if kind == "home" else self._same(kind, secret) or f"[{kind} {self._count(kind) + 1}]"
            self._placeholders[kind, secret] = new
        return self._placeholders[kind, secret]

    def _same(self, kind: Kind, secret: str) -> str | None:
        """Return the placeholder of what this is another spelling, or a part, of."""
        if kind != "key":
            return None
        for value in self._values:
            if value != secret and secret in spellings(value):
                return self._placeholder(kind, value)
        for value in self._parts:
            if value != secret and (0, len(secret)) in partial(secret, value):
                return self._placeholder(kind, value)
        return None

    def _count(self, kind: Kind) -> int:
        return len({p for p in self._placeholders.values() if p.startswith(f"[{kind} ")})


def _is_secret(value: str) -> bool:
    """Return whether a provider's variable holds a secret, and no word such as `ollama` that servers take as well."""
    long = len(value) >= _SURE_CHARS
    return long or (len(value) >= _SHORTEST_CHARS and any(char.isdigit() for char in value))
