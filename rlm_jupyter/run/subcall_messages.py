"""A sub-call's prompt as the message that its model is sent, and why one with images is not sent."""

from __future__ import annotations

from rlm_jupyter.models import Model
from rlm_jupyter.models.abilities import abilities_of
from rlm_jupyter.types.prompt import Prompt
from rlm_jupyter.types.values import Message, Subcall


def message_of(prompt: str, model: Model) -> Message:
    """Return a prompt as a message; a model that sees no images is told what they are."""
    if not isinstance(prompt, Prompt):
        return Message("user", prompt)
    abilities = abilities_of(model)
    if abilities.sees is False:
        return Message("user", prompt.blind)
    tokens = sum(abilities.image_tokens(image.width, image.height) for image in prompt.images)
    return Message("user", prompt.text, prompt.parts, tokens)


def problem_of(call: Subcall, index: int) -> str:
    """Say why a prompt's images can't be sent; empty where they can, or there are none."""
    prompt = call.prompts[index]
    if not isinstance(prompt, Prompt):
        return ""
    if call.kind == "rlm":
        return "a child takes a text: images are for llm_query"
    return prompt.problem or ("" if prompt.text.strip() else "there is no question beside the image")
