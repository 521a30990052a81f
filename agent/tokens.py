"""The one token estimator (chunk sizes, buffer budgets, prompt sizes), safe for CJK.

A model's tokenizer is not known while a note is cut, so this counts what tokenizers agree on within some 20 %: a word
costs one token for each four characters begun, a CJK ideograph, kana or hangul syllable one each, a punctuation mark
one. Counting CJK by a quarter of its characters made chunks four times too large elsewhere (see ``failures.md``).
"""

from __future__ import annotations

import re

_WORDS = re.compile(
    r"[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
    r"|[^\W_\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+"
    r"|[^\w\s]|_"
)


def count_tokens(text: str) -> int:
    """Return the estimated number of model tokens in a text; 0 for white space alone."""
    total = 0
    for word in _WORDS.findall(text):
        length = len(word)
        total += 1 if length <= 4 else (length + 3) // 4
    return total
