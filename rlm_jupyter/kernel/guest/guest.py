"""`Guest`: what our half of a kernel knows and does, whatever kernel it lives in."""

from __future__ import annotations

import os
import platform
import re
import threading
from collections.abc import Callable
from typing import Any

import zmq

from rlm_jupyter.kernel.guest import output_folder, values
from rlm_jupyter.kernel.guest.builtins import Surroundings
from rlm_jupyter.kernel.guest.codec import DRAFT, WireMessage, to_bytes
from rlm_jupyter.kernel.guest.exits import Exits
from rlm_jupyter.kernel.guest.final_functions import Finals, NamedFinals, as_share
from rlm_jupyter.kernel.guest.magics import SubcallMagics, keep_questions
from rlm_jupyter.kernel.guest.namespace import ProtectedNames
from rlm_jupyter.kernel.guest.output_folder import OutputFolder
from rlm_jupyter.kernel.guest.search import SEARCH, search_in
from rlm_jupyter.kernel.guest.subcall_client import SubcallClient, SubcallError, SubcallFailure
from rlm_jupyter.kernel.guest.subcall_functions import functions
from rlm_jupyter.kernel.guest.trajectory_view import NAME as TRAJECTORY
from rlm_jupyter.kernel.guest.trajectory_view import TrajectoryView
from rlm_jupyter.kernel.guest.wire import Wire
from rlm_jupyter.types.quoted import quoted

_LARGE = 65_536
"""Characters from which on a context that is handed on is named, and not sent."""
_TIMED = ("<timed exec>", "<timed eval>")
"""What `%time` and `%%time` name the source that they were given."""
_TIMES = re.compile(r"\A\s*%%time\b[^\n]*\n(.*)|^[^\S\n]*%time\b[^\S\n]*([^\n]*)", re.MULTILINE | re.DOTALL)


class Guest:
    """Names in the namespace, sub-calls, the declared answer, and the host's requests.

    Parameters
    ----------
    kernel
        The `ipykernel.ipkernel.IPythonKernel` that this guest lives in.
    names
        Keeps our names in its namespace; whoever gives it sets `context` himself.
    wire
        The type of its end of the control channel.
    """

    def __init__(self, kernel: Any, names: ProtectedNames | None = None, wire: type[Wire] = Wire) -> None:
        self._kernel = kernel
        self._shell = kernel.shell
        self._cells, self._is_timed = set[str](), False
        self._contexts, self._restored = dict[str, Any](), list[str]()
        self._outer, self._nested = "", 0
        self._outputs: OutputFolder | None = None
        self.on_stop: Callable[[str], None] = lambda cell: None
        """Told the cell that the host is about to interrupt (control thread)."""
        self.self_fork: Any = None
        """Forks the kernel, and takes texts that are passed to it (`SelfFork`); `None`: that is not possible."""
        self._watch_compiler()
        self._names = names or ProtectedNames(self._shell)
        self._surroundings = Surroundings() if names is None else None
        self._finals = Finals(
            self._shell.user_ns,
            self._is_cell,
            self._source,
            lambda: [name for name, _, _ in self._names.variables()],
            lambda: self.calls.announce(),
        )
        self.wire = wire(kernel, self._receive)
        self.calls = SubcallClient(self.wire, self.running_cell, self._refusal, self._context_name)
        self._trajectory = TrajectoryView(self.calls)
        self._names.protect(
            functions(self.calls)
            | self._finals.functions()
            | {"SHOW_VARS": self._names.show, "SubcallError": SubcallError, "SubcallFailure": SubcallFailure}
        )
        more: dict[str, Any] = {TRAJECTORY: self._trajectory, SEARCH: search_in(self._shell.user_ns)}
        taken = () if names is None else self._shell.user_ns  # a variable of the user's own stays theirs
        self._names.protect({name: value for name, value in more.items() if name not in taken})
        if names is None:
            self._names.protect({"context": ""})
        self._exits = Exits(self._shell)
        self._named_finals, self._questions = NamedFinals(), keep_questions("llm_query")
        self._shell.ast_transformers.append(self._named_finals)
        self._shell.register_magics(SubcallMagics)
        self._shell.input_transformers_cleanup.append(self._questions)
        self._shell.events.register("pre_run_cell", self._before_cell)
        self._shell.events.register("post_run_cell", self._after_cell)

    def renew(self, *, streams: bool = False) -> None:
        """Talk, in a fork, through the kernel's connection as it is now; with `streams`, print to what is there now."""
        self.wire.renew()
        self.calls.renew()
        if streams and self._surroundings is not None:
            self._surroundings.note_streams()

    def _watch_compiler(self) -> None:
        """Learn the file name of every cell that the host sends, and of no other code.

        Nested `run_cell` calls (a document, say) are compiled through the same compiler, but their source is
        not that of the request being executed.
        """
        compiler = self._shell.compile
        named = compiler.get_code_name

        def get_code_name(raw_code: str, code: str, number: int) -> str:
            name: str = named(raw_code, code, number)
            source = self._source()
            # %%capture and its kin run the rest of the cell as a cell of its own
            is_rest = source.startswith("%%") and source.rstrip().endswith(raw_code.rstrip())
            if threading.current_thread() is threading.main_thread() and (raw_code == source or is_rest):
                self._cells.add(name)
            return name

        parsed = compiler.ast_parse

        def ast_parse(source: str, *args: Any, **options: Any) -> Any:
            self._is_timed = threading.current_thread() is threading.main_thread() and self._times(source)
            return parsed(source, *args, **options)

        self._unwatched = named, parsed
        compiler.get_code_name = get_code_name
        compiler.ast_parse = ast_parse

    def _is_cell(self, name: str) -> bool:
        return name in self._cells or (self._is_timed and name in _TIMED)

    def _times(self, source: str) -> bool:
        """Return whether `%time` or `%%time` of the running cell has this source: then it is part of the cell."""
        return any(
            self._shell.transform_cell(timed) == source
            for match in _TIMES.finditer(self._source())
            for timed in match.groups()
            if timed
        )

    def _source(self) -> str:
        """Return the source of the execute request being served, or of the last one."""
        return str(self._kernel.get_parent("shell").get("content", {}).get("code", ""))

    def running_cell(self) -> str:
        """Return the id of the execute request being served, or of the last one."""
        header = self._kernel.get_parent("shell").get("header", {})
        return str(header.get("msg_id", ""))

    def _refusal(self) -> str | None:
        return None if self._finals.answer is None else "the answer is recorded, the run ends with this cell"

    def _before_cell(self, info: Any) -> None:
        request = self.running_cell()
        if request == self._outer:
            # a cell in a cell, such as that of `%%capture`, which has put another stream in place
            self._nested += 1
        elif not info.silent:
            self._outer, self._nested = request, 0
            self._exits.happened = False
            self._restored += self._names.restore()
            self._mend()

    def _after_cell(self, result: Any) -> None:
        self._exits.settle(result)
        if self._nested:
            self._nested -= 1
        else:
            self._mend()

    def _mend(self) -> None:
        """Put back what cells rely on: after a cell, too, because ipykernel tells the streams whose turn is next."""
        if self._surroundings is not None:
            self._restored += self._surroundings.restore()

    def _receive(self, message: WireMessage) -> None:
        """Serve a message of the host (control thread)."""
        if message.type == "rlm_reply":
            self.calls.settle(message)
        elif message.type == "rlm_stop":
            self.calls.stop(message.content["cell"], message.content["reason"])
            self.on_stop(message.content["cell"])
        elif message.type == "rlm_fork" and self.self_fork is not None:
            self.self_fork.ask(message)
        elif message.type == "rlm_look":
            shell = self._kernel.shell_stream
            shell.io_loop.add_callback(shell.flush, zmq.POLLIN)
        else:
            try:
                content, buffers = self._serve(message)
            except Exception as error:  # noqa: BLE001  the host is told, whatever it was
                content, buffers = {"error": f"{type(error).__name__}: {error}"}, []
            self.wire.reply(message, content, buffers)

    def _serve(self, message: WireMessage) -> tuple[dict[str, Any], list[bytes]]:
        asked = message.content
        match message.type:
            case "rlm_attach":
                self.wire.attach(message.idents)
                return {"pid": os.getpid(), "python": platform.python_version()}, []
            case "rlm_context" if asked["kind"] == "shared":
                self._set_context(asked["name"], self.self_fork.text(**asked["form"]))
            case "rlm_context":
                self._set_context(asked["name"], values.load(asked["kind"], message.buffers))
            case "rlm_put":
                self._names.provide({asked["name"]: values.load(asked["kind"], message.buffers)})
            case "rlm_provide":
                self._names.provide(values.load("pickle", message.buffers))
            case "rlm_tools":
                from rlm_jupyter.kernel.guest.tool_functions import tool_functions  # most runs have none

                self._names.protect(tool_functions(self.calls, asked["tools"]))
            case "rlm_outputs":
                self._outputs = OutputFolder()
                self._names.protect({output_folder.NAME: self._outputs.path})
            case "rlm_begin" | "rlm_reopen" as which:
                self._finals.reset()
                if which == "rlm_begin":
                    self._finals.takes_none = asked["takes_none"] is True
                    self._restored.clear()
                    self._trajectory.forget()
                    self._lend_run()
            case "rlm_inspect":
                return self._inspect(), []
            case "rlm_get" | "rlm_changed" | "rlm_output" as which:
                return self._hand_over(which, asked)
            case _:
                raise ValueError(f"unknown request {message.type}")
        return {}, []

    def _hand_over(self, which: str, asked: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Return a variable, the context that a cell has set, or a file."""
        if which == "rlm_get":
            return self._get(asked.get("name"))
        if which == "rlm_changed":
            return self._changed(pickles=asked["pickles"])
        if self._outputs is None:
            raise LookupError("no files are asked for")
        return self._outputs.read(asked["name"], asked["most"])

    def _lend_run(self) -> None:
        """Lend what each prompt begins with; a `history` that the host put there, or the user's own, stays."""
        self._names.provide({"answer": {"content": "", "ready": False}})
        if "history" not in self._shell.user_ns:
            self._names.provide({"history": []})

    def _set_context(self, name: str, value: Any) -> None:
        self._contexts[name] = value
        self._names.protect({name: value, "context": value})

    def _context_name(self, text: str) -> str | None:
        """Return the name of the context that a text is: that very object, as the host has it too."""
        if len(text) < _LARGE:
            return None
        return next((name for name, value in self._contexts.items() if value is text), None)

    def _inspect(self) -> dict[str, Any]:
        finals = self._finals
        draft = self._shell.user_ns.get("answer")
        content = draft.get("content") if type(draft) is dict else None
        report = {
            "answer": "declared" if finals.answer else "refused" if finals.problem else "none",
            "problem": finals.problem,
            "confidence": as_share(self._shell.user_ns.get("confidence"))
            if finals.confidence is None
            else finals.confidence,
            "draft_ready": type(draft) is dict and draft.get("ready") is True,
            "draft": content is not None and not (type(content) is str and not content.strip()),
            "restored": self._restored.copy(),
            "notices": finals.notices.copy(),
            "exited": self._exits.happened,
            "variables": self._names.variables(),
        }
        finals.problem = ""
        finals.notices.clear()
        self._restored.clear()
        return report

    def _changed(self, *, pickles: bool) -> tuple[dict[str, Any], list[bytes]]:
        """Hand over what a cell has put in place of `context`, if one has."""
        value = self._shell.user_ns.get("context")
        if value is None or value is self._names.protected["context"]:
            return {"kind": "none"}, []
        kind, buffers = values.dump(value, pickles=pickles)
        return {"kind": kind, "type_name": values.type_name(value), "size": values.size(value)}, buffers

    def _get(self, name: str | None) -> tuple[dict[str, Any], list[bytes]]:
        confidence = None
        if name is None:
            if self._finals.answer is None:
                raise LookupError("no answer is declared")
            text, confidence = self._finals.answer, self._finals.confidence
        elif name == DRAFT:
            text = values.as_text(self._shell.user_ns["answer"]["content"])
        elif name in self._shell.user_ns:
            text = values.as_text(self._shell.user_ns[name])
        else:
            raise LookupError(f"there is no variable {quoted(name)}")
        buffers = [to_bytes(text.text)]
        if text.json is not None and text.type_name != "str":
            buffers.append(text.json.encode())
        return {"type_name": text.type_name, "confidence": confidence, "exact": text.is_exact}, buffers
