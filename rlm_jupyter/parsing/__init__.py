"""What a model's reply says: prose and blocks, declared answers, the source of cells.

    fences           where fenced blocks begin and end
    source           what the source of a cell says, read as Python with IPython's additions
    shadowing        what a cell defines though the session has it, and what is mended before it is executed
    idempotence      whether a cell can come to anything else when it is executed again
    brackets         where the content of a declaration ends
    final            FINAL and FINAL_VAR in prose and in source
    reply            a whole reply: segments, and where the model starts to play the kernel
    file_signatures  which binary format bytes are in

All of it is text, or bytes, in, and values out, in time linear in them.
"""

from rlm_jupyter.parsing.final import (
    Declaration,
    Environment,
    bare_final,
    declarations,
    declared_in_prose,
    find_final_answer,
    literal_cell,
    mend_prose_final,
    unquoted,
)
from rlm_jupyter.parsing.idempotence import is_settled, may_advance
from rlm_jupyter.parsing.reply import ParsedReply, Reading, Segment, closed, parse
from rlm_jupyter.parsing.shadowing import mend_cell, shadowed_names
from rlm_jupyter.parsing.source import (
    constant_final,
    declares_ready,
    is_no_code,
    named_final,
    normal,
    only_constant_final,
    only_final,
    types_final,
    types_text,
)

__all__ = [
    "Declaration",
    "Environment",
    "ParsedReply",
    "Reading",
    "Segment",
    "bare_final",
    "closed",
    "constant_final",
    "declarations",
    "declared_in_prose",
    "declares_ready",
    "find_final_answer",
    "is_no_code",
    "is_settled",
    "literal_cell",
    "may_advance",
    "mend_cell",
    "mend_prose_final",
    "named_final",
    "normal",
    "only_constant_final",
    "only_final",
    "parse",
    "shadowed_names",
    "types_final",
    "types_text",
    "unquoted",
]
