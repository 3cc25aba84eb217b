"""The RLM kernel: a cell of plain language is a prompt, and the model drives a second kernel, behind this one.

`cell` tells prompts from code, `commands` are this kernel's own (`%context`, `%model`, `%limits`, `%rlm_key`),
`driven` is the kernel behind and what is kept there, `page` sends what there is to see, `assistance` completes
and inspects, `kernel` and `app` speak the Jupyter protocol.
"""
