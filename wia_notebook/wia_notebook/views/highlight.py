"""What a word of each language is: one pattern a language, used by Python and by the browser.

Groups name the class of a word: ``cm`` comment, ``st`` string, ``kw`` keyword, ``ty`` type,
``op`` operation, ``va`` value or register, ``nu`` number, ``la`` label. Patterns keep to what
Python's ``re`` and JavaScript's ``RegExp`` both read; they never span lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

_NUMBER = (
    r"(?P<nu>(?<![\w.%$])-?(?:0[xX][\da-fA-F]+|0[fFdD][\da-fA-F]{8,16}|"
    r"\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?)(?![\w]))"
)
_STRING = r'(?P<st>"(?:[^"\\]|\\.)*")'

PATTERNS: dict[str, str] = {
    "wia": (
        r"(?P<cm>//.*|#.*|/\*.*?(?:\*/|$))|" + _STRING + "|"
        r"\b(?P<kw>kernel|func|input|output|inout|let|for|in|step|while|if|else|return|schedule|pattern|match|rewrite|true|false)\b|"
        r"\b(?P<ty>tensor|f64|f32|f16|bf16|i64|i32|i16|i8|u8|bool)\b|"
        r"(?P<op>\b[A-Za-z_]\w*(?=\s*\())|" + _NUMBER
    ),
    "mlir": (
        r"(?P<cm>//.*)|" + _STRING + "|"
        r"(?P<va>[%^]\w+(?:[#:]\d+)?)|(?P<la>@[\w.$]+)|"
        r"(?P<ty>!?\b(?:wia\.tensor|wia\.literal|tensor|memref|vector|strided|index|f64|f32|f16|bf16|u?i\d+)\b(?![.\w])|(?<=[x<])(?:f64|f32|f16|bf16|u?i\d+)\b)|"
        r"\b(?P<op>(?:wia|tile|func|arith|math|scf|memref|vector|gpu|cf|llvm|tpu|builtin|linalg|affine)\.[\w.]+)|"
        r"\b(?P<kw>in|step|axis|axes|at|ins|outs|bounds|reduce|attributes|to|iter_args|else|dense|affine_map|loc|true|false)\b|"
        + _NUMBER
    ),
    "llvm": (
        r"(?P<cm>;.*)|" + _STRING + "|"
        r"(?P<la>^\s*[\w.$-]+:|[@!][\w.$-]+)|(?P<va>[%#][\w.-]+)|"
        r"\b(?P<ty>void|ptr|half|bfloat|float|double|i\d+|label|metadata)\b|"
        r"\b(?P<op>load|store|getelementptr|alloca|br|ret|switch|phi|select|call|fmul|fadd|fsub|fdiv|frem|fneg|fcmp|icmp|add|sub|mul|sdiv|udiv|srem|urem|shl|lshr|ashr|and|or|xor|zext|sext|trunc|fpext|fptrunc|fptosi|sitofp|uitofp|fptoui|bitcast|insertelement|extractelement|shufflevector|unreachable|atomicrmw|cmpxchg|fence)\b|"
        r"\b(?P<kw>define|declare|target|attributes|source_filename|triple|datalayout|global|constant|internal|private|tail|nuw|nsw|inbounds|align|noalias|nocapture|readonly|fast|contract|x)\b|"
        + _NUMBER
    ),
    "x86": (
        r"(?P<cm>#.*|;.*)|" + _STRING + "|"
        r"(?P<la>^\s*[.\w$]+:|\.L\w+)|(?P<kw>^\s*\.[a-z_]\w*)|"
        r"(?P<va>%?\b(?:[xyz]mm\d+|k[0-7]|r(?:[abcd]x|[sd]i|[bs]p|ip|\d+[dwb]?)|e(?:[abcd]x|[sd]i|[bs]p)|[abcd][lhx]|[sd]il?|[bs]pl?)\b)|"
        r"(?P<ty>\b(?:[xyz]mmword|[dqt]?word|byte)\s+ptr\b)|"
        r"(?P<op>^\s*(?:lock\s+|rep\w*\s+)?[a-z][a-z0-9]*)|" + _NUMBER
    ),
    "aarch64": (
        r"(?P<cm>//.*)|" + _STRING + "|"
        r"(?P<la>^\s*[.\w$]+:|\.L\w+)|(?P<kw>^\s*\.[a-z_]\w*)|"
        r"(?P<va>\b(?:[xwvqdshb]\d+(?:\.\d*[bhsd])?|sp|xzr|wzr)\b(?:\[\d+\])?)|"
        r"(?P<op>^\s*[a-z][a-z0-9]*(?:\.[a-z]{2})?)|" + _NUMBER
    ),
    "ptx": (
        r"(?P<cm>//.*|/\*.*?(?:\*/|$))|" + _STRING + "|"
        r"(?P<la>^\s*\$?[\w$]+:|\$[\w$]+)|"
        r"(?P<kw>(?<![\w%])\.(?:version|target|address_size|visible|entry|func|param|reg|shared|global|local|const|align|maxntid|reqntid|minnctapersm|loc|file|section|extern|weak|pragma)\b)|"
        r"(?P<va>%[\w.]+)|"
        r"(?P<ty>(?<!\w)\.(?:pred|[bsuf](?:8|16|32|64)|f16x2|bf16|bf16x2|b128)\b(?=\s+[%\w<]))|"
        r"(?P<op>(?:(?<=[;{}\t ])|^)(?:@!?%?\w+\s+)?[a-z][a-z0-9]*(?:\.[\w:]+)*(?=\s|;))|" + _NUMBER
    ),
    "sass": (
        r"(?P<cm>/\*.*?\*/|//.*)|(?P<la>^\s*\.\w+:|`\([^)]*\))|"
        r"(?P<va>\b(?:U?R(?:\d+|Z)|U?P(?:\d+|T)|SR_[\w.]+|B\d+)\b|!?U?PT\b|c\[0x[\da-f]+\]\[[^\]]*\])|"
        r"(?P<op>\b[A-Z][A-Z0-9]+\d?(?:\.[A-Z0-9_]+)*\b)|" + _NUMBER
    ),
    "tpu": (
        r"(?P<cm>//.*|#.*|;.*)|" + _STRING + r"|(?P<la>^\s*[\w.]+:)|(?P<kw>^\s*\.[a-z]\w*)|"
        r"(?P<op>^\s*[a-z_]\w*)|(?P<va>[%@$]\w+|\b(?:v|s|acc|hbm|vmem|weights?)\d*\b(?=\s*[\[,+]))|"
        r"\b(?P<ty>f32|bf16|f16|i32|i8)\b|" + _NUMBER
    ),
    "text": r"(?P<cm>(?!))",
}


def javascript_patterns() -> dict[str, str]:
    """The same patterns as JavaScript spells named groups."""
    return {language: pattern.replace("(?P<", "(?<") for language, pattern in PATTERNS.items()}


def words(language: str, line: str) -> Iterator[tuple[str, str]]:
    """The line cut into (class, text); the class is empty for what has none."""
    pattern = re.compile(PATTERNS.get(language, PATTERNS["text"]))
    position = 0
    for match in pattern.finditer(line):
        if match.start() > position:
            yield "", line[position : match.start()]
        if match.group():
            yield match.lastgroup or "", match.group()
        position = match.end()
    if position < len(line):
        yield "", line[position:]


def html(language: str, line: str) -> str:
    """One line as escaped HTML, a ``<span class="w-KIND">`` around each word that has a class."""
    return "".join(
        f'<span class="w-{kind}">{escape(text)}</span>' if kind else escape(text)
        for kind, text in words(language, line)
    )


def opcode(language: str, line: str) -> str:
    """The operation of one line of machine text, without its guard; empty where there is none."""
    for kind, text in words(language, line):
        if kind == "op":
            return text.split()[-1]
    return ""
